"""`pflow mcp diff | approve`: what changed in servers since they were approved, and its approval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.catalog.tool_file import ToolFile
from pflow_mcp_plugin.cli import command_arguments
from pflow_mcp_plugin.cli.interaction import is_interactive, tell
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.field_checks import nearest, refusal
from pflow_mcp_plugin.config.project_file import APPROVE, ProjectFile, server_lines, variables
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.discovery.servers import (
    approve_launches,
    catalog,
    current_launch,
    pins,
    server_store,
    servers,
)
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import one_line
from pflow_mcp_plugin.trust import pins as approvals
from pflow_mcp_plugin.trust import tool_difference
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
    store = server_store(host)
    data: list[dict[str, JSON]] = []
    lines: list[str] = []
    failed: PflowError | None = None
    for name in [server] if server else store.names():
        comparison, note = NOTHING, ""
        try:
            store.get(name)
            pinned, synced = pins(host).read(name), catalog(host).file(name)
            if synced is None:
                note = f"never synced (run: pflow mcp sync {name})"
            elif pinned is None:
                note = f"nothing is approved yet (run: pflow mcp sync {name})"
            else:
                # The launch of the current config counts, even if it was not synced since.
                launch = current_launch(host, name)
                if same(pinned.launch, launch) and not same(synced.launch or {}, launch):
                    note = f"its launch is approved, but not synced yet (run: pflow mcp sync {name})"
                else:
                    comparison = approvals.compare(pinned, attrs.evolve(synced, launch=launch))
        except PflowError as error:
            if server:
                raise
            # What is wrong with one server does not hide the differences of others.
            failed = failed or error
            note = "; ".join([str(error), *error.suggestions])
        data.append({"server": name, **({"note": note} if note else {}), **comparison.to_dict()})
        found = [*comparison.lines()]
        lines.append(f"{name}: {note or ('differs' if found else 'as approved')}")
        lines += [f"  {line}" for line in found]
        if comparison:
            lines.append(f"  To approve it, run: pflow mcp approve {name}")
    return Report(data=data, text="\n".join(lines) or "No MCP server is configured", error=failed)


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
        raise click.UsageError("--yes needs --project; a TOOL of that name comes after --")
    return approve_project(host, yes=yes) if server is None else approve_server(host, server, tools)


def approve_server(
    host: Host, server: str, tools: Sequence[str] = (), *, shown: Comparison | None = None
) -> Report:
    """For `pflow mcp approve` and a sync: approve what changed in a server, or the named tools; report it.

    `shown` is what the user was asked about; if there is something else by now, nothing is approved.
    """
    server_store(host).get(server)
    launch = current_launch(host, server)
    found = catalog(host).file(server)
    if found is None or not same(found.launch or {}, launch):
        if shown:
            raise _changed_meanwhile(server)
        if tools:
            message = f"Server {server} has not been synced with its current config, so its tools are unknown"
            raise PflowError(message, suggestions=(f"Run: pflow mcp sync {server}",), kind="validation")
        pins(host).approve_launch(server, launch)
        step = f"pflow mcp sync {server}"
        text = f"Approved for server {server}: {shown_launch(launch)}\nNext: {step}"
        return Report(data={"server": server, "launch": launch, "approved": [], "next": step}, text=text)
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
    """For `pflow mcp approve`: pin what the user approves, and note that in the tool file, under its lock."""

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


def _raw_names(host: Host, server: str, found: ToolFile, names: Sequence[str]) -> list[str]:
    """Return the raw names of the tools to approve, given as shown or as in their node types."""
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
    happened = [*((tool, "changed") for tool in comparison.tools), *((it, "new") for it in comparison.new)]
    approved = [(tool, what) for tool, what in happened if not tools or tool.name in tools]
    whole = bool(comparison.unapproved)
    texts = () if tools else comparison.instructions
    data: dict[str, JSON] = {
        "server": server,
        "approved": [tool.name for tool, _ in approved],
        "is_server": whole,
        "instructions": [each.to_dict() for each in texts],
        "tools": [tool.to_dict() for tool, _ in approved],
    }
    if not (approved or whole or texts):
        return Report(data=data, text=f"Nothing to approve: server {server} is as approved")
    lines = [f"Approved server {server}: {comparison.unapproved}"] if whole else []
    if texts:
        lines.append(f"Approved the instructions of server {server}")
        lines += [*tool_difference.lines("instructions", texts)][1:]
    for tool, what in approved:
        lines.append(f"Approved {one_line(tool.name)} ({what})")
        lines += [*tool_difference.lines(tool.name, tool.differences)][1:]
    return Report(data=data, text="\n".join(lines))


def approve_project(host: Host, *, yes: bool) -> Report:
    """Show every server of the project in the current folder, and approve them if the user agrees.

    A server with an error is not approved. With `yes`, nobody is asked; otherwise there must be a terminal.
    """
    store = servers(host.paths).store
    project = store.project or ProjectFile(host.paths)
    content, reading = project.content(), project.reading()
    defaults = store.raw().get(server_schema.DEFAULTS, {})
    problems = [*content.problems]
    tables: dict[str, JSONObject] = {}
    for name, table in content.tables.items():
        found = server_schema.check_server(name, table, defaults)
        problems += found
        if isinstance(table, Mapping) and not errors_in(found):
            tables[name] = table
    if not tables:
        raise refusal(f"{reading.path} has no server that can be approved", problems)
    changed = reading.state == "changed"
    servers_shown = {name: [*server_lines(name, table)] for name, table in tables.items()}
    count = count_text(len(tables), "server")
    again = " changed since it was approved, and" if changed else ""
    lines = [
        f"{one_line(str(reading.path))}{again} has {count}:",
        *(f"  {line}" for shown in servers_shown.values() for line in shown),
        *(one_line(f"  {problem.severity}: {problem}") for problem in problems),
    ]
    data = {
        "file": str(reading.path),
        "sha256": content.digest,
        "changed": changed,
        "servers": {
            name: {"shown": shown, "receives": variables(dict(tables[name]))}
            for name, shown in servers_shown.items()
        },
        "problems": [problem.to_dict() for problem in problems],
    }
    if not yes:
        tell("\n".join(lines))
        if not is_interactive():
            raise PflowError(
                "Nothing was approved: there is no terminal to ask on",
                details=data,
                suggestions=(f"If every line above is as you expect: {APPROVE} --yes",),
                kind="usage",
            )
        if not click.confirm(f"Approve {count}?", default=False, err=True):
            return Report(data={**data, "approved": False}, text="Nothing was approved")
    project.approve(content, tables.keys())
    approve_launches(host, store.project_folders())
    host.refresh("mcp")
    ended = [f"Approved {', '.join(tables)}, until the file changes", "Next: pflow mcp sync"]
    return Report(data={**data, "approved": True}, text="\n".join([*lines, *ended] if yes else ended))
