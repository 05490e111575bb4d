"""The host's own nodes as a plugin: they come through the same hook as everybody's."""

from __future__ import annotations

from collections.abc import Iterable

from pflow_mcp_plugin.contract import Host, NodeSource, hookimpl
from pflow_mcp_plugin.host.nodes.source import OwnNodes


@hookimpl
def pflow_register_nodes(host: Host) -> Iterable[NodeSource]:
    """Contribute `echo`, `read-file` and `write-file`."""
    return [OwnNodes()]
