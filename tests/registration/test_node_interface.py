import json

import pytest
from hostile import JUNK
from hypothesis import given

from pflow_mcp_plugin.registration.tool_entry import described, interface
from pflow_mcp_plugin.schemas.schema_reader import SchemaDocument
from pflow_mcp_plugin.types import Tool

TYPES = {"str", "int", "float", "bool", "list", "dict", "None", "any"}


def friendly(schema, root=None):
    return SchemaDocument(schema if root is None else root).friendly(schema)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "str"),
        ({"type": "number"}, "float"),
        (
            {"oneOf": [{"type": "null"}, {"anyOf": [{"type": "array"}, {"type": "object"}]}]},
            "list | dict | None",
        ),
        ({"anyOf": [{"type": "string"}, {}]}, "any"),
        ({"allOf": [{"description": "x"}, {"type": "boolean"}]}, "bool"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"enum": ["a", None, 1]}, "str | int | None"),
        ({"const": True}, "bool"),
        ({"items": {}}, "list"),
        ({"type": "strng"}, "any"),
        ({"$ref": "https://example.com/schema.json"}, "any"),
    ],
)
def test_a_schema_has_a_friendly_type(schema, expected):
    assert friendly(schema) == expected


def test_local_references_are_followed_with_their_escapes():
    root = {
        "$defs": {"a/b": {"type": "integer"}, "n~": {"$ref": "#/$defs/a~1b"}, "l": [{"type": "null"}]},
        "definitions": {"ü": {"type": "string"}},
    }
    assert friendly({"$ref": "#/$defs/n~0"}, root) == "int"
    assert friendly({"$ref": "#/definitions/%C3%BC"}, root) == "str"
    assert friendly({"$ref": "#/$defs/l/0"}, root) == "None"
    assert friendly({"$ref": "#/$defs/l/7"}, root) == "any"


def test_loops_and_exponential_expansion_come_to_an_end():
    loop = {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}
    assert friendly({"$ref": "#/$defs/a"}, {"$defs": loop}) == "any"
    double = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    assert friendly({"$ref": "#/$defs/d0"}, {"$defs": double}) == "any"
    schema = {
        "$ref": "#/$defs/o",
        "$defs": {"o": {"allOf": [{"$ref": "#/$defs/o"}] * 9, "properties": {"x": {}}}},
    }
    assert interface(Tool(name="t", input_schema=schema)).inputs == ("x",)


