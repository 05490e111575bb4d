import subprocess
import sys
from pathlib import Path
from time import monotonic

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import UNKNOWN
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.schemas.argument_validation import Validator
from pflow_mcp_plugin.schemas.quick_check import plainly_fits

WHERE = Where(server="s", tool="t")
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["a", "b", "x", "", "#", "#/properties/a"])
)
WORDS = st.sampled_from(["object", "string", "integer", "array", "null", "number", "boolean"])
VALUES = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "x"]), VALUES, max_size=3)
# Well formed schemas, with what is left to the server among them.
SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {}, optional={"type": WORDS | st.lists(WORDS, min_size=1, max_size=2, unique=True)}
    )
    | st.builds(lambda value: {"enum": value}, st.lists(SCALARS, min_size=1, max_size=3))
    | st.builds(lambda value: {"const": value}, SCALARS)
    | st.sampled_from(
        [{"minimum": 1}, {"maxLength": 1}, {"pattern": "^a"}, {"uniqueItems": True}, {"minItems": 1}]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "required": st.lists(st.sampled_from(["a", "x"]), max_size=2, unique=True),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "x"]), inner, max_size=1),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "contains": inner,
            "minContains": st.integers(0, 1),
        },
    ),
    max_leaves=8,
)


def violations(schema, arguments):
    found = Validator(schema, WHERE).violations(arguments)
    return [(each.path, each.expected, each.given) for each in found]


def test_every_violation_is_told_at_once_with_path_expected_and_given():
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "state": {"enum": ["open", "closed"]},
            "labels": {"items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "count": {"type": "integer", "minimum": 1},
        },
        "required": ["title", "body"],
        "additionalProperties": False,
    }
    given_ = {"title": 3, "state": "x", "labels": [{"n": 1}, {"n": "1"}], "when": 5, "count": 0, "odd": True}
    assert sorted(violations(schema, given_)) == [
        ("body", "a value", "nothing"),
        ("count", "at least 1", "0 (int)"),
        ("labels[1].n", "int", '"1" (str)'),
        ("odd", "no such key", "true (bool)"),
        ("state", 'one of "open", "closed"', '"x" (str)'),
        ("title", "str", "3 (int)"),
        ("when", "str | None", "5 (int)"),
    ]


def test_a_value_where_the_schema_is_false_is_told_as_such():
    ((_, expected, given_),) = violations({"properties": {"a": False}}, {"a": 1})
    assert (expected, given_) == ("no value, as the schema is false", "1 (int)")


def test_long_values_are_cut_short_in_messages():
    ((_, _, given_),) = violations({"properties": {"a": {"type": "integer"}}}, {"a": "x" * 5000})
    assert len(given_) < 100


@pytest.mark.parametrize("value", [[Path("x")], [float("nan")], [{1, 2}], [b"x"], [10**5000]])
def test_what_json_cannot_hold_is_told_by_name(value):
    ((path, expected, _),) = violations({}, {"a": value})
    assert (path, expected) == ("a", "a JSON value")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/d0"}},
            "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 9 + [False]} for n in range(80)}
            | {"d80": False},
        },
    ],
)
def test_a_schema_without_end_is_an_error_in_good_time(schema):
    started = monotonic()
    with pytest.raises(McpError, match="endlessly"):
        Validator(schema, WHERE).violations({"a": "x"})
    assert monotonic() - started < 5


def test_many_rows_that_share_a_definition_are_no_schema_without_end():
    row = {"type": "object", "properties": {"n": {"type": "integer"}}}
    schema = {
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
        "$defs": {"Row": row},
    }
    rows = [{"n": number} for number in range(21_000)]
    assert violations(schema, {"rows": [*rows, {"n": "x"}]}) == [("rows[21000].n", "int", '"x" (str)')]


