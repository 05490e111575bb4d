"""The command `pflow mcp sync`; its work is in `server_sync`, which completing a line does not need."""

from __future__ import annotations

from pathlib import Path

import click

from pflow_mcp_plugin.cli.command_arguments import servers, startup_timeout
from pflow_mcp_plugin.contract import Host, Report


@click.command()
@click.argument("name", required=False, shell_complete=servers)
@click.option("--all", "all_servers", is_flag=True, help="Sync every server (the default without NAME).")
@click.option(
    "--locked",
    is_flag=True,
    help="Refuse servers that differ from mcp-lock.toml; without NAME, sync those in it.",
)
@startup_timeout
@click.pass_obj
def sync(
    host: Host, name: str | None, *, all_servers: bool, locked: bool, startup_timeout: float | None
) -> Report:
    """Sync servers: fetch their tools and register them as nodes.

    Shows what changed since the last sync. A server that fails keeps the tools it had. The first sync of
    a server shows what it starts, and approves the tools it finds. For a later change that could do harm,
    it asks on a terminal; elsewhere the tools are withheld until pflow mcp approve.
    """
    if name and all_servers:
        raise click.UsageError("Give a NAME or --all, not both")
    from pflow_mcp_plugin.cli.server_sync import sync_servers
    from pflow_mcp_plugin.discovery.lock_check import read_lock
    from pflow_mcp_plugin.discovery.lock_file import NAME

    lock = read_lock(Path(NAME)) if locked else None
    return sync_servers(host, [name] if name else None, lock=lock, startup_timeout=startup_timeout)
