"""JSON Schemas from the declarations of inputs and outputs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pflow_mcp_plugin.contract import Field, Interface
from pflow_mcp_plugin.server.saved_workflow_tools import input_schema, output_schema, type_words


def output(kind="dict", schema=None):
    field = Field(key="it", type=kind, schema=schema)
    return output_schema(Interface(outputs=(field,)))["properties"]["it"]


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("str", {"type": "string"}),
        ("int | None", {"type": ["integer", "null"]}),
        ("float", {"type": "number"}),
        ("list | dict", {"type": ["array", "object"]}),
        ("string | str", {"type": "string"}),
        ("any", {}),
        ("file", {}),
        ("str | any", {}),
    ],
)
def test_each_type_has_its_name_in_json(kind, type_):
    assert output(kind) == type_


def test_types_in_words():
    words = [type_words(Field(key="x", type=kind)) for kind in ("str", "int | None", "any")]
    assert words == ["string", "integer or null", "any value"]


def test_only_inputs_without_a_default_are_required():
    interface = Interface(
        params=(Field(key="a", type="str", required=True), Field(key="b", schema={"default": None})),
        open=True,
    )
    assert input_schema(interface) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"default": None}},
        "required": ["a"],
        "additionalProperties": True,
    }


def test_the_structure_of_an_output_is_kept():
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["id"],
    }
    assert output(schema=schema) == schema


@pytest.mark.parametrize(
    "part",
    [
        {"$ref": "#/$defs/File"},
        {"type": "object", "additionalProperties": False, "patternProperties": {"^x": {}}},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        {"type": "str"},
        {"type": "string", "enum": ["a"], "pattern": "("},
        {"type": "integer", "nullable": True},
    ],
)
def test_no_part_is_stricter_than_what_a_node_declares(part):
    found = output(schema={"type": "object", "properties": {"part": part}})
    Draft202012Validator.check_schema(found)
    assert found["properties"]["part"] in ({}, {"type": "object"}, {"type": "array"}, {"type": "string"})


def test_a_schema_that_contains_itself_ends():
    schema = {"type": "object"}
    schema["properties"] = {"next": schema}
    assert str(output(schema=schema)).count("next") == 8


def test_a_workflow_without_declared_outputs_may_return_any():
    assert output_schema(Interface(open_outputs=True))["additionalProperties"] is True


_KEYS = st.sampled_from(["type", "properties", "items", "required", "description", "x", "$ref", "enum"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "items", "required", "description"]), _JSON))
def test_any_schema_of_a_node_becomes_a_valid_one(schema):
    Draft202012Validator.check_schema(output(schema=schema))