@pytest.mark.parametrize(
    ("schema", "is_open"),
    [
        ({"type": "object", "properties": {}}, False),
        ({"type": "object"}, True),
        ({"properties": {"a": {}}}, False),
        ({"properties": {"a": {}}, "allOf": [{"additionalProperties": True}]}, True),
        ({"anyOf": [{"properties": {"a": {}}}, {"type": "object"}]}, True),
        (
            {"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}, "patternProperties": {"x": {}}}]},
            True,
        ),
        (
            {"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"type": "object", "required": ["b"]}]},
            False,
        ),
        ({"$ref": "#/$defs/lost", "properties": {"a": {}}}, True),
        ({"properties": {"a": {}}, "$dynamicRef": "#x"}, True),
        ({"type": "object", "additionalProperties": False}, False),
        ({"type": "object", "additionalProperties": True}, True),
    ],
)
def test_a_tool_takes_other_arguments_only_where_it_says_so(schema, is_open):
    assert interface(Tool(name="t", input_schema=schema)).open is is_open


def test_a_parameter_that_alternatives_describe_differently_takes_what_any_of_them_takes():
    one = {"properties": {"kind": {"const": "text"}, "value": {"type": "string"}}, "required": ["kind"]}
    two = {"properties": {"kind": {"const": "count"}, "value": {"type": "integer"}}, "required": ["kind"]}
    kind, value = interface(Tool(name="t", input_schema={"anyOf": [one, two]})).params
    assert kind.schema == {"anyOf": [{"const": "text"}, {"const": "count"}]}
    assert value.type == "str | int"


def test_names_that_the_host_reserves_are_no_arguments():
    schema = {"type": "object", "properties": {"__run__": {}, "__x": {}}, "required": ["__run__"]}
    assert interface(Tool(name="t", input_schema=schema)).inputs == ("__x",)


def outputs(schema):
    return {field.key: field.type for field in interface(Tool(name="t", output_schema=schema)).outputs}


def test_top_level_properties_of_the_output_are_outputs_beside_result_and_error():
    assert outputs(None) == {"result": "any", "error": "str | None"}
    schema = {
        "type": "object",
        "properties": {"url": {"type": "string"}, "error": {}, "n": {"type": "integer"}},
    }
    others = {"content_blocks": "list", "result": "dict", "error": "str | None"}
    assert outputs(schema) == {"url": "str", "n": "int", **others}
    assert outputs({**schema, "additionalProperties": False}) == {"url": "str", "n": "int", **others}
    assert "content_blocks" not in outputs({**schema, "additionalProperties": True})
    assert (
        interface(Tool(name="t", output_schema=schema)).outputs[-1].description.endswith("is in result.error")
    )
    schema["properties"]["content_blocks"] = {"type": "integer"}
    assert outputs(schema) == {"url": "str", "n": "int", **others, "content_blocks": "int"}


def test_a_lone_wrapping_result_is_taken_off():
    wrapped = {"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]}
    others = {"content_blocks": "list", "error": "str | None"}
    assert outputs(wrapped) == {"result": "list", **others}
    schema = {"properties": {"result": {"$ref": "#/$defs/R"}}, "$defs": {"R": {"properties": {"a": {}}}}}
    assert outputs(schema) == {"a": "any", "result": "dict", **others}


A = {"type": "object", "properties": {"a": {}}}
CLOSED = {**A, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "is_open"),
    [
        ({**A, "additionalProperties": True}, True),
        ({**A, "unevaluatedProperties": True}, True),
        ({"$ref": "https://example.com/schema.json"}, True),
        ({"properties": {"result": {"type": "string"}}, "additionalProperties": True}, True),
        (A, None),
        ({"anyOf": [CLOSED, A]}, None),
        (CLOSED, False),
        ({"anyOf": [CLOSED, {"type": "null"}]}, False),
    ],
)
def test_what_a_result_may_hold_beside_what_its_schema_names(schema, is_open):
    assert interface(Tool(name="t", output_schema=schema)).open_outputs is is_open


def test_the_schema_of_an_output_stands_by_itself():
    properties = {"a": {"items": {"$ref": "#/$defs/I"}}, "plain": {"type": "string"}}
    schema = {**A, "properties": properties, "$defs": {"I": {"type": "object"}}}
    for wrapped in (schema, {"properties": {"result": A | schema}, "$defs": schema["$defs"]}):
        fields = {
            field.key: field.schema for field in interface(Tool(name="t", output_schema=wrapped)).outputs
        }
        assert fields["a"] == {"items": {"$ref": "#/$defs/I"}, "$defs": schema["$defs"]}
        assert fields["plain"] == {"type": "string"}
        assert fields["result"]["$defs"] == schema["$defs"]


@given(JUNK, JUNK)
def test_no_schema_whatever_makes_it_fail(inputs, result):
    found = interface(Tool(name="t", input_schema=inputs, output_schema=result))
    for field in (*found.params, *found.outputs):
        assert set(field.types) <= TYPES
    json.dumps(found.to_dict())
    json.dumps(described(Tool(name="t", input_schema=inputs)))


def test_keys_and_descriptions_of_the_params_can_be_had_alone():
    parts = {"allOf": [{"properties": {"b": {"description": " the b "}}}]}
    for schema in ({"properties": {"a": {"type": "string", "description": "the a"}, "c": True}}, parts):
        tool = Tool(name="t", input_schema=schema, output_schema={"properties": {"x": {}}})
        assert described(tool) == {field.key: field.description for field in interface(tool).params}
