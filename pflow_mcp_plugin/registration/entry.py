"""A tool becomes a registry entry."""

from __future__ import annotations

import re
from collections.abc import Callable

from pflow_mcp_plugin.contract import Entry, Interface
from pflow_mcp_plugin.registration.interface import interface
from pflow_mcp_plugin.trust.purity import purity
from pflow_mcp_plugin.types import Server, Tool, ToolRecord

SOURCE = "mcp"

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def entry(record: ToolRecord, server: Server, shape: Callable[[Tool], Interface] = interface) -> Entry:
    """Return the entry of a tool.

    Args:
        record: The tool as it was last synced.
        server: The server's config as it is now.
        shape: Makes the interface of the tool.
    """
    tool = record.tool
    return Entry(
        node=record.node,
        class_name="MCPNode",
        module="pflow_mcp_plugin.execution.node",
        file_path="virtual://mcp",
        type="mcp_wrapper",
        source=SOURCE,
        description=printable(tool.description or tool.title),
        interface=shape(tool),
        purity=purity(tool, server),
        extra={
            "mcp_config": {
                "server_id": record.server,
                "tool_name": tool.name,
                "transport": server.transport,
                "version": record.info.version,
                "manifest_hash": record.manifest_hash,
            },
            "labels": {"server": record.server, "tool": tool.name},
        },
    )


def printable(text: str) -> str:
    """Return a server's text without control characters, which could steer a terminal."""
    return _CONTROL.sub("", text).strip()
