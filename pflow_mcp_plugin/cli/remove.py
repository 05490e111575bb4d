"""`pflow mcp remove`: removes a server with its tools and its sign-in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin.cli.dependencies import catalog, forget_stderr, server_store
from pflow_mcp_plugin.cli.known_names import servers as completed_servers
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.errors import McpError

if TYPE_CHECKING:
    from pflow_mcp_plugin.cli.logout import EndedSignIn
    from pflow_mcp_plugin.cli.server_access import StoredSignIns


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=completed_servers)
@click.pass_obj
def remove(host: Host, names: tuple[str, ...]) -> Report:
    """Remove servers: their config, their synced tools, what was approved of them, and their sign-ins."""
    return remove_servers(host, names)


def remove_servers(host: Host, names: Sequence[str]) -> Report:
    """Remove servers, and return the report of `pflow mcp remove`; of several, `servers` has that of each.

    Raises:
        McpError: One of them does not exist, or is that of a project; then none is removed.
    """
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        _require_own(host, name)
    reports = [remove_server(host, name) for name in wanted]
    if len(reports) == 1:
        return reports[0]
    return Report(
        data={"servers": [report.data for report in reports]},
        text="\n".join(report.render() for report in reports),
        error=next((report.error for report in reports if report.error), None),
    )


def remove_server(host: Host, name: str) -> Report:
    """Remove a server as `pflow mcp remove` does: its config, its tool file, its pins and its sign-in.

    This also removes a tool file whose server was deleted from the config by hand. A sign-in that another
    server uses stays.

    Raises:
        McpError: Neither exists, or the server is that of a project.
    """
    _require_own(host, name)
    store = server_store(host)
    sign_ins = _sign_ins(host)  # whose they are is known as long as the server is configured
    warnings: list[Problem] = []

    def unconfigure() -> bool:
        with suppress(McpError):  # only its tool file is left
            warnings.extend(store.remove(name).warnings)
        return True

    synced = servers(host.paths).forget(name, unconfigure)
    forget_stderr(host, name)
    host.refresh("mcp")
    for warning in warnings:
        host.report(warning)
    sign_ins = _sign_ins(host, sign_ins)  # a login may have ended meanwhile
    ended, kept_for, failures = _signed_out(host, sign_ins, name) if sign_ins else ((), (), ())
    data: dict[str, Any] = {"removed": name, "forgot_tools": synced}
    if ended:
        data["sign_ins"] = [each.to_dict() for each in ended]
    data["warnings"] = [warning.to_dict() for warning in warnings]
    text = f"Removed server {name}" + (" and its tools" if synced else "")
    lines = [text, *(line for each in ended for line in each.lines())]
    if kept_for:
        lines.append(f"Its sign-in stays, as server {', '.join(kept_for)} uses it")
    return Report(data=data, text="\n".join(lines), error=failures[0] if failures else None)


def _require_own(host: Host, name: str) -> None:
    store = server_store(host)
    if name not in catalog(host).servers() or name in store.project_folders():
        store.require_own(name)


def _sign_ins(host: Host, before: StoredSignIns | None = None) -> StoredSignIns | None:
    """Return the sign-ins that are stored now, with the servers that they belonged to before."""
    if not sign_in_folder(host.paths).is_dir():  # most users have none, and the import takes a while
        return None
    from pflow_mcp_plugin.cli.server_access import stored_sign_ins

    now = stored_sign_ins(host)
    return now if before is None else attrs.evolve(now, servers=before.servers)


def _signed_out(
    host: Host, sign_ins: StoredSignIns, name: str
) -> tuple[Sequence[EndedSignIn], Sequence[str], Sequence[PflowError]]:
    """Sign out of a server that was removed.

    Returns:
        The sign-ins that were removed, the servers for which others stay, and the errors.
    """
    from pflow_mcp_plugin.cli.logout import sign_out_of

    users = {entry: sign_ins.users(entry) for entry in sign_ins.of_name(name)}
    own = [entry for entry, names in users.items() if set(names) <= {name}]
    kept_for = [user for entry, names in users.items() if entry not in own for user in names if user != name]
    ended, failures = sign_out_of(host, sign_ins, own)
    return ended, kept_for, failures
