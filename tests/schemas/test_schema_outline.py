"""The properties inside the objects and lists of a schema."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.schemas.schema_outline import outline

LABEL = {"type": "object", "properties": {"name": {"type": "string", "description": "Its name"}}}


def lines(root, schema):
    return [(it.depth, it.name, it.type, it.required) for it in outline(root, schema)]


def test_objects_and_lists_are_shown_to_their_innermost_properties():
    root = {"$defs": {"label": {**LABEL, "required": ["name"]}}}
    schema = {
        "type": "object",
        "properties": {
            "labels": {"type": "array", "items": {"$ref": "#/$defs/label"}},
            "count": {"type": "integer"},
        },
        "required": ["count"],
    }
    assert lines(root, schema) == [
        (1, "labels", "list", False),
        (2, "[]", "dict", False),
        (3, "name", "str", True),
        (1, "count", "int", True),
    ]
    assert [it.description for it in outline(root, schema)][2] == "Its name"


def test_alternatives_are_shown_one_after_the_other():
    schema = {
        "anyOf": [LABEL, {"type": "object", "properties": {"id": {"type": "integer"}}}, {"type": "null"}]
    }
    assert lines({}, schema) == [(1, "name", "str", False), (1, "id", "int", False)]


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


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "anyOf", "$ref", "required", "type", "x"]), inner
        )
    ),
    max_leaves=20,
)


@given(VALUES, VALUES)
def test_no_schema_makes_it_raise(root, schema):
    json.dumps([it.name for it in outline(root, schema)])
