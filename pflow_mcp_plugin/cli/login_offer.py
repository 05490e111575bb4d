"""Offers a login on a terminal, where a server needs one."""

from __future__ import annotations

import click

from pflow_mcp_plugin.cli.terminal import is_interactive, tell
from pflow_mcp_plugin.contract import Host, PflowError


def logged_in(host: Host, error: PflowError | None) -> bool:
    """Ask, on a terminal, whether to log in at a server that needs it; return whether that was done.

    Args:
        host: The host.
        error: The failure of the server, None if it did not fail.
    """
    name = error.details.get("server") if error and error.details.get("login") else None
    if error is None or not isinstance(name, str) or not is_interactive():
        return False
    tell(f"{error.message}.")
    if not click.confirm(f"Server {name} needs a login. Log in now?", default=True, err=True):
        return False
    from pflow_mcp_plugin.cli.login import log_in

    scope = error.details.get("scope")
    try:
        report = log_in(host, name, scopes=scope.split() if isinstance(scope, str) else ())
    except PflowError as failure:
        tell(f"{failure.message}.")
        return False
    tell(report.render())
    return True
