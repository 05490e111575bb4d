"""`pflow mcp list`: the configured servers, with the results of their last syncs; starts none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import attrs
import click

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.cli.columns import columns
from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.config import display, server_schema
from pflow_mcp_plugin.contract import Host, Problem, Report
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.discovery.catalog import Catalog
from pflow_mcp_plugin.discovery.tool_approval import launch_changed
from pflow_mcp_plugin.discovery.tool_file import ToolFile
from pflow_mcp_plugin.discovery.tool_filter import allows
from pflow_mcp_plugin.types import Server

_EMPTY = "No MCP server is configured. Add one: pflow mcp add NAME -- COMMAND ARGS..."


@attrs.frozen(kw_only=True)
class ServerRow:
    """One server in the list of `pflow mcp list`.

    Attributes:
        name: Its name.
        server: Its config, None if that has mistakes.
        problems: The mistakes.
        tools: Number of tools of its last sync that become nodes, None if it was never synced.
        synced_at: Time of the last sync, ISO 8601, empty if never.
        sync_due: Whether its config changed since the last sync.
        source: `user` for a server of the user's own config, `project` for one of a project's.
        changed: Number of its tools that are withheld because of a change that is not approved.
    """

    name: str
    server: Server | None = None
    problems: tuple[Problem, ...] = ()
    tools: int | None = None
    synced_at: str = ""
    sync_due: bool = False
    source: Literal["user", "project"] = "user"
    changed: int = 0

    def to_dict(self) -> dict[str, JSON]:
        """Return the listed server in JSON form."""
        data: dict[str, JSON] = {"name": self.name, "source": self.source}
        if self.server:
            data |= {**display.shown(self.server), "disabled": self.server.disabled}
        data |= {"tools": self.tools, "synced_at": self.synced_at or None, "sync_due": self.sync_due}
        data["changed"] = self.changed
        return data | {"problems": [problem.to_dict() for problem in self.problems]}


@click.command(name="list")
@click.pass_obj
def list(host: Host) -> Report:  # noqa: A001 - each command function has the name of its command
    """List the configured servers with their number of tools, last sync, and whether a sync is due."""
    rows = [*_rows(host)]
    if not rows:
        _report_older_files(host)
    return Report(data=[row.to_dict() for row in rows], text=lambda: _table(rows) if rows else _EMPTY)


def _report_older_files(host: Host) -> None:
    from pathlib import Path

    from pflow_mcp_plugin.config.older_files import default_files, unmigrated

    for problem in unmigrated(default_files(Path.home()), ()):
        host.report(problem)


def _rows(host: Host) -> Iterator[ServerRow]:
    store = server_store(host)
    known = catalog(host)
    document = store.raw()
    defaults = _usable_defaults(host, document.get(server_schema.DEFAULTS, {}))
    of_project = store.project_folders()
    for name in store.names():
        row = _row(name, store.table(name), defaults, known)
        yield attrs.evolve(row, source="project") if name in of_project else row


def _usable_defaults(host: Host, defaults: JSON) -> JSONObject:
    errors = [problem for problem in server_schema.check_defaults(defaults) if problem.severity == "error"]
    for problem in errors:
        host.report(attrs.evolve(problem, severity="warning"))
    return defaults if isinstance(defaults, Mapping) and not errors else {}


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
    return ServerRow(
        name=name,
        server=server,
        tools=sum(allows(server.tools, tool.name) for tool in content.tools),
        synced_at=content.synced_at,
        sync_due=changed and not server.disabled,
        changed=_changed(content, server),
    )


def _changed(content: ToolFile, server: Server) -> int:
    if server.trust == "auto":
        return 0
    whole = content.unapproved or launch_changed(content, server)
    names = {tool.name for tool in content.tools} if whole else content.changed
    return sum(allows(server.tools, name) for name in names)


def _table(rows: Sequence[ServerRow]) -> str:
    cells = [(row.name, _transport(row), _state(row), _note(row)) for row in rows]
    lines = []
    for row, line in zip(rows, columns(cells), strict=True):
        lines += [line, *(f"    {problem}" for problem in row.problems)]
    return "\n".join(lines)


def _transport(row: ServerRow) -> str:
    return row.server.transport if row.server else "?"


def _state(row: ServerRow) -> str:
    if row.server is None:
        return "has mistakes"
    if row.server.disabled:
        return "disabled"
    if row.tools is None:
        return "never synced"
    count = f"{row.tools} tool" + ("" if row.tools == 1 else "s")
    changed = f", {row.changed} changed" if row.changed else ""
    return f"{count}{changed}, {row.synced_at[:16].replace('T', ' ')}"


def _note(row: ServerRow) -> str:
    if row.server is None:
        return ""
    commands = [f"pflow mcp sync {row.name}"] if row.sync_due else []
    if row.changed and not row.sync_due:
        commands = [f"pflow mcp diff {row.name}"]
    of_project = "(project) " if row.source == "project" else ""
    place = display.target(row.server)
    return of_project + place + "".join(f"  (run: {command})" for command in commands)
