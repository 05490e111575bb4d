"""The approval of tools: which may be used as they were last synced, and which need it first.

A look-up decides this from the server's config and tool file alone, which it has read in any case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pflow_mcp_plugin.catalog.tool_catalog import approval_command
from pflow_mcp_plugin.catalog.tool_file import Head
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.trust import launch_identity
from pflow_mcp_plugin.trust.tool_claims import idempotency_argument
from pflow_mcp_plugin.types import Server, Tool, ToolRecord


def withheld(
    record: ToolRecord, server: Server, variables: Mapping[str, str] | None = None
) -> Problem | None:
    """Return why a tool, as last synced, needs approval first, or may not be used at all; None if it may be.

    `server` is its current config, unexpanded; `variables` decide what is started, None if not known.
    """
    if record.found.task_support == "required":
        return task_only(record.tool, server.name)
    key = server.idempotency_argument.get(record.found.name, "")
    if key and not idempotency_argument(record, server):
        # Without the argument, a call would be repeated in the belief that the server recognizes it.
        return _problem(
            f"{record.found.name} of server {server.name} takes no argument {key}, which its config names",
            f"Correct or remove {record.found.name} in idempotency_argument of server {server.name}",
        )
    if server.trust == "auto":
        return None
    found = launch_changed(record, server, variables)
    if found or not record.withheld:
        return found
    if record.is_server_withheld:
        message = f"Server {server.name} is not approved as it is now: {record.withheld}"
        approval = f"pflow mcp approve {server.name}"
    else:
        from pflow_mcp_plugin.terminal.looks import one_line

        message = f"Tool {one_line(record.tool.name)} of server {server.name} {record.withheld}"
        approval = approval_command(server.name, record.tool.name)
    return _problem(
        message, f"See the difference: pflow mcp diff {server.name}; to approve it, run: {approval}"
    )


def task_only(tool: Tool, server: str) -> Problem:
    """Return why a tool may not be used, even if approved: it runs as a task only (2025-11-25, "Tasks")."""
    from pflow_mcp_plugin.terminal.looks import one_line

    message = (
        f"Tool {one_line(tool.name)} of server {server} runs as a task only, which pflow does not support"
    )
    return _problem(message, f"Use another tool: pflow mcp tools {server}")


def launch_changed(
    synced: ToolRecord | Head, server: Server, variables: Mapping[str, str] | None = None
) -> Problem | None:
    """Return why tools need a new approval: their server is not started as it was when synced; else None."""
    if server.trust == "auto" or synced.launch is None:
        return None
    if launch_identity.is_launch_of(synced.launch, server, variables):
        return None
    now = launch_identity.launch_identity(server, variables)
    old, new = launch_identity.difference(synced.launch, now)
    message = f"Server {server.name} is now started by {new}; its last sync started {old}"
    sync = f"pflow mcp sync {server.name}"
    if not launch_identity.is_launch_of(synced.launch, server):
        return _problem(message, f"Run: {sync}")
    names = ", ".join(launch_identity.changed_variables(synced.launch, now))
    again = f"{sync}, and, if it says so: pflow mcp approve {server.name}"
    step = f"Set {names} back, or, if that is right, run: {again}"
    return _problem(f"{message}. The cause is another value of {names}", step)


def fingerprint(record: ToolRecord, server: Server) -> str:
    """Return the fingerprint of what an approval vouches for: the tool, its launch and config."""
    same = record.launch is not None and launch_identity.is_launch_of(record.launch, server)
    launch = "" if same else json.dumps(launch_identity.launch_identity(server), sort_keys=True)
    return " ".join(filter(None, (record.found.hash, record.config_fingerprint, launch)))


def _problem(message: str, step: str) -> Problem:
    return Problem(message=message, suggestion=step, kind="validation", source="mcp")
