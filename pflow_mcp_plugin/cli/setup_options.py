"""The options of `pflow mcp serve` that set up a client instead of serving."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from pflow_mcp_plugin.cli.known_names import clients
from pflow_mcp_plugin.contract import Host, Report


def sets_up_clients(command: Callable[..., Report]) -> Callable[..., Report]:
    """Add the options that set up a client; without them, the command runs as before.

    The other options of the command line become those of the server that the client starts.
    """

    @click.option(
        "--print-config",
        metavar="CLIENT",
        shell_complete=clients,
        help="Print what to put into the config of this client.",
    )
    @click.option(
        "--install",
        metavar="CLIENT",
        shell_complete=clients,
        help="Write it there; the old file is kept as .bak.",
    )
    @click.option(
        "--name",
        default="pflow",
        metavar="NAME",
        show_default=True,
        help="The name of the server in that config.",
    )
    @click.option("--force", is_flag=True, help="Replace a server of that name even if it is not pflow.")
    @functools.wraps(command)
    def chosen(
        *, print_config: str | None, install: str | None, name: str, force: bool, **given: Any
    ) -> Report:
        if print_config and install:
            raise click.UsageError("--print-config and --install exclude each other")
        if not (print_config or install):
            return command(**given)
        from pflow_mcp_plugin.cli.client_setup import ClientSetup
        from pflow_mcp_plugin.config.interchange.clients import client

        context = click.get_current_context()
        setup = ClientSetup.of(client(print_config or install or ""), name, context)
        host: Host = context.obj
        return setup.install(host, force=force) if install else setup.show(host, quiet=given.get("as_json"))

    return chosen
