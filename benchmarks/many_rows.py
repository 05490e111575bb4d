"""A large table, made by one tool and read by another.

`python benchmarks/many_rows.py` serves the tools over stdio; with a number, it calls them for so many rows,
in one session, with the SDK alone.
"""

import asyncio
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

server: MCPServer[Any] = MCPServer("rows")


@server.tool()
def table(rows: int) -> dict[str, Any]:
    """Return a table."""
    return {"rows": [{"id": at, "name": f"name {at}", "price": at * 1.5, "tag": None} for at in range(rows)]}


@server.tool()
def count(rows: list[Any]) -> dict[str, Any]:
    """Return how many rows there are."""
    return {"count": len(rows)}


async def main(rows: int) -> None:
    """Make a table, and count its rows twice."""
    async with Client(StdioServerParameters(command=sys.executable, args=[__file__])) as client:
        made = await client.call_tool("table", {"rows": rows})
        for _ in range(2):
            counted = await client.call_tool("count", {"rows": (made.structured_content or {})["rows"]})
        print((counted.structured_content or {})["count"])


if len(sys.argv) > 1:
    asyncio.run(main(int(sys.argv[1])))
else:
    server.run()
