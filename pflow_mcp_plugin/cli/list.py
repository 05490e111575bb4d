"""`pflow mcp list`: the configured servers, with the results of their last syncs; starts none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.catalog import tool_catalog
from pflow_mcp_plugin.config import display, server_schema
from pflow_mcp_plugin.config.server_schema import advise
from pflow_mcp_plugin.contract import Host, Problem, Report
from pflow_mcp_plugin.contract.problems import advice, errors_in, problem_of
from pflow_mcp_plugin.discovery.servers import catalog, server_store
from pflow_mcp_plugin.terminal.human_units import age_text, count_text
from pflow_mcp_plugin.terminal.looks import Cell, Column, Table

if TYPE_CHECKING:
    from pflow_mcp_plugin.catalog.tool_file import ToolFile
    from pflow_mcp_plugin.types import Server

_COLUMNS = (
    Column(title="SERVER", whole=True),
    Column(title="TYPE", whole=True, spare=True, look="dim"),
    Column(title="STATE", whole=True),
    Column(title="SYNCED", whole=True, spare=True),
    Column(title="RUNS", spare=True),
)
_UNSYNCED = {"tools": None, "synced_at": None, "sync_due": False, "changed": 0, "withheld": 0}
_EMPTY = "No MCP server is configured. Add one: pflow mcp add NAME -- COMMAND ARGS..."


@click.command(name="list")
@click.pass_obj
def list_servers(host: Host) -> Report:
    """List the configured servers with their number of tools, last sync, and whether a sync is due."""
    store, known = server_store(host, duplicates=True), catalog(host)
    defaults = store.raw().get(server_schema.DEFAULTS, {})
    errors = errors_in(server_schema.check_defaults(defaults))
    for problem in errors:
        host.report(attrs.evolve(problem, severity="warning"))
    if errors or not isinstance(defaults, Mapping):
        defaults = {}
    of_project = store.project_folders()
    data: list[dict[str, Any]] = []
    cells: list[tuple[Cell, ...]] = []
    below: dict[int, list[str]] = {}
    for number, name in enumerate(store.names()):
        table = store.table(name)
        problems = errors_in(server_schema.check_server(name, table, defaults))
        server = None
        if isinstance(table, Mapping) and not problems:
            server = server_schema.build(name, table, defaults)
        row: dict[str, Any] = {"name": name, "source": "project" if name in of_project else "user"}
        if server:
            row |= {**display.shown(server), "disabled": server.disabled}
        row |= _UNSYNCED
        if server:
            try:
                row |= _synced(known.file(name), server, server_schema.fingerprint(table, defaults))
                kept = known.set_aside(name) if row["tools"] is None else None
                problems += [advice("", f"The tool file was corrupt and is kept as {kept}")] if kept else []
            except storage.StoreError as error:
                problems = [problem_of(error)]
        row["sync_failure"] = tool_catalog.read_failure(known.folder_of(name), name) or None
        advised = advise(server) if server and not server.disabled else None
        row["problems"] = [problem.to_dict() for problem in (*problems, *([advised] if advised else []))]
        data.append(row)
        cells.append(_cells(row, server))
        below[number] = [*_below(row, problems, advised)]
    if not data:
        from pathlib import Path

        from pflow_mcp_plugin.config.server_input import unmigrated

        for problem in unmigrated(Path.home(), ()):
            host.report(problem)
        return Report(data=[], text=_EMPTY)
    return Report(data=data, text=(Table(columns=_COLUMNS, rows=cells, below=below),))


def _synced(content: ToolFile | None, server: Server, fingerprint: str) -> dict[str, Any]:
    if content is None:
        return {"sync_due": not server.disabled}
    changed = content.config_fingerprint != fingerprint
    withheld = _withheld(content, server, same_config=not changed)
    unapproved = {*withheld, *content.approved, *content.new} if server.trust != "auto" else set()
    return {
        "tools": sum(server.tools.allows(tool.name) for tool in content.tools),
        "synced_at": content.synced_at or None,
        "sync_due": changed and not server.disabled,
        "changed": sum(server.tools.allows(name) for name in unapproved),
        "withheld": sum(server.tools.allows(name) for name in withheld),
    }


def _withheld(content: ToolFile, server: Server, *, same_config: bool) -> set[str]:
    if server.trust == "auto":
        return set()
    whole = bool(content.unapproved)
    if not (whole or same_config):  # the config that was synced starts what was synced
        from pflow_mcp_plugin.trust.tool_approval import launch_changed

        whole = launch_changed(content, server) is not None
    return {tool.name for tool in content.tools} if whole else {*content.withheld}


def _cells(row: Mapping[str, Any], server: Server | None) -> tuple[Cell, ...]:
    if server is None:
        return row["name"], "?", ("has mistakes", "bad"), "", ""
    state: Cell
    if row["disabled"]:
        state = "disabled", "dim"
    elif row["tools"] is None:
        state = ("sync failed", "bad") if row["sync_failure"] else ("never synced", "warn")
    elif row["withheld"]:
        state = f"{count_text(row['tools'], 'tool')}, {row['withheld']} withheld", "warn"
    else:
        more = f", {row['changed']} not approved" if row["changed"] else ""
        state = count_text(row["tools"], "tool") + more
    runs = display.target(server)
    runs = f"(project) {runs}" if row["source"] == "project" else runs
    synced = age_text(row["synced_at"]) if row["synced_at"] else ""
    return row["name"], server.transport, state, synced, runs


def _below(row: Mapping[str, Any], problems: Iterable[Problem], advised: Problem | None) -> Iterator[str]:
    if row["sync_due"]:
        yield f"    run: pflow mcp sync {row['name']}"
    elif row["changed"]:
        yield f"    run: pflow mcp diff {row['name']}"
    yield from (f"    {problem}" for problem in problems)
    if advised:
        yield f"    warning: {advised.message}"
        yield f"      -> {advised.suggestion}"
    if row["sync_failure"]:
        first, _, more = row["sync_failure"].partition("\n")
        if not advised or first != advised.message:
            yield f"    last sync failed: {first}"
        if more:
            yield f"    see: pflow mcp test {row['name']}"
