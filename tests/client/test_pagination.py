"""A list of tools, put together from its pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from pflow_mcp_plugin.client.tool_lists import ToolPages
from pflow_mcp_plugin.types import Tool


def pages(*raw: Mapping[str, Any]) -> ToolPages:
    left = list(raw)

    async def request(cursor: str | None) -> tuple[str | None, Mapping[str, Any]]:
        page = left.pop(0)
        return (str(len(left)) if left else None), page

    collected = ToolPages()
    asyncio.run(collected.collect(request))
    return collected


def test_tools_that_share_a_name_are_left_out_and_named():
    tools, skipped = pages(
        {"tools": [{"name": "a"}, {"name": "b"}]}, {"tools": [{"name": "b"}, {"name": "b", "title": "B"}]}
    ).tools()
    assert [tool.name for tool in tools] == ["a"]
    assert skipped == [("b", "3 tools have this name; all are skipped")]


def test_all_that_a_server_says_of_a_tool_is_kept():
    same = {"name": "a", "description": "A", "title": "The A", "annotations": {"readOnlyHint": True}}
    takes, gives, meta = {"type": "object"}, {"type": "object", "properties": {}}, {"origin": "here"}
    schemas = {"inputSchema": takes, "outputSchema": gives}
    said = {**same, **schemas, "_meta": meta, "execution": {"taskSupport": "optional"}}
    (tool,), _ = pages({"tools": [said]}).tools()
    kept = {"input_schema": takes, "output_schema": gives, "meta": meta, "task_support": "optional"}
    assert tool == Tool(**same, **kept)


def test_ten_thousand_tools_take_no_longer_than_ten_thousand_tools():
    collected = pages({"tools": [{"name": f"t{number}"} for number in range(10_000)]})
    started = time.process_time()
    tools, _ = collected.tools()
    assert len(tools) == 10_000
    assert time.process_time() - started < 0.8


@pytest.mark.parametrize(
    ("hint", "seconds"),
    [(5000, 5), (10**400, 3600), (float("inf"), 3600), (float("nan"), 0), (-1, 0), ("5000", 0), (None, 0)],
)
def test_a_list_holds_for_an_hour_at_most_whatever_its_server_says(hint, seconds):
    assert pages({"tools": [], "ttlMs": hint}).fresh_seconds == seconds


def test_what_a_tool_says_of_tasks_is_read_and_nonsense_is_not():
    required, optional = {"taskSupport": "required"}, {"taskSupport": "optional"}
    said = [None, {}, required, {"taskSupport": 1}, "required", [], optional]
    raw = [{"name": f"t{number}", "execution": execution} for number, execution in enumerate(said)]
    tools, _ = pages({"tools": raw}).tools()
    assert [tool.task_support for tool in tools] == ["", "", "required", "", "", "", "optional"]
