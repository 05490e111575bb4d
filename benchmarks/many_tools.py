"""A stdio server with many tools: `python benchmarks/many_tools.py 100`."""

import sys
from typing import Any

from mcp.server import MCPServer


def build_server(count: int) -> MCPServer[Any]:
    """Return a server with `count` tools, each with three parameters."""
    server: MCPServer[Any] = MCPServer("many")

    def work(title: str, count: int = 1, urgent: bool = False) -> str:  # noqa: FBT001, FBT002 - a tool's
        return f"{title} {count} {urgent}"

    for number in range(count):
        server.add_tool(work, name=f"tool_{number}", description=f"Do the work of department {number}.")
    return server


if __name__ == "__main__":
    build_server(int(sys.argv[1])).run()
