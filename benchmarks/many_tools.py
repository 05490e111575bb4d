"""A stdio server with many tools: `python benchmarks/many_tools.py 100`."""

import sys
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool


def build_server(count: int) -> MCPServer[Any]:
    """Return a server with `count` tools, each with three parameters."""

    def work(title: str, count: int = 1, urgent: bool = False) -> str:  # noqa: FBT001, FBT002 - parameters of a tool
        return f"{title} {count} {urgent}"

    first = Tool.from_function(work)  # inspecting a function takes the SDK 2 ms, so it inspects one
    named = ((f"tool_{number}", f"Do the work of department {number}.") for number in range(count))
    tools = [first.model_copy(update={"name": name, "description": text}) for name, text in named]
    return MCPServer("many", tools=tools)


if __name__ == "__main__":
    build_server(int(sys.argv[1])).run()
