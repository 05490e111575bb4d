"""`pflow mcp lock`: records the servers and tools that workflows use, or compares them with the record."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.catalog.tool_catalog import approval_command
from pflow_mcp_plugin.cli.command_arguments import workflows_and_files
from pflow_mcp_plugin.config.field_checks import refuse_errors
from pflow_mcp_plugin.contract import Entry, Host, NodeRef, PflowError, Problem, Report
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.discovery import lock_check, lock_file
from pflow_mcp_plugin.discovery.servers import Servers, servers
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.injection import used_tools
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.server.served_tool import runner_of
from pflow_mcp_plugin.server.workflow_argument import found_workflow
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import one_line

_UNAPPROVED = "Some tools are not approved and cannot be locked"

Used = Mapping[str, Collection[str]]
"""The raw names of tools by server."""


@click.command()
@click.argument("file", default=Path(lock_file.NAME), type=click.Path(path_type=Path))
@click.option(
    "--workflow",
    "workflows",
    multiple=True,
    metavar="NAME_OR_FILE",
    shell_complete=workflows_and_files,
    help="Lock only what this workflow uses; may be given several times.",
)
@click.option(
    "--check", is_flag=True, help="Write nothing; exit with code 2 if the servers differ from the file."
)
@click.pass_obj
def lock(host: Host, file: Path, *, workflows: tuple[str, ...], check: bool) -> Report:
    """Write FILE, by default mcp-lock.toml: the launch, version and tools of servers, for a team.

    Commit it beside your workflows. `pflow run --locked`, `pflow validate --locked` and `pflow mcp sync
    --locked` refuse what differs from it. It contains no values of secrets or variables.
    """
    known = servers(host.paths)
    if check:
        return _checked(host, known, file, workflows)
    if workflows:
        used = _used_by(host, workflows)
        _refuse_outdated(known, used)
    else:
        used = _all_tools(host, known)
    _refuse_unapproved(known, used)
    locked = {name: lock_check.present_server(known, name, tools) for name, tools in used.items()}
    try:
        content = lock_file.encode(locked)
    except ValueError as error:
        raise storage.StoreError(file, f"could not be written as TOML: {error}") from error
    changed = content != _existing(file)
    home = os.path.expanduser("~")  # noqa: PTH111 - `Path.home` may raise
    for name, server in sorted(locked.items()):
        if len(home) > 1 and home in json.dumps(server.launch, ensure_ascii=False):
            message = f"The launch of server {name} names {home}, a folder that other machines do not have"
            step = "Write ${HOME} there, or a name that is found on PATH, and sync it again"
            host.report(advice("", message, step))
    if changed:
        storage.write_output(file, content)
    data = _data(file, locked) | {"changed": changed}
    return Report(data=data, text=f"{'Wrote' if changed else 'Unchanged:'} {file}: {_counted(locked)}")


def _checked(host: Host, known: Servers, file: Path, workflows: Sequence[str]) -> Report:
    lock = lock_check.read_lock(file)
    for warning in lock.warnings:
        host.report(warning)
    if workflows:
        found = [*lock_check.compare_used(lock, known, _used_by(host, workflows))]
    else:
        found = [*lock_check.compare_whole(lock, known)]
    refuse_errors(f"{file} does not match the servers", found, kind="validation")
    return Report(data=_data(file, lock.servers), text=f"{file} matches: {_counted(lock.servers)}")


def _used_by(host: Host, workflows: Iterable[str]) -> Used:
    """Return the tools to lock that workflows use; refuse one with mistakes, such as a server not synced."""
    types: dict[str, None] = {}
    for word in workflows:
        workflow, _ = found_workflow(host, word)
        refuse_errors(f"Workflow {word}", runner_of(host).validate(workflow), kind="validation")
        nodes: Any = runner_of(host).normalise(workflow).get("nodes", ())  # valid, as was just checked
        types |= dict.fromkeys(node["type"] for node in nodes if "type" in node)
    return _used(host, host.registry.describe(types))


def _all_tools(host: Host, known: Servers) -> Used:
    source = ToolSource(known.catalog, known.store)
    entries = list(source.entries())
    used = _used(host, entries)
    for name in known.store.names():
        try:
            problem = None if known.store.get(name).disabled else source.unsynced(name)
        except McpError as error:
            problem = Problem(message=error.message, suggestion="".join(error.suggestions[:1]))
        if problem:
            message = f"{problem.message}, so it is not in the lock file"
            host.report(advice("", message, problem.suggestion))
    if not used:
        steps = ("Run: pflow mcp sync",)
        raise PflowError("There is nothing to lock: no server is synced", suggestions=steps, kind="not_found")
    _refuse_outdated(known, used)  # first: a sync is due before anything is approved
    records = [known.catalog.tool(server, tool) for server, tools in used.items() for tool in tools]
    unusable = {it.node for it in records if it and it.found.task_support == "required"}
    # All tools of a server may be withheld for one reason.
    withheld = [*dict.fromkeys(it.withheld for it in entries if it.withheld and it.node not in unusable)]
    refuse_errors(_UNAPPROVED, withheld, kind="validation")
    return used


def _used(host: Host, entries: Iterable[Entry]) -> Used:
    return used_tools(NodeRef(id=entry.node, type=entry.node, entry=entry, host=host) for entry in entries)


def _refuse_outdated(known: Servers, used: Iterable[str]) -> None:
    """Refuse to record the tools that workflows use if the config of their server changed since its sync."""
    due = [
        Problem(
            message=f"The config of server {name} changed since its sync",
            suggestion=f"Run: pflow mcp sync {name}",
        )
        for name in sorted(used)
        if known.catalog.fingerprint_of(name) not in ("", known.store.fingerprint(name))
    ]
    refuse_errors("Some servers must be synced first", due, kind="validation")


def _refuse_unapproved(known: Servers, used: Used) -> None:
    """Refuse to lock tools that nobody approved as they are: a lock file approves them for a whole team."""
    unapproved = [
        Problem(
            message=f"Tool {one_line(record.tool.name)} of server {server} is not approved as it is now",
            suggestion=f"See: pflow mcp diff {server}; run: {approval_command(server, record.tool.name)}",
        )
        for server, tools in sorted(used.items())
        for record in (known.catalog.tool(server, tool) for tool in sorted(tools))
        if record and (record.has_changed or not record.is_approved)
        if known.store.get(server).trust != "auto"
    ]
    refuse_errors(_UNAPPROVED, unapproved, kind="validation")


def _existing(file: Path) -> bytes | None:
    """Return what `pflow mcp lock` wrote to a file before, None if it is new or a device; refuse others."""
    if file.exists() and not file.is_file() and not file.is_dir():
        return None
    content = storage.read_bytes(file)
    if content is not None and not lock_file.is_lock_file(file, content):
        step = "Choose another name: pflow mcp lock FILE"
        raise storage.StoreError(file, "is not a lock file, so it is not overwritten", suggestion=step)
    return content


def _data(file: Path, locked: lock_file.LockedServers) -> dict[str, object]:
    names = {name: sorted(server.tools) for name, server in sorted(locked.items())}
    return {"path": str(file), "servers": names}


def _counted(locked: lock_file.LockedServers) -> str:
    tools = sum(len(server.tools) for server in locked.values())
    return f"{count_text(len(locked), 'server')}, {count_text(tools, 'tool')}"
