"""Builds the registry entry of a tool, or its sketch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pflow_mcp_plugin.contract import Entry, Sketch
from pflow_mcp_plugin.contract.printable_text import printable
from pflow_mcp_plugin.discovery import tool_approval
from pflow_mcp_plugin.registration.node_interface import described, interface
from pflow_mcp_plugin.trust.purity import claims_to_read, purity
from pflow_mcp_plugin.trust.tool_effects import effects
from pflow_mcp_plugin.types import Server, Tool, ToolRecord

SOURCE = "mcp"


def entry(record: ToolRecord, server: Server, variables: Mapping[str, str] | None = None) -> Entry:
    """Build the registry entry of a tool.

    Args:
        record: The tool as of its last sync.
        server: The current config of its server.
        variables: The variables that decide what the server is started with, None if they are not known.
    """
    tool = record.tool
    return Entry(
        node=record.node,
        class_name="MCPNode",
        module="pflow_mcp_plugin.execution.node",
        file_path="virtual://mcp",
        type="mcp_wrapper",
        source=SOURCE,
        description=_description(tool),
        interface=interface(tool),
        purity=purity(tool, server),
        claimed_purity="flow_safe" if claims_to_read(tool) else "",
        effects=effects(tool, server),
        labels=_labels(record),
        family=record.server,
        local_name=tool.name,
        fingerprint=tool_approval.fingerprint(record, server),
        withheld=tool_approval.withheld(record, server, variables),
        extra={
            "mcp_config": {
                "server_id": record.server,
                "tool_name": tool.name,
                "transport": server.transport,
                "version": record.info.version,
                "manifest_hash": record.manifest_hash,
            },
        },
    )


def tool_config(entry: Entry) -> Mapping[str, str]:
    """Return what an entry that `entry` built says of its tool: `server_id`, `tool_name` and more."""
    return cast("Mapping[str, str]", entry.extra["mcp_config"])  # strings, see `entry`


def sketch(record: ToolRecord) -> Sketch:
    """Build the sketch of a tool's registry entry."""
    tool = record.tool
    return Sketch(
        node=record.node,
        description=_description(tool),
        params=described(tool),
        labels=_labels(record),
        family=record.server,
        local_name=tool.name,
        source=SOURCE,
    )


def _description(tool: Tool) -> str:
    return printable((tool.description or tool.title).strip())


def _labels(record: ToolRecord) -> dict[str, str]:
    return {"server": record.server, "tool": record.tool.name}
