import attrs
import pytest
from hostile import SCHEMAS
from hypothesis import given

from pflow_mcp_plugin.trust.tool_difference import compare, differences
from pflow_mcp_plugin.types import Tool

TEXT = {"type": "string"}


def tool(properties, required=(), **others):
    schema = {"type": "object", "properties": properties, "required": list(required), **others}
    return Tool(name="t", input_schema=schema)


def changed(old, new):
    (change,) = compare([old], [new]).changed
    return change.kind, list(change.fields)


@pytest.mark.parametrize(
    ("new", "kind", "fields"),
    [
        (attrs.evolve(tool({"a": TEXT}), description="x"), "compatible", ["description"]),
        (tool({"a": TEXT, "b": TEXT}), "compatible", ["inputSchema.properties.b"]),
        (tool({}), "breaking", ["inputSchema.properties.a"]),
        (tool({"a": TEXT}, ["a"]), "breaking", ["inputSchema.required"]),
        (tool({"a": {"type": "integer"}}), "breaking", ["inputSchema.properties.a.type"]),
        (tool({"a": {"type": ["string", "null"]}}), "breaking", ["inputSchema.properties.a.type"]),
        (tool({"a": {**TEXT, "title": "A"}}), "compatible", ["inputSchema.properties.a.title"]),
        (tool({"a": {**TEXT, "enum": ["x"]}}), "breaking", ["inputSchema.properties.a.enum"]),
        (tool({"a": TEXT}, additionalProperties=False), "breaking", ["inputSchema.additionalProperties"]),
    ],
)
def test_a_tool_that_accepts_less_than_before_is_breaking(new, kind, fields):
    assert changed(tool({"a": TEXT}), new) == (kind, fields)


@given(SCHEMAS, SCHEMAS)
def test_any_two_schemas_can_be_compared_and_nothing_differs_from_itself(old, new):
    one, other = (Tool(name="t", input_schema=schema, output_schema=schema) for schema in (old, new))
    assert not differences(one, one)
    assert bool(differences(one, other)) is (one != other)
