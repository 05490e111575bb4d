"""The special parameters injected into a node of `MCPNode` to name its tool, as all tools share the class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.contract import NodeRef

_SERVER = "__mcp_server__"
_TOOL = "__mcp_tool__"
EXTRA = "__mcp_extra__"
"""The param that says that a node sends params that its tool does not declare."""


def inject(node: NodeRef, servers: Iterable[str] = ()) -> Mapping[str, object] | None:
    """Return the parameters to inject into a node: `__mcp_server__`, `__mcp_tool__`; None for others' nodes.

    With an entry that takes any params, `__mcp_extra__` is among them.

    Server and tool come from the entry. An entry written by hand may lack them: then the node type is
    parsed, with the longest matching server name, or else split at its first hyphen.
    """
    config = node.entry.extra.get("mcp_config")
    if isinstance(config, Mapping) and config.get("server_id") and config.get("tool_name"):
        extra = {EXTRA: True} if node.entry.interface.open else {}
        return {_SERVER: config["server_id"], _TOOL: config["tool_name"], **extra}
    found = naming.parse_node_type(node.type, servers)
    if found is None and node.type.startswith(naming.PREFIX):
        server, _, tool = node.type.removeprefix(naming.PREFIX).partition("-")
        found = (server, tool) if server and tool else None
    return {_SERVER: found[0], _TOOL: found[1]} if found else None


def used_tools(nodes: Iterable[NodeRef], servers: Iterable[str] = ()) -> dict[str, set[str]]:
    """Return the tools that `inject` would name for these nodes: raw names, by server."""
    known = tuple(servers)
    used: dict[str, set[str]] = {}
    for node in nodes:
        if found := inject(node, known):
            used.setdefault(str(found[_SERVER]), set()).add(str(found[_TOOL]))
    return used
