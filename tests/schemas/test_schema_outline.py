"""How the inside of a value is shown: as an outline, and as a sample."""

import json

import pytest
from hostile import JUNK
from hypothesis import given
from jsonschema import Draft202012Validator

from pflow_mcp_plugin.schemas.schema_outline import outline, sample

LABEL = {"type": "object", "properties": {"name": {"type": "string", "description": "Its name"}}}


def lines(root, schema):
    return [(it.depth, it.name, it.type, it.required) for it in outline(root, schema)]


def test_alternatives_are_shown_one_after_the_other():
    schema = {
        "anyOf": [LABEL, {"type": "object", "properties": {"id": {"type": "integer"}}}, {"type": "null"}]
    }
    assert lines({}, schema) == [(1, "name", "str", False), (1, "id", "int", False)]


def shown(root, schema):
    return [
        f"{'  ' * (it.depth - 1)}{it.name} {', '.join([it.type, *it.limits])}" for it in outline(root, schema)
    ]


def test_choices_and_bounds_are_shown_at_any_depth():
    root = {"$defs": {"mode": {"enum": ["a", "b"]}}}
    schema = {
        "properties": {
            "modes": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/mode"}},
            "either": {"anyOf": [{"const": 1}, {"$ref": "#/$defs/mode"}, {"type": "null"}]},
            "free": {"anyOf": [{"const": 1}, {"type": "string"}]},
        }
    }
    assert shown(root, schema) == [
        "modes list, 2 items or fewer",
        '  [] str, one of "a", "b"',
        'either int | str | None, one of 1, "a", "b"',
        "free int | str",
    ]


def test_all_that_is_inside_a_value_is_described():
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer", "minimum": 1}]}
    label = {"$ref": "#/$defs/label"}
    schema = {
        "properties": {"label": label, "own": {**label, "description": "Mine"}, "pair": pair},
        "required": ["label", "pair"],
        "patternProperties": {"^x-": {"type": "number", "exclusiveMinimum": True, "maximum": 2.5}},
        "additionalProperties": {"type": "array", "items": [{"const": None}]},
    }
    found = outline({"$defs": {"label": {**LABEL, "description": "A label"}}}, schema)
    assert [(it.name, it.depth, it.type, it.required, it.limits, it.description) for it in found] == [
        ("label", 1, "dict", True, (), "A label"),
        ("name", 2, "str", False, (), "Its name"),
        ("own", 1, "dict", False, (), "Mine"),
        ("name", 2, "str", False, (), "Its name"),
        ("pair", 1, "list", True, (), ""),
        ("[0]", 2, "str", False, (), ""),
        ("[1]", 2, "int", False, ("at least 1",), ""),
        ("/^x-/", 1, "float", False, ("at most 2.5",), ""),
        ("*", 1, "list", False, (), ""),
        ("[0]", 2, "None", False, (), ""),
    ]


def test_a_value_without_an_inside_has_no_outline():
    assert lines({}, {"type": "array", "items": {"type": "string"}}) == []
    assert lines({}, True) == []


def test_what_contains_itself_ends():
    root = {
        "$defs": {
            "tree": {"properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}}}
        }
    }
    found = lines(root, {"$ref": "#/$defs/tree"})
    assert len(found) == 200
    assert max(depth for depth, *_ in found) == 8


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 18},
        "home": {"$ref": "#/$defs/home"},
        "kind": {"enum": ["a", "b"]},
        "labels": {
            "type": "array",
            "minItems": 1,
            "items": {"anyOf": [{"type": "null"}, {"type": "number"}]},
        },
        "note": {"type": "string"},
    },
    "required": ["name", "age", "home", "kind", "labels"],
}
HOME = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}
ROOT = {"$defs": {"home": HOME, "loop": {"$ref": "#/$defs/loop"}}}


def test_a_sample_has_all_that_is_required_to_its_innermost_properties():
    found = sample(ROOT, PERSON)
    assert found == {"name": "...", "age": 18, "home": {"street": "..."}, "kind": "a", "labels": [1.0]}
    assert Draft202012Validator({**ROOT, **PERSON}).is_valid(found)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"anyOf": [{"type": "null"}, HOME]}, {"street": "..."}),
        ({"type": "string", "default": "x"}, "x"),
        ({"type": "string", "minLength": 10**12}, "." * 200),
        ({"type": "string", "enum": [], "examples": ["y"]}, "y"),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "minimum": 4, "maximum": 3}, 1),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
        ({"type": "number", "exclusiveMinimum": 2, "multipleOf": 0.5}, 2.5),
        ({"type": "string", "minLength": 5, "maxLength": 4}, "...."),
        (
            {"type": "array", "minItems": 3, "items": [{"type": "string"}, {"type": "integer"}]},
            ["...", 1, "..."],
        ),
        ({"type": "array", "contains": {"const": 3}}, [3]),
        ({"type": "array", "contains": {"const": 3}, "minContains": 1_000}, []),
        ({"required": ["a", 3, "a"], "additionalProperties": {"type": "boolean"}}, {"a": True}),
        ({"type": "object", "if": {"required": ["a"]}, "else": {}}, {}),
    ],
)
def test_a_sample_is_what_the_schema_states(schema, expected):
    assert sample(ROOT, schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^AS[0-9]{2,4}$"},
        {"type": "array", "minItems": 3, "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        {"properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"allOf": [HOME, {"properties": {"x": {"const": 3}}, "required": ["x"]}]},
        {"oneOf": [{"$ref": "#/$defs/home"}, {"properties": {"x": {"const": 3}}, "required": ["x"]}]},
        {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["a"]}, "type": "object"},
    ],
)
def test_a_sample_keeps_to_bounds_patterns_and_what_a_schema_is_composed_of(schema):
    assert list(Draft202012Validator({**ROOT, **schema}).iter_errors(sample(ROOT, schema))) == []


def test_a_schema_that_contains_itself_ends():
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    tree["required"] = ["left", "right"]
    assert len(json.dumps(sample(tree, tree))) < 10_000


@given(JUNK, JUNK)
def test_any_schema_has_an_outline_and_a_sample(root, schema):
    json.dumps([it.name for it in outline(root, schema)])
    json.dumps(sample(root, schema))
