"""The checks of `trust.tool_checks`, made on synced servers; starts none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.discovery.catalog import Catalog
from pflow_mcp_plugin.trust.hidden_text import Finding
from pflow_mcp_plugin.trust.name_index import index_names
from pflow_mcp_plugin.trust.tool_checks import check_tools

_NOTED = 10
"""Findings that a sync shows of each server."""


def audit(
    catalog: Catalog,
    servers: Iterable[str],
    *,
    nodes: Collection[str] = (),
    allowed: Callable[[str, str], bool] = lambda _server, _tool: True,
) -> Iterator[Finding]:
    """Yield the findings about the last syncs of servers, in their order.

    Args:
        catalog: The tools of every synced server; each is compared with all others.
        servers: The servers to check.
        nodes: Node types of others that tools must not look like.
        allowed: Whether a tool, by server and name, becomes a node; the others are left out.

    Raises:
        storage.StoreError: The tool file of a server to check cannot be read.
    """
    every = {
        server: [tool for tool in readable_names(catalog, server) if allowed(server, tool)]
        for server in catalog.servers()
    }
    names = index_names(every, nodes)
    for server in servers:
        content = catalog.file(server)
        if content:
            tools = [tool for tool in content.tools if allowed(server, tool.name)]
            yield from check_tools(server, tools, content.info.instructions, names)


def readable_names(catalog: Catalog, server: str) -> tuple[str, ...]:
    """Return the names of a server's tools, none if its tool file cannot be read."""
    try:
        return catalog.tool_names(server)
    except storage.StoreError:  # it is no reason not to check the others
        return ()


def notes(server: str, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the lines that a sync shows about the findings of a server: errors first, and not all of many."""
    found = sorted(findings, key=lambda finding: finding.severity)  # stable, and `error` comes first
    yield from map(line, found[:_NOTED])
    if len(found) > _NOTED:
        yield f"and {len(found) - _NOTED} more findings: pflow mcp audit {server}"


def line(finding: Finding) -> str:
    """Return a finding as one line without the server."""
    whose = f"{finding.tool}: " if finding.tool else ""
    mark = "error: " if finding.severity == "error" else ""
    return f"{mark}{whose}{finding.where} {finding.message} [{finding.rule}]"
