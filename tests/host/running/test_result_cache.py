import json
import os
import sqlite3
import stat
import sys
import time
from collections import OrderedDict
from contextlib import closing, contextmanager
from types import SimpleNamespace

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import remains
from system_limits import files_of_at_most
from workflow_parts import flow, step, trace_of

from pflow_mcp_plugin.contract import PflowError, RunControl, RunOptions, RunOrigin
from pflow_mcp_plugin.host.plugins import Plugin
from pflow_mcp_plugin.host.running import result_key
from pflow_mcp_plugin.host.running.result_cache import ResultCache, open_cache
from pflow_mcp_plugin.host.running.result_key import (
    NotKept,
    code_of,
    exact_json,
    exact_pieces,
)
from pflow_mcp_plugin.storage import StoreError

KEY = "ab" + "0" * 62
OTHER = "cd" + "1" * 62
MB = 1 << 20
SECRET = "Zq7xK2mP9wL4vB8nT3cR6yH1jF5dG0sA7eU2iO9p"


@pytest.fixture
def cache(tmp_path):
    return ResultCache(tmp_path / "results", 10 * MB)


@pytest.fixture
def more():
    """What the node `t-read` writes beside its value."""
    return {}


@pytest.fixture
def calls(bench, more):
    """A node that reads `n` and `name`; what it was given as `n`, in order."""
    calls = []

    @bench.acts("t-read", ["n", "name: str"], ["value"], inputs=("n", "name"), open_outputs=True)
    def read(shared, params):
        n, name = (params.get(key, shared.get(key)) for key in ("n", "name"))
        calls.append(n)
        shared.update({"value": [n, name, len(calls)], "error": None, **more})

    safe(bench, "t-read")
    return calls


def safe(bench, node_type, **fields):
    bench.known[node_type] = attrs.evolve(bench.known[node_type], **{"purity": "flow_safe", **fields})


def node(**more):
    return {**step("r", "t-read", {"n": 1}, cache=True), **more}


def run(bench, *nodes):
    return bench.run(flow(*nodes or [node()]))


def noted(outcome, number=0):
    return trace_of(outcome)["steps"][number]["details"].get("cache")


def folder(bench):
    return bench.host.paths.cache / "results"


def entries(folder):
    return ResultCache(folder, MB).usage().entries


def execute(folder, text, *values):
    with closing(sqlite3.connect(folder / "results.db")) as connection, connection:
        return connection.execute(text, values).fetchall()


def test_a_file_that_another_program_is_just_creating_takes_results(cache):
    cache.folder.mkdir(0o700)
    with closing(sqlite3.connect(cache.folder / "results.db")) as other:
        other.executescript("PRAGMA auto_vacuum = FULL")  # it has a page now, and no table yet
    cache.put(KEY, "default", b"{}")
    assert cache.usage().entries == 1


def test_a_second_run_uses_the_result_of_the_first_and_its_trace_says_so(bench, calls):
    first, second = run(bench), run(bench, node(id="of-another-name"))
    assert calls == [1]
    assert first.outputs == second.outputs == {"value": [1, None, 1]}
    assert noted(first) == {"kept": 1}
    assert noted(second)["cached"] == 1
    assert 0 <= noted(second)["age"] < 60


@pytest.mark.parametrize("other", [1.0, True, "1", None, [1]])
def test_another_value_of_a_parameter_or_another_type_is_a_miss(bench, calls, other):
    run(bench)
    run(bench, node(params={"n": other}))
    assert len(calls) == 2


def test_what_a_node_reads_from_the_shared_store_counts_byte_by_byte(bench, calls):
    workflow = flow(node(), inputs={"name": {"type": "str"}})
    for name in ("text", "text", "texT", "text ", "text"):
        assert bench.run(workflow, name=name).outputs["value"][1] == name
    assert len(calls) == 3


@pytest.mark.parametrize("why", ["not asked for", "said no", "impure", "no room"])
def test_nothing_is_kept_unless_somebody_asks_and_it_may_be(bench, calls, monkeypatch, why):
    asked = {"not asked for": None, "said no": False}.get(why, True)
    if why == "impure":
        safe(bench, "t-read", purity="impure")
    if why == "no room":
        monkeypatch.setenv("PFLOW_CACHE_LIMIT_MB", "0")
    assert noted(run(bench, node(cache=asked))) is noted(run(bench, node(cache=asked))) is None
    assert calls == [1, 1]
    assert not folder(bench).exists()


