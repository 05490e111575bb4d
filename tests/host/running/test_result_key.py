from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.running.result_key import (
    exact_json,
    exact_pieces,
    from_pieces,
    result_key,
)


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
    keys = [result_key("code", {"owner": ""}, params, reads) for params, reads in (one, other)]
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
    read = from_pieces(b"".join(exact_pieces(value, "it")))
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
