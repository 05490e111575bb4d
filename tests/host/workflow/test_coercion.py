from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce

TYPES = ["str", "int", "float", "bool", "list", "dict", "None"]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.from_regex(r"-?\d{1,25}(\.\d{1,25})?")
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
unions = st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True).map(" | ".join)


def to(kind, value, **field):
    return coerce(value, Field(key="x", type=kind, **field))


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        ("int", "3", 3),
        ("int", "-12", -12),
        ("int", 3.0, 3),
        ("integer", "3", 3),
        ("float", 3, 3.0),
        ("float", "0.1", 0.1),
        ("number", "1e5", 100000.0),
        ("bool", "true", True),
        ("bool", "false", False),
        ("str", 3, "3"),
        ("str", 2.5, "2.5"),
        ("str", True, "true"),
        ("list", "[1, 2]", [1, 2]),
        ("dict", '{"a": 1}', {"a": 1}),
        ("int | None", "3", 3),
        ("list | dict", '{"a": 1}', {"a": 1}),
    ],
)
def test_a_value_is_converted_where_nothing_is_lost(kind, value, result):
    converted = to(kind, value)
    assert converted == result
    assert type(converted) is type(result)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("str", "3"),
        ("str | int", "3"),
        ("int | str", "3"),
        ("str | None", None),
        ("any", "3"),
        ("int | float", 3),
        ("float | int", 3),
        ("float", 2**60 + 1),
        ("some-type-of-a-later-version", "3"),
    ],
)
def test_a_value_that_already_fits_is_left_alone(kind, value):
    assert to(kind, value) is value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "03"),
        ("int", "3.0"),
        ("int", "+3"),
        ("int", " 3"),
        ("int", "٣"),
        ("int", "-0"),
        ("int", 3.5),
        ("int", 5.213663728292886e16),
        ("int", True),
        ("int", None),
        ("int", "9" * 5000),
        ("float", "0.1000000000000000055"),
        ("float", "1e999"),
        ("float", "nan"),
        ("float", True),
        ("bool", 1),
        ("bool", "yes"),
        ("str", None),
        ("str", {"a": 1}),
        ("list", "{}"),
        ("list", "[NaN]"),
        ("list", "a, b"),
        ("dict", "[" * 100_000),
        ("dict", []),
        ("None", 0),
    ],
)
def test_a_conversion_that_would_lose_something_is_refused(kind, value):
    with pytest.raises(TypeMismatch) as caught:
        to(kind, value)
    assert caught.value.expected == kind
    assert len(caught.value.given) < 80


def test_a_value_must_be_among_the_allowed_ones_of_its_own_type():
    schema = {"enum": [1, "two", None]}
    assert [to("any", value, schema=schema) for value in (1, "two", None)] == [1, "two", None]
    assert to("int", "1", schema=schema) == 1
    for value in (True, "1", 2):
        with pytest.raises(TypeMismatch, match='one of 1, "two", null'):
            to("str", value, schema=schema)


def spelled(value):
    """What a person would write for a value."""
    return value if isinstance(value, str) else json.dumps(value)


def same(one, other):
    """Whether two spellings mean the same, numbers being compared exactly."""
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        try:
            return json.loads(one) == json.loads(other)
        except ValueError:
            return one == other


@given(json_values, unions)
def test_coercion_loses_nothing(value, kind):
    try:
        converted = to(kind, value)
    except TypeMismatch:
        return
    if converted is not value:
        assert same(spelled(converted), spelled(value))


@given(json_values, unions)
def test_coercing_twice_changes_nothing_more(value, kind):
    try:
        once = to(kind, value)
    except TypeMismatch:
        return
    assert to(kind, once) is once or to(kind, once) == once