def test_a_fingerprint_stands_for_the_entry(bench, calls):
    safe(bench, "t-read", fingerprint="one")
    run(bench)
    safe(bench, "t-read", fingerprint="one", description="Only its text is another")
    run(bench)
    assert len(calls) == 1


def test_the_text_of_a_nodes_module_counts(tmp_path, monkeypatch, bench):
    path = tmp_path / "written_here.py"
    monkeypatch.setitem(sys.modules, "written_here", SimpleNamespace(__file__=str(path)))
    entry = attrs.evolve(bench.declare("t-x"), module="written_here")
    path.write_text("VALUE = 1\n")
    before = code_of(entry)
    path.write_text("VALUE = 2\n")
    assert code_of(entry) != before
    path.unlink()
    assert code_of(entry)


def test_results_are_not_shared_with_another_folder_plugin_or_owner(bench, calls, tmp_path, monkeypatch):
    run(bench)
    bench.host.runner.run(flow(node()), {}, origin=RunOrigin(owner="ann"))
    assert len(calls) == 2
    monkeypatch.chdir(tmp_path)
    run(bench)
    assert len(calls) == 3
    bench.host.plugins.all.append(Plugin("veto", module=object()))
    run(bench)
    run(bench)
    assert len(calls) == 4


def test_a_plugin_can_tell_results_apart_and_one_that_fails_to_makes_the_node_run(bench, calls):
    states = ["ann", "ann", "bob", PflowError("no such account"), ValueError("oh"), SystemExit(3), "ann"]

    def state():
        state = states.pop(0)
        if isinstance(state, BaseException):
            raise state
        return state

    @contextmanager
    def knows(run):
        run.distinguish("r", state)
        yield

    bench.plug(pflow_run_context=knows)
    details = [noted(run(bench)) for _ in range(7)]
    assert [next(iter(it)) for it in details] == ["kept", "cached", "kept", *["not_kept"] * 3, "cached"]
    assert "no such account" in details[3]["why"]
    assert len(calls) == 5


def test_a_result_is_used_for_its_time_and_no_longer(bench, calls, monkeypatch):
    now = time.time()
    for later, count in ((0, 1), (9.9, 1), (10.1, 2), (10.2, 2), (5, 3)):  # at last the clock is set back
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda later=later: now + later)
            run(bench, node(cache={"ttl": 10}))
        assert len(calls) == count
    run(bench, node(cache={"ttl": 0}))  # the node runs, and its new result is kept
    assert run(bench).outputs["value"][2] == 4
    assert len(calls) == 4


def test_a_run_can_ask_for_all_nodes_and_the_shorter_time_counts(bench, calls):
    nodes = node(cache=None), node(id="s", cache={"ttl": 5}), node(id="t", cache=False)
    compiled = bench.host.runner.compile(flow(*nodes), "wf", {}).cached(60)
    assert [planned.ttl for planned in compiled.nodes] == [60, 5, None]
    assert compiled.workflow.certain == {"t"}
    assert {planned.ttl for planned in compiled.cached(None).nodes} == {None}
    assert compiled.cached(None).workflow.certain == {"r", "s", "t"}


def test_a_runner_that_trusts_claims_caches_what_claims_to_only_read(bench, calls):
    safe(bench, "t-read", purity="impure", claimed_purity="flow_safe")
    bench.declare("t-impure")
    trusting = bench.host.runner.with_options(RunOptions(trust_readonly=True))
    workflow = flow(node(cache=None), step("i", "t-impure"), step("e", "echo", {"message": 1}))
    for runner, expected in ((bench.host.runner, {"e"}), (trusting, {"r", "e"})):
        compiled = runner.compile(workflow, "wf", {}).cached(60)
        assert {planned.ref.id for planned in compiled.nodes if planned.ttl} == expected
    assert [it.message for it in trusting.validate(flow({"id": "x"}))]


def test_a_result_that_is_not_to_be_kept_is_not_kept_for_later_runs(bench, calls):
    for _ in range(2):
        outcome = run(bench, node(keep=False))
        assert noted(outcome) == {"not_kept": 1, "why": "its node has keep: false"}
    assert calls == [1, 1]


