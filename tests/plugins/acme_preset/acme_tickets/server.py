"""A server to begin with: its tickets are made up."""

from __future__ import annotations

import sys

from mcp.server import MCPServer

TICKETS = ("The login fails", "The logo is too small", "A search finds nothing")

server = MCPServer("acme-tickets")


@server.tool()
def search(words: str) -> list[str]:
    """Find the tickets that contain these words."""
    project = sys.argv[1]
    return [f"{project}-{i}: {title}" for i, title in enumerate(TICKETS, 1) if words in title]


if __name__ == "__main__":
    server.run()
