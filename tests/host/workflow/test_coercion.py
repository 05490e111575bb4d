import json
import math
from decimal import Decimal, InvalidOperation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.host.workflow.coercion import (
    TypeMismatch,
    coerce,
    may_become,
    passed_on,
    typed,
)

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
numerals = st.from_regex(r"-?(0|[1-9]\d{0,25})(\.\d{1,25})?([eE][+-]?\d{1,3})?", fullmatch=True)
json_texts = st.recursive(
    st.sampled_from(["null", "true", "NaN", '"a"', '"1.50"', "1e999", "-0.0"]) | numerals,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        # Of so few keys, that some stand twice.
        | st.lists(st.tuples(st.sampled_from("ab"), inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f'"{key}": {value}' for key, value in pairs) + "}"
        )
    ),
)
unions = st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True).map(" | ".join)


def to(kind, value, **field):
    return coerce(value, Field(key="x", type=kind, **field))


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        ("int", "-12", -12),
        ("int", "9" * 4000, 10**4000 - 1),
        ("float", "0.1", 0.1),
        ("bool", "true", True),
        ("str", 3, "3"),
        ("dict", '{"a": 1}', {"a": 1}),
        ("list | dict", '{"a": 1}', {"a": 1}),
    ],
)
def test_a_value_is_converted_where_nothing_is_lost(kind, value, result):
    converted = to(kind, value)
    assert converted == result
    assert type(converted) is type(result)


@pytest.mark.parametrize(
    ("kind", "value", "given"),
    [
        ("int", "-0", 'str "-0"'),
        ("int", True, "bool"),
        ("int", "9" * 4001, "str "),
        ("float", "0.1000000000000000055", "str "),
        ("str", None, "None"),
        ("str", math.inf, "float"),
        ("dict", '{"a": 1, "a": 2}', r'str "{\"a\": 1, \"a\": 2}" (duplicate key a)'),
        ("list", "[0.12345678901234567890123]", "(0.12345678901234567890123 is not exact as a float)"),
        ("list", "[1e-99999999999999999999]", "str "),
        ("bool", "é", 'str "é"'),
        # However large a value is, of which Python does not even write all digits.
        ("bool", 10**5000, "int"),
        ("bool", [10**5000], "list"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_conversion_that_would_lose_something_is_refused_with_what_was_given(kind, value, given):
    with pytest.raises(TypeMismatch) as caught:
        to(kind, value)
    assert given in caught.value.given
    assert str(caught.value) == f"expected {kind}, got {caught.value.given}"
    assert len(caught.value.given) < 120


def test_a_value_must_be_among_the_allowed_ones_of_its_own_type():
    schema = {"enum": [1, "two", None]}
    assert [to("any", value, schema=schema) for value in (1, "two", None)] == [1, "two", None]
    assert to("int", "1", schema=schema) == 1
    assert to("any", None, schema={"type": 7}) is None
    for value in (True, "1", 2):
        with pytest.raises(TypeMismatch, match='one of 1, "two", null'):
            to("str", value, schema=schema)


def spelled(value):
    return value if isinstance(value, str) else json.dumps(value)


def meaning(text):
    """The meaning of a JSON text, read independently: every digit and every member counts."""
    try:
        return json.loads(text, parse_int=exact, parse_float=exact, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return text


def exact(digits):
    try:
        return Decimal(digits)
    except InvalidOperation:
        return digits


@given(json_values | json_texts, unions)
def test_coercion_loses_nothing_and_what_it_made_stays_as_it_is(value, kind):
    try:
        converted = to(kind, value)
    except TypeMismatch:
        return
    if converted is not value:
        assert meaning(spelled(converted)) == meaning(spelled(value))
    assert to(kind, converted) is converted or to(kind, converted) == converted


@given(value=json_values | json_texts, wanted=unions, others=unions)
def test_a_type_whose_value_could_be_converted_is_never_held_against_a_template(value, wanted, others):
    own = type(value).__name__.replace("NoneType", "None")
    field = Field(key="x", type=wanted)
    try:
        coerce(value, field)
    except TypeMismatch:
        return
    assert may_become(Field(key="y", type=f"{own} | {others}"), field)


def test_a_list_or_object_that_is_passed_on_becomes_its_json_where_only_text_fits():
    text, number = Field(key="x", type="str | None"), Field(key="x", type="int")
    assert passed_on({"a": ["ä", 1]}, text) == '{"a": ["ä", 1]}'
    assert passed_on([1], Field(key="x", type="str | list")) == [1]
    assert passed_on(3, text) == "3"
    choice = Field(key="x", type="str", schema={"type": "string", "enum": ["a"]})
    for value, field in (([1], number), ([math.nan], text), ([object()], text), (["a"], choice)):
        with pytest.raises(TypeMismatch):
            passed_on(value, field)


ALL = {"type": "string", "enum": ["all", "7"]}
NONE = {"const": "none", "type": "string"}


@pytest.mark.parametrize(
    ("alternatives", "text", "value"),
    [
        ([{"type": "integer"}, ALL], "5", 5),
        ([{"type": "integer"}, ALL], "all", "all"),
        ([{"type": "integer"}, ALL], "7", "7"),
        ([{"type": "integer"}, ALL, NONE], "-5", -5),
        ([{"type": "integer"}, {"type": "string"}], "5", "5"),
        ([{"type": "integer"}, ALL, {"$ref": "#/x"}], "5", "5"),
    ],
)
def test_a_number_is_one_where_a_field_takes_only_other_strings(alternatives, text, value):
    field = Field(key="limit", type="int | str", schema={"anyOf": alternatives})
    assert (typed(text, field), type(typed(text, field))) == (value, type(value))
