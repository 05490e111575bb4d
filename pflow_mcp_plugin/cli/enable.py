"""`pflow mcp enable | disable`: switches servers on and off, and keeps their config and tools."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pflow_mcp_plugin.cli.dependencies import server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.contract import Host, Report

_CHANGED = {False: "Enabled", True: "Disabled"}
_AS_BEFORE = {False: "already enabled", True: "already disabled"}


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=servers)
@click.pass_obj
def enable(host: Host, names: tuple[str, ...]) -> Report:
    """Enable servers that were disabled."""
    return switch(host, names, disabled=False)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=servers)
@click.pass_obj
def disable(host: Host, names: tuple[str, ...]) -> Report:
    """Disable servers: their tools are not available until they are enabled again. Nothing is removed."""
    return switch(host, names, disabled=True)


def switch(host: Host, names: Sequence[str], *, disabled: bool) -> Report:
    """Enable or disable servers, and return the report: all of them or none.

    Args:
        host: The host.
        names: The servers.
        disabled: Whether they are to be disabled.

    Raises:
        McpError: One of them is not configured, or is that of a project.
    """
    store = server_store(host)
    changed = store.switch(names, disabled=disabled)
    if changed.replaced:
        host.refresh("mcp")
    for warning in changed.warnings:
        host.report(warning)
    lines = [
        f"{_CHANGED[disabled]} server {name}"
        if name in changed.replaced
        else f"Server {name} is {_AS_BEFORE[disabled]}"
        for name in dict.fromkeys(names)
    ]
    data = {"disabled": disabled, "servers": list(dict.fromkeys(names)), "changed": list(changed.replaced)}
    return Report(data=data, text="\n".join(lines))
