"""A server whose tools return the `_meta` of the call, or fail with the server's token in the message.

`python meta_server.py` speaks over stdio; `python meta_server.py http` over HTTP, and prints its port first.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

TOOLS = [
    types.Tool(name=name, description=name, input_schema={"type": "object", "additionalProperties": True})
    for name in ("meta", "fail", "refuse")
]


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    token = os.environ.get("TOKEN", "")
    if params.name == "refuse":
        raise MCPError(-32000, f"refused {token}")
    said = {key: value for key, value in (context.meta or {}).items() if "/" not in key}
    return types.CallToolResult(
        content=[types.TextContent(text=f"said {token}")],
        structured_content={"meta": said},
        is_error=params.name == "fail",
    )


SERVER = Server("meta", on_list_tools=list_tools, on_call_tool=call_tool)


def over_http() -> None:
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(SERVER.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


async def over_stdio() -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as streams:
        await SERVER.run(*streams, SERVER.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        over_http()
    else:
        import anyio

        anyio.run(over_stdio)
