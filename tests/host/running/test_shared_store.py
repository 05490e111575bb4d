from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore, Values


def test_a_mapped_name_without_a_value_is_not_there():
    store = NodeAwareSharedStore({"query": 1}, {"query": "search_terms"})
    assert "query" not in store
    assert list(store) == []
    with pytest.raises(KeyError):
        store["query"]


def test_own_writes_come_first_then_the_root_then_what_was_written_before():
    store = NodeAwareSharedStore({"a": "root"}, namespaced=True, before={"a": "before", "b": "before"})
    assert (store["a"], store["b"]) == ("root", "before")
    store["a"] = "now"
    assert store["a"] == "now"


def test_it_behaves_as_a_dictionary():
    shared = {"root": 1}
    store = NodeAwareSharedStore(shared, namespaced=True)
    store.setdefault("list", []).append(1)
    assert store["list"] == [1]
    assert store.pop("list") == [1]
    assert "list" not in store
    assert store.get("list", "none") == "none"
    with pytest.raises(KeyError):
        del store["root"]
    assert len(store) == 1
    assert repr(store) == "NodeAwareSharedStore({'root': 1})"
    store["__d__"] = 2
    assert (store["__d__"], shared) == (2, {"root": 1, "__d__": 2})


plain = st.sampled_from(["a", "b", "c"])


@given(
    st.lists(st.tuples(plain, st.integers() | st.none())),
    st.dictionaries(plain | st.just("__d__"), st.integers()),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["c", "x"])),
    st.booleans(),
)
def test_what_is_written_is_read_back_and_taking_back_undoes_it(changes, shared, outputs, namespaced):
    before = dict(shared)
    store = NodeAwareSharedStore(shared, {}, outputs, namespaced=namespaced)
    for key, value in changes:
        if value is not None:
            store[key] = value
            assert store[key] == value
            assert key in list(store)
            assert len(store) == len(list(store))
        else:
            with suppress(KeyError):
                del store[key]
    if namespaced:
        assert all(shared[key] == before[key] for key in before.keys() - {*outputs.values()})
    store.take_back()
    assert shared == before
    assert store.written == {}


def test_a_mapping_reads_a_name_at_the_root_before_a_path_and_is_told_if_it_is_neither():
    values = Values(None, {"a b": 1, "c.d": 2, "e": {"f": 3}})
    assert [values.find(name) for name in ("a b", "c.d", "e.f")] == [1, 2, 3]
    for name in ("f g", "e.g", "c.e"):
        with pytest.raises(LookupError):
            values.find(name)