def test_remote_references_are_never_fetched():
    schema = {"properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}, "b": {"$ref": "file:///etc/passwd"}}}
    assert violations(schema, {"a": 1, "b": 2}) == []


def test_patterns_formats_and_quadratic_checks_are_left_to_the_server():
    evil = {"type": "string", "pattern": "^(a+)+$", "format": "email", "maxLength": 100}
    schema = {"properties": {"a": evil, "many": {"type": "array", "uniqueItems": True}}}
    schema |= {"patternProperties": {"^(a+)+$": {"type": "integer"}}, "additionalProperties": False}
    started = monotonic()
    assert (
        violations(schema, {"a": "a" * 40 + "!", "many": [{"x": n % 3} for n in range(5000)], "z": 1}) == []
    )
    assert monotonic() - started < 3


def test_a_pattern_that_is_linear_in_time_is_checked():
    schema = {
        "properties": {"as": {"pattern": r"^AS\d+$"}, "a": {"oneOf": [{"pattern": "^a"}, {"pattern": "^b"}]}},
        "patternProperties": {"^x-": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert violations(schema, {"as": "AS64512", "a": "b", "x-n": 1}) == []
    assert sorted(violations(schema, {"as": "64512", "a": "c", "x-n": "1", "y-n": 1})) == [
        ("a", "a value allowed by its oneOf", '"c" (str)'),
        ("as", r"a string that matches ^AS\d+$", '"64512" (str)'),
        ("x-n", "int", '"1" (str)'),
        ("y-n", "no such key", "1 (int)"),
    ]


def test_an_argument_that_fits_several_alternatives_of_which_it_may_fit_one_is_told_so():
    schema = {"properties": {"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}}
    ((path, expected, given),) = violations(schema, {"a": 5})
    assert (path, given) == ("a", "5 (int)")
    assert "only one of the alternatives" in expected


def test_an_exclusive_bound_of_draft_4_is_understood():
    bounds = {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
    schema = {"properties": {"a": bounds, "b": {"exclusiveMinimum": True}}}
    assert violations(schema, {"a": 9, "b": -1}) == []
    assert violations(schema, {"a": 0}) == [("a", "more than 0", "0 (int)")]
    assert violations(schema, {"a": 10}) == [("a", "at most 9", "10 (int)")]


def test_what_is_checked_is_what_is_sent():
    schema = {
        "properties": {"a": {"type": "array"}, "1": {"type": "string"}},
        "patternProperties": {"^b": {}},
    }
    assert violations(schema, {"a": (1, 2)}) == []
    assert violations(schema, {1: 2, "a": []}) == [("1", "str", "2 (int)")]


def test_draft_7_tuples_and_definitions_are_understood():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": 3,
        "properties": {
            "a": {"items": [{"type": "string"}, {"$ref": "#/definitions/n"}], "additionalItems": False}
        },
        "definitions": {"n": {"type": "integer"}},
    }
    assert violations(schema, {"a": ["x", 1]}) == []
    assert [path for path, _, _ in violations(schema, {"a": ["x", "y"]})] == ["a[1]"]


def test_plain_arguments_do_not_load_jsonschema():
    code = (
        "import sys; from pflow_mcp_plugin.schemas.argument_validation import Validator, Where;"
        "schema = {'type': 'object', 'properties': {'a': {'anyOf': [{'type': 'string'}, {'type': 'null'}]}},"
        " 'required': ['a'], '$schema': 'x', 'title': 'T'};"
        "Validator(schema, Where()).violations({'a': 'x'}); print('jsonschema' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(("levels", "is_checked"), [(57, True), (70, False)])
def test_a_schema_is_checked_to_a_bounded_depth(levels, is_checked):
    schema = {"minimum": 1}
    for _ in range(levels):
        schema = {"items": schema}
    validator = Validator({"properties": {"a": schema}, "minProperties": 1}, WHERE)
    if is_checked:
        assert validator.violations({"a": []}) == []
    else:
        with pytest.raises(McpError, match="expands too far"):
            validator.violations({"a": []})


@pytest.mark.slow
@given(SCHEMAS, OBJECTS)
@settings(deadline=None, max_examples=100)
def test_nothing_is_refused_that_jsonschema_takes(schema, arguments):
    accepted = jsonschema.Draft202012Validator(schema).is_valid(arguments)
    if accepted:
        assert violations(schema, arguments) == []
    if plainly_fits(schema, arguments):
        assert accepted


ROWS = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}}


@pytest.mark.parametrize(
    ("schema", "fitting", "others"),
    [
        (True, [1, None, UNKNOWN], []),
        (False, [UNKNOWN], [1]),
        ({"type": "integer"}, [1], [True, 1.5, "1", None]),
        ({"type": "string", "nullable": True}, ["a", None], [1]),
        ({"minimum": 1, "maximum": 2.5}, [1, 2.5, "", True, None, {}], [0, 2.6]),
        ({"minimum": True}, ["a"], [1]),
        (
            {"minLength": 1, "maxLength": 2, "minItems": 1, "maxItems": 2},
            ["a", "ab", [1]],
            ["", "abc", [], [1, 2, 3]],
        ),
        ({"enum": ["a", 1]}, ["a"], ["b", 1]),
        ({"anyOf": [{"type": "string"}, ROWS]}, ["a", [{"n": 1}]], [1]),
        (
            {"required": ["a"], "properties": {"a": {"type": "null"}}},
            [{"a": None, "b": 1}, 3],
            [{}, {"a": 1}],
        ),
        ({"properties": {"a": True}, "additionalProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
        ({"additionalProperties": {"type": "string"}}, [], [{"b": "x"}]),
    ],
)
def test_what_plainly_fits_is_accepted_and_the_rest_left_to_jsonschema(schema, fitting, others):
    assert [value for value in (*fitting, *others) if plainly_fits(schema, value)] == fitting


@pytest.mark.parametrize(("levels", "fits"), [(59, True), (60, False)])
def test_only_so_many_levels_are_read(levels, fits):
    schema, value = {"type": "string"}, "x"
    for _ in range(levels):
        schema, value = {"items": schema}, [value]
    assert plainly_fits(schema, value) is fits
