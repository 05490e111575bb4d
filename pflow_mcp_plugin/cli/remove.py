"""`pflow mcp remove`: removes a server and its tools."""

from __future__ import annotations

import click

from pflow_mcp_plugin.cli.dependencies import catalog, pins, server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.contract import Host, Report
from pflow_mcp_plugin.errors import McpError


@click.command()
@click.argument("name", shell_complete=servers)
@click.pass_obj
def remove(host: Host, name: str) -> Report:
    """Remove a server: its config, its synced tools and what was approved of them."""
    return remove_server(host, name)


def remove_server(host: Host, name: str) -> Report:
    """Remove a server's config, its tool file and its pins, and return the report of `pflow mcp remove`.

    This also removes a tool file whose server was deleted from the config by hand.

    Raises:
        McpError: Neither exists, or the server is that of a project.
    """
    known, store = catalog(host), server_store(host)
    try:
        warnings = store.remove(name).warnings
    except McpError:
        if name not in known.servers() or name in store.project_folders():
            raise
        warnings = ()
    synced = name in known.servers()
    known.forget(name)
    pins(host).forget(name)
    host.refresh("mcp")
    for warning in warnings:
        host.report(warning)
    data = {"removed": name, "forgot_tools": synced, "warnings": [warning.to_dict() for warning in warnings]}
    return Report(data=data, text=f"Removed server {name}" + (" and its tools" if synced else ""))
