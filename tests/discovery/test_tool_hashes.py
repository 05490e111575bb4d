"""What makes a tool the same as before."""

from __future__ import annotations

import attrs
import pytest

from pflow_mcp_plugin.discovery.tool_hashes import manifest_hash, tool_hash
from pflow_mcp_plugin.types import Tool

TOOL = Tool(name="add", description="Adds", input_schema={"type": "object"})


@pytest.mark.parametrize(
    "change",
    [
        {"name": "sum"},
        {"description": "Sums"},
        {"input_schema": {}},
        {"output_schema": {"type": "object"}},
    ],
)
def test_name_description_and_schemas_make_a_tool(change):
    assert tool_hash(attrs.evolve(TOOL, **change)) != tool_hash(TOOL)


def test_titles_annotations_and_the_order_of_keys_do_not():
    other = attrs.evolve(TOOL, title="Add", annotations={"readOnlyHint": True}, meta={"a": 1})
    assert tool_hash(other) == tool_hash(TOOL)
    one = Tool(name="x", input_schema={"a": 1, "b": 2})
    assert tool_hash(one) == tool_hash(Tool(name="x", input_schema={"b": 2, "a": 1}))


def test_the_order_of_tools_does_not_change_the_manifest():
    other = Tool(name="sum")
    assert manifest_hash([TOOL, other]) == manifest_hash([other, TOOL])
    assert manifest_hash([TOOL]) != manifest_hash([TOOL, other])