def test_failures_are_not_kept(bench):
    calls = []

    @bench.acts("t-fails", [], ["n"])
    def fails_node(shared, params):
        calls.append(1)
        if len(calls) == 1:
            raise PflowError("no")
        shared["n"], shared["error"] = len(calls), "no" if len(calls) == 2 else None
        return "error" if len(calls) == 2 else "default"

    safe(bench, "t-fails")
    fails = step("f", "t-fails", cache=True)
    assert [run(bench, fails).success for _ in range(4)] == [False, False, True, True]
    assert len(calls) == 3


class Odd:
    """No JSON value."""


class Text(str):
    __slots__ = ()


deep, deep_object, ring = [], {}, []
for _ in range(3_000):
    deep, deep_object = [deep], {"a": deep_object}
ring.append(ring)


@pytest.mark.parametrize(
    "value",
    [
        *(Odd(), (1, 2), {1: "a"}, {Text("a"): 1}, Text("a"), b"a", {1, 2}, OrderedDict(a=1)),
        *(float("nan"), float("inf"), "\ud800", 10**5000),
        *(deep, deep_object, [deep_object], ring, [0] * 11_000, "x" * (17 << 20)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_say_exactly_is_not_kept_and_the_run_goes_on(bench, calls, more, monkeypatch, value):
    monkeypatch.setattr(result_key, "MOST_VALUES", 10_000)
    more["extra"] = value
    for _ in range(2):
        outcome = run(bench)
        assert outcome.outputs["extra"] is value
        assert noted(outcome).keys() == {"not_kept", "why"}
    assert len(calls) == 2
    assert entries(folder(bench)) == 0
    with pytest.raises(NotKept):
        exact_json({"a": [value]}, "it")
    outcome = bench.run(flow(node(), inputs={"name": {"type": "any"}}), name=Odd())
    assert "an input contains a Odd" in noted(outcome)["why"]


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda shared: shared.get("other"), "reads 'other'"),
        (lambda shared: "other" in shared, "reads 'other'"),
        (lambda shared: shared.get("__theirs__"), "reads '__theirs__'"),
        (list, "lists the shared store"),
        (len, "lists the shared store"),
        (lambda shared: (shared.update(x=1), shared.pop("x")), "deletes 'x'"),
        (lambda shared: shared.update(__theirs__=1), "writes '__theirs__'"),
        (lambda shared: shared["n"].append(2), "changed its inputs"),
        (lambda shared: shared.get("__run__"), None),
        (lambda shared: shared["n"], None),
    ],
)
def test_a_node_that_does_more_than_it_declares_is_found_out(bench, act, why):
    @bench.acts("t-more", ["n"], ["done"], inputs=("n",))
    def more_node(shared, params):
        act(shared)
        shared["done"] = True

    safe(bench, "t-more")
    workflow = flow(step("m", "t-more", cache=True), inputs={"n": {"type": "list"}})
    details = noted(bench.run(workflow, n=[1]))
    assert why in details["why"] if why else details == {"kept": 1}


def test_a_result_that_refers_to_a_file_of_the_run_is_not_kept(bench):
    @bench.acts("t-file", [], ["image"])
    def file_node(shared, params):
        shared["image"] = {"path": str(shared["__run__"].artifacts_dir / "a.png"), "size": 1}

    safe(bench, "t-file")
    for _ in range(2):
        why = noted(run(bench, step("f", "t-file", cache=True)))["why"]
        assert why == "it refers to a file of this run"


@pytest.mark.parametrize("place", ["output", "param", "input", "later"])
def test_what_contains_a_secret_is_not_kept(bench, calls, more, place):
    bench.acts("t-knows")(lambda shared, params: shared["__run__"].add_secrets([SECRET]))
    more.update({"extra": f"a {SECRET} b"} if place in {"output", "later"} else {})
    reads = node(params={"n": {"deep": [SECRET]}} if place == "param" else {"n": 1})
    knows = step("k", "t-knows")
    nodes = [reads, knows] if place == "later" else [knows, reads]
    for _ in range(2):
        workflow = flow(*nodes, inputs={"name": {"type": "str"}})
        assert bench.run(workflow, name=SECRET if place == "input" else "ann").success
    assert entries(folder(bench)) == 0
    assert remains(SECRET, [], folder(bench)) == []


