from __future__ import annotations

import json

import pytest

from pflow_mcp_plugin.testing import ToolAnswers, read_tools
from pflow_mcp_plugin.types import Tool

LISTED = {
    "name": "search",
    "description": "Search",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


def test_the_json_form_of_a_tool_keeps_what_it_says():
    (tool,) = ToolAnswers([LISTED]).tools
    assert tool == Tool(
        name="search",
        description="Search",
        input_schema=LISTED["inputSchema"],
        annotations={"readOnlyHint": True},
    )
    assert ToolAnswers([{"name": "bare"}]).tools == (Tool(name="bare", input_schema={"type": "object"}),)


def test_a_tool_without_a_name_is_refused():
    with pytest.raises(TypeError, match="needs a name"):
        ToolAnswers([{"description": "?"}])


def test_tools_are_read_from_an_answer_to_tools_list(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": [LISTED]}), encoding="utf-8")
    assert [tool.name for tool in read_tools(path)] == ["search"]
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(TypeError, match='no list "tools"'):
        read_tools(path)


def test_tools_are_read_from_the_tool_file_of_a_synced_server(pflow_host):
    pflow_host.stub("tickets", [LISTED, Tool(name="close", input_schema={"type": "object"})])
    (file,) = pflow_host.host.paths.data.rglob("tickets.json")
    assert [tool.name for tool in read_tools(file)] == ["search", "close"]


def test_a_function_may_be_asynchronous(pflow_host):
    async def wait(seconds: float) -> str:
        return f"{seconds} s"

    pflow_host.stub("slow", [wait])
    outcome = pflow_host.run({"nodes": [{"id": "wait", "type": "mcp-slow-wait", "params": {"seconds": 1.5}}]})
    assert outcome.success, outcome.error
    assert outcome.outputs["result"] == "1.5 s"
