"""`pflow mcp diff | approve`: what changed in servers since they were approved, and its approval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.catalog.tool_file import ToolFile
from pflow_mcp_plugin.cli import command_arguments
from pflow_mcp_plugin.cli.dependencies import approve_launches, catalog, current_launch, pins, server_store
from pflow_mcp_plugin.cli.interaction import is_interactive, tell
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.field_checks import nearest, refusal
from pflow_mcp_plugin.config.project_file import APPROVE, ProjectContent, ProjectFile, server_lines, variables
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.printable_text import one_line
from pflow_mcp_plugin.trust import pins as approvals
from pflow_mcp_plugin.trust.launch_identity import same
from pflow_mcp_plugin.trust.launch_identity import shown as shown_launch
from pflow_mcp_plugin.trust.pins import NOTHING, Comparison, Pinned


@click.command()
@click.argument("server", required=False, shell_complete=command_arguments.servers)
@click.pass_obj
def diff(host: Host, server: str | None) -> Report:
    """Show what changed in all servers, or in SERVER, since they were approved, as of the last sync.

    Starts no server. Changes marked with ! need an approval: pflow mcp approve.
    """
    return differences(host, server)


@attrs.frozen(kw_only=True)
class ServerDifference:
    """How one server differs from what was approved; the note says why nothing could be compared."""

    server: str
    note: str = ""
    comparison: Comparison = NOTHING

    def to_dict(self) -> dict[str, JSON]:
        """Return the differences in JSON form."""
        note: dict[str, JSON] = {"note": self.note} if self.note else {}
        return {"server": self.server, **note, **self.comparison.to_dict()}

    def lines(self) -> Iterator[str]:
        """Yield the differences in lines for people."""
        lines = [*self.comparison.lines()]
        yield f"{self.server}: {self.note or ('differs' if lines else 'as approved')}"
        yield from (f"  {line}" for line in lines)
        if self.comparison:
            yield f"  To approve it, run: pflow mcp approve {self.server}"


def differences(host: Host, server: str | None = None) -> Report:
    """Return the report of `pflow mcp diff`; raises `McpError` if the named server is not configured."""
    store = server_store(host)
    found = []
    for name in [server] if server else store.names():
        try:
            found.append(_difference(host, name))
        except PflowError as error:
            if server:
                raise
            # What is wrong with one server does not hide the differences of others.
            found.append(ServerDifference(server=name, note="; ".join([str(error), *error.suggestions])))
    text = "\n".join(line for each in found for line in each.lines())
    return Report(data=[each.to_dict() for each in found], text=text or "No MCP server is configured")


def _difference(host: Host, name: str) -> ServerDifference:
    server_store(host).get(name)
    pinned, synced = pins(host).read(name), catalog(host).file(name)
    if synced is None:
        return ServerDifference(server=name, note=f"never synced (run: pflow mcp sync {name})")
    if pinned is None:
        return ServerDifference(server=name, note=f"nothing is approved yet (run: pflow mcp sync {name})")
    # The launch of the current config counts, even if it was not synced since.
    found = attrs.evolve(synced, launch=current_launch(host, name))
    return ServerDifference(server=name, comparison=approvals.compare(pinned, found))


@click.command()
@click.argument("server", required=False, shell_complete=command_arguments.servers)
@click.argument("tools", nargs=-1, metavar="[TOOL]...")
@click.option("--project", is_flag=True, help="Show the servers of ./.mcp.json in full, and approve them.")
@click.option("--yes", "-y", is_flag=True, help="With --project, do not ask.")
@click.pass_obj
def approve(host: Host, server: str | None, tools: tuple[str, ...], *, project: bool, yes: bool) -> Report:
    """Approve SERVER as of its last sync: its launch, its instructions and its tools, or only the TOOLs.

    Starts no server. To see first what changed: pflow mcp diff SERVER.
    """
    if (server is None) is not project:
        message = "Give a SERVER or --project, not both" if project else "Give a SERVER, or --project"
        raise click.UsageError(message)
    if yes and not project:
        message = "--yes needs --project; a TOOL of that name comes after --"
        raise click.UsageError(message)
    return approve_project(host, yes=yes) if server is None else approve_server(host, server, tools)


def approve_server(
    host: Host, server: str, tools: Sequence[str] = (), *, shown: Comparison | None = None
) -> Report:
    """Approve what the last sync of a server found: the named tools, or everything.

    `shown` is what the user was asked about; if there is something else by now, nothing is approved.
    """
    server_store(host).get(server)
    launch = current_launch(host, server)
    found = catalog(host).file(server)
    if found is None or not same(found.launch or {}, launch):
        if shown:
            raise _changed_meanwhile(server)
        return _approve_launch(host, server, tools)
    before = pins(host).read(server)
    comparison = approvals.compare(before, found) if before else NOTHING
    if shown and shown != comparison:
        raise _changed_meanwhile(server)
    if tools:
        tools = _raw_names(host, server, found, tools)
        if comparison.unapproved:
            message = f"Server {server} must be approved as a whole: {comparison.unapproved}"
            raise PflowError(message, suggestions=(f"Run: pflow mcp approve {server}",), kind="validation")
    _approve(host, server, found, tools)
    host.refresh("mcp")
    return _approved(server, tools, comparison)


def _approve(host: Host, server: str, found: ToolFile, tools: Sequence[str]) -> None:
    """Pin what was found, and note that in the tool file, under its lock."""

    def change(now: ToolFile) -> ToolFile:
        if now != found:
            raise _changed_meanwhile(server)
        after = pins(host).update(server, pinned)
        return approvals.reviewed(now, after, approvals.compare(after, now))

    def pinned(before: Pinned | None) -> Pinned:
        if before is None or not tools:
            return approvals.approved(found)
        return approvals.approved_tools(before, found, tools)

    catalog(host).mark(server, change)


def _changed_meanwhile(server: str) -> PflowError:
    message = f"Nothing of server {server} was approved, because its config or tools changed in the meantime"
    return PflowError(message, suggestions=(f"See: pflow mcp diff {server}",), kind="validation")


def _approve_launch(host: Host, server: str, tools: Sequence[str]) -> Report:
    """Approve the launch of a server; the next sync is its first, and approves its tools."""
    launch = current_launch(host, server)
    if tools:
        message = f"Server {server} has not been synced with its current config, so its tools are unknown"
        raise PflowError(message, suggestions=(f"Run: pflow mcp sync {server}",), kind="validation")
    pins(host).keep_for(server, launch)
    step = f"pflow mcp sync {server}"
    data: dict[str, JSON] = {"server": server, "launch": launch, "approved": [], "next": step}
    text = f"Approved for server {server}: {shown_launch(launch)}\nNext: {step}"
    return Report(data=data, text=text)


def _raw_names(host: Host, server: str, found: ToolFile, names: Sequence[str]) -> list[str]:
    """Return the raw names of tools that are named so, as they are shown, or as in their node types."""
    records = catalog(host).records(server)
    known = {it.node[len(f"{naming.PREFIX}{server}-") :]: it.found.name for it in records}
    known |= {one_line(tool.name): tool.name for tool in found.tools}
    known |= {tool.name: tool.name for tool in found.tools}
    for name in names:
        if name not in known:
            near = one_line(nearest(name, known))
            step = f"Did you mean {near}?" if near else f"See its tools: pflow mcp tools {server}"
            message = f"Tool {one_line(name)} not found on server {server}"
            raise PflowError(message, suggestions=(step,), kind="not_found")
    return [known[name] for name in names]


def _approved(server: str, tools: Sequence[str], comparison: Comparison) -> Report:
    happened = {**{tool.name: "changed" for tool in comparison.tools}, **dict.fromkeys(comparison.new, "new")}
    approved = {name: what for name, what in happened.items() if not tools or name in tools}
    whole = bool(comparison.unapproved)
    texts = bool(comparison.instructions) and not tools
    data: dict[str, JSON] = {"server": server, "approved": [*approved], "is_server": whole}
    if not (approved or whole or texts):
        return Report(data=data, text=f"Nothing to approve: server {server} is as approved")
    lines = [f"Approved server {server}: {comparison.unapproved}"] if whole else []
    lines += [f"Approved the instructions of server {server}"] if texts else []
    lines += [f"Approved {one_line(name)} ({what})" for name, what in approved.items()]
    return Report(data=data, text="\n".join(lines))


@attrs.frozen(kw_only=True)
class ProjectApproval:
    """The servers of a project that can be approved, and what is wrong with it.

    Attributes:
        file: The project's file, by its real path.
        content: Its content.
        tables: The tables of the servers without errors, by name.
        problems: Errors and warnings; a server with an error is not approved.
        changed: Whether another content of the file was approved before.
    """

    file: str
    content: ProjectContent
    tables: Mapping[str, JSONObject]
    problems: tuple[Problem, ...]
    changed: bool

    def lines(self) -> list[str]:
        """Return the lines that show people every server that can be approved, in full."""
        again = " changed since it was approved, and" if self.changed else ""
        shown = [f"{one_line(self.file)}{again} has {count_text(len(self.tables), 'server')}:"]
        for name, table in self.tables.items():
            shown += [f"  {line}" for line in server_lines(name, table)]
        return [*shown, *(one_line(f"  {problem.severity}: {problem}") for problem in self.problems)]

    def to_dict(self) -> dict[str, Any]:
        """Return in JSON form what the user is asked about."""
        return {
            "file": self.file,
            "sha256": self.content.digest,
            "changed": self.changed,
            "servers": {
                name: {"shown": [*server_lines(name, table)], "receives": variables(dict(table))}
                for name, table in self.tables.items()
            },
            "problems": [problem.to_dict() for problem in self.problems],
        }


def approve_project(host: Host, *, yes: bool) -> Report:
    """Show every server of the project in the current folder, and approve them if the user agrees.

    With `yes`, nobody is asked; otherwise there must be a terminal to ask on.
    """
    store = servers(host.paths).store
    project = store.project or ProjectFile(host.paths)
    approval = _project_approval(project, store.raw().get(server_schema.DEFAULTS, {}))
    if not approval.tables:
        raise refusal(f"{approval.file} has no server that can be approved", approval.problems)
    if not yes:
        tell("\n".join(approval.lines()))
        if not is_interactive():
            raise PflowError(
                "Nothing was approved: there is no terminal to ask on",
                details=approval.to_dict(),
                suggestions=(f"If every line above is as you expect: {APPROVE} --yes",),
                kind="usage",
            )
        count = count_text(len(approval.tables), "server")
        if not click.confirm(f"Approve {count}?", default=False, err=True):
            return Report(data={**approval.to_dict(), "approved": False}, text="Nothing was approved")
    project.approve(approval.content, approval.tables.keys())
    approve_launches(host, store.project_folders())
    host.refresh("mcp")
    lines = approval.lines() if yes else []
    lines += [f"Approved {', '.join(approval.tables)}, until the file changes", "Next: pflow mcp sync"]
    return Report(data={**approval.to_dict(), "approved": True}, text="\n".join(lines))


def _project_approval(project: ProjectFile, defaults: Any) -> ProjectApproval:
    content, reading = project.content(), project.reading()
    problems, tables = [*content.problems], {}
    for name, table in content.tables.items():
        found = server_schema.check_server(name, table, defaults)
        problems += found
        if isinstance(table, Mapping) and not any(problem.severity == "error" for problem in found):
            tables[name] = table
    return ProjectApproval(
        file=str(reading.path),
        content=content,
        tables=tables,
        problems=tuple(problems),
        changed=reading.state == "changed",
    )