def test_a_result_whose_part_has_become_a_secret_is_not_used_and_is_removed(bench, calls, more):
    more["extra"] = SECRET
    run(bench)
    assert remains(SECRET, [], folder(bench))
    control = RunControl()
    control.add_secrets([SECRET])
    bench.host.runner.run(flow(node()), {}, control=control)
    assert len(calls) == 2
    assert remains(SECRET, [], folder(bench)) == []


def test_the_file_and_its_folder_are_private_under_any_umask(bench, calls):
    before = os.umask(0)
    try:
        run(bench)
    finally:
        os.umask(before)
    places = [folder(bench), *folder(bench).iterdir()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in places] == [0o700, 0o600]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b"value", b"Value"),
        lambda content: content[:100] + os.urandom(len(content) - 100),
    ],
)
def test_a_damaged_file_is_a_miss_and_is_replaced(bench, calls, damage):
    run(bench)
    path = folder(bench) / "results.db"
    path.write_bytes(damage(path.read_bytes()))
    assert [run(bench).outputs["value"][2] for _ in range(2)] == [2, 2]
    assert len(calls) == 2


@pytest.mark.parametrize(
    "change", ["key = ?", "made = made + 1", "made = 'x'", "action = 1", "outputs = '[]'", "digest = 1"]
)
def test_a_result_that_was_changed_is_removed(cache, change):
    cache.put(KEY, "default", b'{"a": 1}')
    assert cache.get(KEY, 10).outputs == {"a": 1}
    execute(cache.folder, f"UPDATE result SET {change}", *[OTHER][: "?" in change])
    key = OTHER if "?" in change else KEY
    assert cache.get(key, 1e12) is None
    assert cache.usage().entries == 0


def test_a_link_is_not_followed(cache, tmp_path):
    elsewhere = ResultCache(tmp_path / "elsewhere", MB)
    elsewhere.put(KEY, "default", b"{}")
    cache.folder.mkdir(mode=0o700)
    (cache.folder / "results.db").symlink_to(elsewhere.folder / "results.db")
    assert cache.get(KEY, 10) is None
    assert cache.usage().entries == 0
    for write in (lambda: cache.put(OTHER, "default", b"{}"), cache.clear):
        with pytest.raises(StoreError):
            write()
    assert elsewhere.usage().entries == 1


# Only root may give files away.
give_away = pytest.param(
    lambda folder: os.chown(folder, os.geteuid() + 1, -1),
    "belongs to",
    marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can"),
)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda folder: folder.chmod(0o777), "every user can write it"),
        (lambda folder: (folder / "results.db").chmod(0o666), "every user can write it"),
        give_away,
    ],
)
def test_what_others_could_have_written_is_not_used(cache, change, why):
    cache.put(KEY, "default", b"{}")
    change(cache.folder)
    assert cache.get(KEY, 10) is None
    assert cache.usage().entries == 0
    with pytest.raises(PflowError, match=why):
        cache.put(KEY, "default", b"{}")


def test_a_cache_that_cannot_be_written_is_warned_about_once_and_the_run_goes_on(bench, calls):
    bench.host.paths.cache.mkdir(parents=True)
    folder(bench).write_text("a file in its place")
    batch = {"items": [1, 2, 3]}
    outcome = run(bench, node(params={"n": "${item}"}, batch=batch))
    assert (outcome.success, len(calls)) == (True, 3)
    assert noted(outcome) == {"not_kept": 3, "why": "the cache cannot be written"}
    [warning] = [it.message for it in bench.warnings if "not kept" in it.message]
    assert str(folder(bench)) in warning


def test_a_full_disk_is_an_error_and_leaves_what_was_there(cache):
    cache.put(KEY, "default", b'{"a": 1}')
    with (
        files_of_at_most((cache.folder / "results.db").stat().st_size),
        pytest.raises(StoreError, match=r"full|error"),
    ):
        cache.put(KEY, "default", b'{"a": "%s"}' % (b"x" * 50_000))
    assert cache.get(KEY, 10).outputs == {"a": 1}


def numbered(number):
    return f"{number:02x}" + f"{number:062x}"


