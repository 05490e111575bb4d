"""What identifies the launch of a server: the program that is run, or the place that is connected to."""

from __future__ import annotations

from typing import cast

from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.types import Server


def launch_identity(server: Server) -> JSONObject:
    """Return the identity of a server's launch as JSON.

    Args:
        server: The server as configured, its references not expanded.
    """
    found: dict[str, object] = {
        "transport": server.transport,
        "command": server.command,
        "args": display.arguments(server.args),
        "cwd": server.cwd,
        "path": server.path,
        "url": display.url(server.url),
    }
    return cast("JSONObject", {key: value for key, value in found.items() if value})
