"""`pflow mcp tools`: lists the tools of the last syncs as nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import click

from pflow_mcp_plugin.cli.columns import columns
from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.discovery.tool_approval import withheld
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.types import Server, ToolRecord

_WIDTH = 80
_NONE = "No tools. See the servers: pflow mcp list"


@click.command()
@click.argument("server", required=False, shell_complete=servers)
@click.pass_obj
def tools(host: Host, server: str | None) -> Report:
    """List the tools of all servers, or of one, with their node types."""
    return list_tools(host, server)


def list_tools(host: Host, server: str | None = None) -> Report:
    """Return the report of `pflow mcp tools`: the tools of the last syncs as nodes; starts no server.

    Raises:
        McpError: The named server is not configured.
        McpError: Its config has mistakes.
    """
    store = server_store(host)
    source = ToolSource(catalog(host), store)
    if server:
        store.get(server)
    for name in (server,) if server else store.names():
        problem = source.unsynced(name) if _is_used(host, name) else None
        if problem:
            host.report(attrs.evolve(problem, severity="warning"))
    rows = [_row(record, store.get(record.server)) for record in source.records(server)]
    return Report(data=rows, text=lambda: _table(rows))


def _is_used(host: Host, name: str) -> bool:
    try:
        return not server_store(host).get(name).disabled
    except PflowError:
        return False


def _row(record: ToolRecord, server: Server) -> dict[str, str]:
    problem = withheld(record, server)
    return {
        "node": record.node,
        "server": record.server,
        "tool": record.tool.name,
        "description": record.tool.description or record.tool.title,
        **({"changed": problem.message} if problem else {}),
    }


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(columns([(row["node"], _note(row)) for row in rows])) or _NONE


def _note(row: Mapping[str, str]) -> str:
    changed = f"! changed (see: pflow mcp diff {row['server']}) " if "changed" in row else ""
    return changed + _first_line(row["description"])


def _first_line(text: str) -> str:
    line = text.partition("\n")[0].strip()
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
