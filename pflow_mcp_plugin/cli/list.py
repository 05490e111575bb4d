"""`pflow mcp list`: the configured servers, with the results of their last syncs; starts none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import attrs
import click

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.catalog import tool_catalog
from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.config import display, server_schema
from pflow_mcp_plugin.contract import Problem, Report
from pflow_mcp_plugin.presets.server_program import advise
from pflow_mcp_plugin.terminal.human_units import age_text, count_text
from pflow_mcp_plugin.terminal.tables import Column, Table

if TYPE_CHECKING:
    from pflow_mcp_plugin.catalog.tool_catalog import Catalog
    from pflow_mcp_plugin.catalog.tool_file import ToolFile
    from pflow_mcp_plugin.contract import Host
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
    from pflow_mcp_plugin.terminal.tables import Cell
    from pflow_mcp_plugin.types import Server

_COLUMNS = (
    Column(title="SERVER", whole=True),
    Column(title="TYPE", whole=True, spare=True, look="dim"),
    Column(title="STATE", whole=True),
    Column(title="SYNCED", whole=True, spare=True),
    Column(title="RUNS", spare=True),
)
_EMPTY = "No MCP server is configured. Add one: pflow mcp add NAME -- COMMAND ARGS..."


class ServerRow(NamedTuple):
    """One server in the list of `pflow mcp list`.

    Attributes:
        name: Its name.
        server: Its config, None if that has mistakes.
        problems: The mistakes.
        tools: Number of tools of its last sync that become nodes, None if it was never synced.
        synced_at: Time of the last sync, ISO 8601, empty if never.
        sync_due: Whether its config changed since the last sync.
        source: Whose config it comes from.
        changed: Number of its tools that are not approved as they are now.
        withheld: How many of these may not be used before they are.
        sync_failure: Why its last sync failed, empty if it worked.
        advice: A warning that the program which starts it is missing.
    """

    name: str
    server: Server | None = None
    problems: tuple[Problem, ...] = ()
    tools: int | None = None
    synced_at: str = ""
    sync_due: bool = False
    source: Literal["user", "project"] = "user"
    changed: int = 0
    withheld: int = 0
    sync_failure: str = ""
    advice: Problem | None = None

    def to_dict(self) -> dict[str, JSON]:
        """Return the row in JSON form."""
        data: dict[str, JSON] = {"name": self.name, "source": self.source}
        if self.server:
            data |= {**display.shown(self.server), "disabled": self.server.disabled}
        data |= {"tools": self.tools, "synced_at": self.synced_at or None, "sync_due": self.sync_due}
        data |= {"changed": self.changed, "withheld": self.withheld}
        data["sync_failure"] = self.sync_failure or None
        found = [*self.problems, *([self.advice] if self.advice else [])]
        return data | {"problems": [problem.to_dict() for problem in found]}


@click.command(name="list")
@click.pass_obj
def list(host: Host) -> Report:  # noqa: A001 - each command function has the name of its command
    """List the configured servers with their number of tools, last sync, and whether a sync is due."""
    rows = [*_rows(host)]
    if not rows:
        from pathlib import Path

        from pflow_mcp_plugin.config.server_input import unmigrated

        for problem in unmigrated(Path.home(), ()):
            host.report(problem)
        return Report(data=[], text=_EMPTY)
    below = {number: [*_below(row)] for number, row in enumerate(rows)}
    table = Table(columns=_COLUMNS, rows=[_cells(row) for row in rows], below=below)
    return Report(data=[row.to_dict() for row in rows], text=(table,))


def _rows(host: Host) -> Iterator[ServerRow]:
    store, known = server_store(host), catalog(host)
    defaults = store.raw().get(server_schema.DEFAULTS, {})
    errors = [problem for problem in server_schema.check_defaults(defaults) if problem.severity == "error"]
    for problem in errors:
        host.report(attrs.evolve(problem, severity="warning"))
    if errors or not isinstance(defaults, Mapping):
        defaults = {}
    of_project = store.project_folders()
    for name in store.names():
        row = _row(name, store.table(name), defaults, known)
        yield row._replace(
            source="project" if name in of_project else "user",
            sync_failure=tool_catalog.read_failure(known.folder_of(name), name),
            advice=advise(row.server) if row.server and not row.server.disabled else None,
        )


def _row(name: str, table: JSON, defaults: JSONObject, known: Catalog) -> ServerRow:
    found = server_schema.check_server(name, table, defaults)
    errors = tuple(problem for problem in found if problem.severity == "error")
    if errors or not isinstance(table, Mapping):
        return ServerRow(name=name, problems=errors)
    server = server_schema.build(name, table, defaults)
    try:
        content = known.file(name)
    except storage.StoreError as error:
        problem = Problem(message=error.message, suggestion="".join(error.suggestions), kind="config")
        return ServerRow(name=name, server=server, problems=(problem,))
    if content is None:
        return ServerRow(name=name, server=server, sync_due=not server.disabled)
    changed = content.config_fingerprint != server_schema.fingerprint(table, defaults)
    withheld = _withheld(content, server, same_config=not changed)
    unapproved = {*withheld, *content.approved, *content.new} if server.trust != "auto" else set()
    return ServerRow(
        name=name,
        server=server,
        tools=sum(server.tools.allows(tool.name) for tool in content.tools),
        synced_at=content.synced_at,
        sync_due=changed and not server.disabled,
        changed=sum(server.tools.allows(name) for name in unapproved),
        withheld=sum(server.tools.allows(name) for name in withheld),
    )


def _withheld(content: ToolFile, server: Server, *, same_config: bool) -> set[str]:
    if server.trust == "auto":
        return set()
    whole = bool(content.unapproved)
    if not (whole or same_config):  # the config that was synced starts what was synced
        from pflow_mcp_plugin.trust.tool_approval import launch_changed

        whole = launch_changed(content, server) is not None
    return {tool.name for tool in content.tools} if whole else {*content.withheld}


def _cells(row: ServerRow) -> tuple[Cell, ...]:
    transport, runs = "?", ""
    if row.server:
        transport, runs = row.server.transport, display.target(row.server)
        runs = f"(project) {runs}" if row.source == "project" else runs
    return row.name, transport, _state(row), age_text(row.synced_at) if row.synced_at else "", runs


def _state(row: ServerRow) -> Cell:
    if row.server is None:
        return "has mistakes", "bad"
    if row.server.disabled:
        return "disabled", "dim"
    if row.tools is None:
        return ("sync failed", "bad") if row.sync_failure else ("never synced", "warn")
    count = count_text(row.tools, "tool")
    if row.withheld:
        return f"{count}, {row.withheld} withheld", "warn"
    return f"{count}, {row.changed} not approved" if row.changed else count


def _below(row: ServerRow) -> Iterator[str]:
    """Yield what stands below a server: the command to run next, and its mistakes."""
    if row.server and row.sync_due:
        yield f"    run: pflow mcp sync {row.name}"
    elif row.server and row.changed:
        yield f"    run: pflow mcp diff {row.name}"
    yield from (f"    {problem}" for problem in row.problems)
    if row.advice:
        yield f"    warning: {row.advice.message}"
        yield f"      -> {row.advice.suggestion}"
    if row.sync_failure:
        first, _, more = row.sync_failure.partition("\n")
        if not row.advice or first != row.advice.message:
            yield f"    last sync failed: {first}"
        if more:
            yield f"    see: pflow mcp test {row.name}"
