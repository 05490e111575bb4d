import json

from hostile import JUNK
from hypothesis import given

from pflow_mcp_plugin.schemas.schema_outline import outline

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


@given(JUNK, JUNK)
def test_no_schema_makes_it_raise(root, schema):
    json.dumps([it.name for it in outline(root, schema)])