def test_the_oldest_results_go_when_the_limit_is_reached(tmp_path, monkeypatch):
    cache = ResultCache(tmp_path / "results", MB)
    text = json.dumps({"text": "x" * 50_000}).encode()
    now = time.time()
    for number in range(40):
        monkeypatch.setattr(time, "time", lambda number=number: now - 100 + number)
        cache.put(numbered(number), "default", text)
        assert cache.usage().size <= MB
        assert (cache.folder / "results.db").stat().st_size <= MB
    left = [number for number in range(40) if cache.get(numbered(number), 1e12)]
    assert left == list(range(left[0], 40))
    assert 15 < len(left) <= 20


def test_a_result_that_would_take_most_of_the_limit_is_not_kept(bench, calls, more, monkeypatch):
    more["extra"] = "x" * 60_000
    monkeypatch.setenv("PFLOW_CACHE_LIMIT_MB", "0.1")
    assert noted(run(bench))["why"] == "the result is too large"


@pytest.mark.parametrize(
    ("given", "megabytes", "warned"),
    [(None, 256, False), ("12.5", 12.5, False), ("some", 256, True), ("-1", 256, True), ("nan", 256, True)],
)
def test_the_limit_is_a_setting(tmp_path, given, megabytes, warned):
    warnings = []
    cache = open_cache(tmp_path, lambda key: given if key == "cache_limit_mb" else None, warnings.append)
    assert cache.limit == megabytes * MB
    assert bool(warnings) == warned


def test_clearing_removes_what_is_old_enough(cache, monkeypatch):
    now = time.time()
    for number, age in enumerate((4000, 0, 0)):
        monkeypatch.setattr(time, "time", lambda age=age: now - age)
        cache.put(numbered(number), "default", b'{"a": "%s"}' % (b"x" * 20_000))
    assert (cache.usage().entries, cache.usage().oldest) == (3, now - 4000)
    old = cache.clear(older_than=3600)
    assert (old.entries, old.oldest) == (1, now - 4000)
    assert 20_000 <= old.size < 30_000
    assert cache.clear().entries == 2
    assert cache.usage().entries == 0
    assert (cache.folder / "results.db").stat().st_size == cache.usage().size < 30_000


def json_values(scalars, keys):
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=9) | st.dictionaries(keys, inner, max_size=9)
    )


PLAIN = st.none() | st.booleans() | st.integers()
VALUES = json_values(PLAIN | st.floats(allow_nan=False) | st.text(), st.text())
EXACT = json_values(
    PLAIN
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=5),
    st.text("ab", max_size=2),
)
SIDES = st.dictionaries(st.text("ab", max_size=2), EXACT, max_size=3)


@given(one=st.tuples(SIDES, SIDES), other=st.tuples(SIDES, SIDES))
def test_two_different_values_never_share_a_key(one, other):
    keys = [result_key.result_key("code", {"owner": ""}, params, reads) for params, reads in (one, other)]
    assert (keys[0] == keys[1]) == (repr(one) == repr(other))


@given(EXACT)
def test_what_is_kept_comes_back_as_it_was(value):
    assert repr(json.loads(exact_json(value, "it"))) == repr(value)


@pytest.fixture
def small_pieces(monkeypatch):
    for limit, number in (("_AT_ONCE", 40), ("_SLICE", 7), ("_TOGETHER", 3)):
        monkeypatch.setattr(f"pflow_mcp_plugin.host.running.result_key.{limit}", number)


@pytest.mark.usefixtures("small_pieces")
@given(VALUES)
def test_a_value_in_pieces_is_read_as_it_was(value):
    read = json.loads(b"".join(exact_pieces(value, "it")))
    assert repr(read) == repr(value)


@pytest.mark.parametrize(
    ("value", "most"),
    [
        (["a line"] * 600_000, 700),
        ([{"id": number, "name": "name" * 10, "none": None} for number in range(100_000)], 200),
        ({f"{number}": "value" * 10 for number in range(100_000)}, 200),
        (["x" * 3_000_000, *range(5_000), {"deep": ["y" * 3_000_000]}], 5_200),
    ],
    ids=["short lines", "rows", "members", "some are large"],
)
def test_a_value_of_many_small_members_is_few_pieces_of_bounded_size(value, most):
    pieces = list(exact_pieces(value, "it"))
    assert len(pieces) < most
    assert max(map(len, pieces)) < 1 << 24
    assert json.loads(b"".join(pieces)) == value
