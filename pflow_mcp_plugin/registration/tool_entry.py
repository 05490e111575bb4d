"""Builds the registry entry of a tool, or its sketch.

What an entry shows is what was approved of the tool, since models read it; uses are checked against the tool
as it is now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pflow_mcp_plugin.contract import Entry, Sketch
from pflow_mcp_plugin.discovery import tool_approval
from pflow_mcp_plugin.registration.node_interface import changed_interface, described, interface
from pflow_mcp_plugin.terminal.printable_text import printable
from pflow_mcp_plugin.trust.tool_claims import claims_to_read, effects, purity
from pflow_mcp_plugin.types import Server, Tool, ToolRecord

SOURCE = "mcp"

_LONGEST_NAME = 64


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
        interface=interface(tool) if record.found is tool else changed_interface(record),
        purity=purity(record, server),
        claimed_purity="flow_safe" if claims_to_read(record) else "",
        effects=effects(record, server),
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
                "version": record.info.plain_version,
                "manifest_hash": record.manifest_hash,
            },
        },
    )


def is_listed(record: ToolRecord) -> bool:
    """Whether lists and searches have a tool: a long name would be a text that nobody approved."""
    return record.is_approved or len(record.node) <= _LONGEST_NAME


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
