"""What differs between two versions of a tool, and the hashes that tell that something does."""

from hashlib import sha256

import attrs
import pytest
from hostile import SCHEMAS
from hypothesis import given

from pflow_mcp_plugin.catalog.json_values import canonical, manifest_hash, tool_hash
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


TOOL = Tool(name="add", description="Adds", input_schema={"type": "object"})


def test_the_metadata_of_a_tool_and_the_order_of_keys_do_not_change_its_hash():
    assert tool_hash(attrs.evolve(TOOL, meta={"a": 1})) == tool_hash(TOOL)
    one = Tool(name="x", input_schema={"a": 1, "b": 2})
    assert tool_hash(one) == tool_hash(Tool(name="x", input_schema={"b": 2, "a": 1}))


def test_the_order_of_tools_does_not_change_the_manifest():
    other = Tool(name="sum")
    assert manifest_hash([TOOL, other]) == manifest_hash([other, TOOL])
    assert manifest_hash([TOOL]) != manifest_hash([TOOL, other])


def test_the_hash_is_taken_over_canonical_json_of_all_of_it():
    text = (
        '{"annotations":{},"description":"Adds","inputSchema":{"type":"object"},"name":"add",'
        '"outputSchema":null,"title":""}'
    )
    assert tool_hash(TOOL) == "sha256:" + sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"\u20ac": 1, "\r": 2, "\U0001f600": 3, "\ufb33": 4},
            '{"\\r":2,"\u20ac":1,"\U0001f600":3,"\ufb33":4}',
        ),
        ([1.0, 1e21, 1e-7, -0.0, 333333333.33333329], "[1,1e+21,1e-7,0,333333333.3333333]"),
        (2**53 - 1, "9007199254740991"),
    ],
)
def test_canonical_json_is_that_of_rfc_8785(value, text):
    assert canonical(value) == text.encode()


def nested(depth, leaf):
    value = leaf
    for level in range(depth):
        value = [value] if level % 2 else {"items": value}
    return value


HOSTILE = [
    2**63,
    -(2**63),
    10**5000,
    float("inf"),
    -float("inf"),
    float("nan"),
    "\ud800",
    "\\ud800",
    "\0eda080",
    {"\ud800": 1},
    {"\0integer": "0x8000000000000000"},
    True,
    1,
    "1",
    [],
    {},
    nested(5000, 1),
    nested(5000, 2),
    nested(5001, 1),
    nested(101, []),
    nested(101, {}),
]


def test_different_values_stay_different_and_none_is_refused():
    assert len({canonical(value) for value in HOSTILE}) == len(HOSTILE)
