"""A server's tools as a test writes them down: Python functions, `Tool` objects, or tools in JSON form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.discovery.tool_file import tool_from_json
from pflow_mcp_plugin.exchange import CallResult
from pflow_mcp_plugin.types import Tool

ToolLike = Tool | Mapping[str, Any] | Callable[..., Any]
"""A tool as a test writes it down: a function, a `Tool`, or its JSON form in an answer to `tools/list`."""


class ToolFailure(Exception):
    """What a tool declared as a Python function raises to report a failure; also given as an answer."""


@attrs.frozen(kw_only=True)
class Declared:
    """A tool that a test declared.

    Attributes:
        tool: As its server lists it.
        function: Answers a call, given its arguments as keywords; None if the test sets the answers.
    """

    tool: Tool
    function: Callable[..., CallResult] | None = None


def declared(tool: ToolLike) -> Declared:
    """Return a tool from what a test wrote down; a function's schema comes from its annotations.

    Raises:
        TypeError: The JSON form has no name.
    """
    if isinstance(tool, Tool):
        return Declared(tool=tool)
    if isinstance(tool, Mapping):
        if not isinstance(tool.get("name"), str):
            raise TypeError(f"A tool needs a name, got {dict(tool)!r}")
        return Declared(tool=tool_from_json({"inputSchema": {"type": "object"}, "hash": "", **tool}))
    return _of_function(tool)


def read_tools(path: str | Path) -> tuple[Tool, ...]:
    """Return the tools in a JSON file: an answer to `tools/list`, or the tool file of a synced server.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not JSON.
        TypeError: It has no list `tools`.
    """
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    tools = document.get("tools") if isinstance(document, Mapping) else None
    if not isinstance(tools, list):
        raise TypeError(f'{path} has no list "tools"')
    return tuple(declared(tool).tool for tool in tools)


def _of_function(function: Callable[..., Any]) -> Declared:
    from mcp.server.mcpserver.tools import Tool as SdkTool

    made = SdkTool.from_function(function)
    tool = Tool(
        name=made.name,
        description=made.description,
        input_schema=made.parameters,
        output_schema=made.output_schema,
    )

    def answer(**arguments: Any) -> CallResult:
        import asyncio

        return asyncio.run(_call(made, arguments))

    return Declared(tool=tool, function=answer)


async def _call(made: Any, arguments: dict[str, Any]) -> CallResult:
    """Call the function of an SDK tool as a server would: arguments validated, the result converted."""
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError

    try:
        result = await made.run(arguments, Context(), convert_result=True)
    except ToolError as error:
        cause = error.__cause__
        if isinstance(cause, ToolFailure):
            raise cause from None
        # A server hides what an unexpected exception says; the author of a test wants to read it.
        unexpected = isinstance(error, UnexpectedToolError) and cause
        raise ToolFailure(
            f"{error}: {type(cause).__name__}: {cause}" if unexpected else str(error)
        ) from error
    data = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return CallResult(
        content=tuple(data["content"]),
        structured=data.get("structuredContent"),
        has_structured="structuredContent" in data,
        is_error=bool(data.get("isError")),
    )
