"""`pflow mcp approve`: approves what changed in a server or in its tools, or the servers of a project."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.catalog.tool_file import ToolFile
from pflow_mcp_plugin.cli.dependencies import catalog, current_launch, pins, server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.cli.project_approval import approve_project
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.terminal.printable_text import one_line
from pflow_mcp_plugin.trust import pins as approvals
from pflow_mcp_plugin.trust.launch_identity import same
from pflow_mcp_plugin.trust.launch_identity import shown as shown_launch
from pflow_mcp_plugin.trust.pins import NOTHING, Comparison, Pinned


@click.command()
@click.argument("server", required=False, shell_complete=servers)
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
    """Approve what the last sync of a server found, as `pflow mcp approve` does, and return its report.

    Args:
        host: The host.
        server: The server.
        tools: Raw names of the tools to approve; everything if there are none.
        shown: What the user was asked about; nothing else is approved.

    Raises:
        McpError: The server is not configured.
        PflowError: A tool does not exist, or the server must be approved as a whole.
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
        tools = _named_tools(catalog(host), server, found, tools)
        _require_tool_approval(server, comparison)
    _approve(host, server, found, tools)
    host.refresh("mcp")
    return _report(server, tools, comparison)


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


def _named_tools(synced: Catalog, server: str, found: ToolFile, names: Sequence[str]) -> list[str]:
    """Return the raw names of tools that are named so, as they are shown, or as in their node types."""
    parts = {it.found.name: it.node[len(f"{naming.PREFIX}{server}-") :] for it in synced.records(server)}
    known = {parts.get(tool.name, ""): tool.name for tool in found.tools}
    known |= {one_line(tool.name): tool.name for tool in found.tools}
    known |= {tool.name: tool.name for tool in found.tools}
    for name in names:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            step = (
                f"Did you mean {one_line(near[0])}?" if near else f"See its tools: pflow mcp tools {server}"
            )
            message = f"Tool {one_line(name)} not found on server {server}"
            raise PflowError(message, suggestions=(step,), kind="not_found")
    return [known[name] for name in names]


def _require_tool_approval(server: str, comparison: Comparison) -> None:
    if comparison.unapproved:
        message = f"Server {server} must be approved as a whole: {comparison.unapproved}"
        raise PflowError(message, suggestions=(f"Run: pflow mcp approve {server}",), kind="validation")


def _report(server: str, tools: Sequence[str], comparison: Comparison) -> Report:
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
