"""`pflow mcp tools`: lists the tools of the last syncs as nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import click

from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.terminal.tables import Cell, Column, Table
from pflow_mcp_plugin.trust.tool_approval import withheld
from pflow_mcp_plugin.types import Server, ToolRecord

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
    return Report(data=rows, text=lambda: (_table(rows) if rows else _NONE,))


def _is_used(host: Host, name: str) -> bool:
    try:
        return not server_store(host).get(name).disabled
    except PflowError:
        return False


def _row(record: ToolRecord, server: Server) -> dict[str, str]:
    problem = withheld(record, server)
    kind = "task_only" if record.found.task_support == "required" else "withheld"
    changed = {"changed": f"changed since it was approved (see: pflow mcp diff {record.server})"}
    return {
        "node": record.node,
        "server": record.server,
        "tool": record.tool.name,
        "description": record.tool.description or record.tool.title,
        **({kind: problem.message} if problem else changed if record.has_changed else {}),
    }


def _table(rows: Sequence[Mapping[str, str]]) -> Table:
    columns = (Column(title="NODE", whole=True), Column(title="DESCRIPTION"))
    return Table(columns=columns, rows=[(row["node"], _note(row)) for row in rows])


def _note(row: Mapping[str, str]) -> Cell:
    first = row["description"].partition("\n")[0].strip()
    if "task_only" in row:
        return f"! runs as a task only, which is not supported: {first}", "warn"
    if "withheld" in row:
        return f"! withheld (see: pflow mcp diff {row['server']}) {first}", "warn"
    if "changed" in row:
        return f"~ changed (see: pflow mcp diff {row['server']}) {first}"
    return first
