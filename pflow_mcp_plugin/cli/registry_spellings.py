"""`pflow registry add-mcp | refresh | migrate-mcp | test-mcp-connections`: older forms of `pflow mcp ...`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from pflow_mcp_plugin.cli.add import add_servers, require_free
from pflow_mcp_plugin.cli.command_arguments import command_or_url, servers
from pflow_mcp_plugin.cli.server_health import test_server
from pflow_mcp_plugin.cli.server_sync import enabled, sync_servers
from pflow_mcp_plugin.config import server_input
from pflow_mcp_plugin.config.server_schema import SERVERS, clean, mapping
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.discovery.servers import server_store

_AT_ONCE = 8


@click.command()
@click.option("--server", required=True, help="Name of the server.")
@click.option("--tool", "tools", multiple=True, help="Allow this tool only; may be repeated.")
@click.option("--command", default="", help="Its command line, for stdio.")
@click.option("--url", default="", help="Its URL, for http and sse.")
@click.option("--path", default="", help="Its socket or pipe, for uds and pipe.")
@click.option("--transport", help="Its transport; by default http for a URL, else stdio.")
@command_or_url
@click.option("--replace", is_flag=True, help="Replace a server of the same name.")
@click.pass_obj
def add_mcp(
    host: Host, /, *, server: str, tools: Sequence[str], command: str, url: str, replace: bool, **options: Any
) -> Report:
    """Add a server: an older spelling of `pflow mcp add`; nothing is started."""
    path, transport = options.pop("path"), options.pop("transport")
    if bool(url) == bool(command or path):
        raise PflowError("Give either --command or --url, or the --path of a socket", kind="usage")
    try:
        words = [url] if url else shlex.split(command)
    except ValueError as error:
        raise PflowError(f"The command cannot be read: {error}: {command}", kind="usage") from error
    if not (words or path):
        raise PflowError("The command is empty", kind="usage")
    flags, given = server_input.Flags(**options), server_input.Fitted(tables={server: {}})
    if words:
        given = server_input.read([server, *words], flags)
    else:
        server_input.refuse_flags(flags, "a socket without a command to start its server")
    own: dict[str, JSON] = {"type": transport} if transport else {}
    own |= {"path": path} if path else {}
    own |= {"tools": {"allow": [*tools]}} if tools else {}
    fitted = server_input.fitted_table(server, {**mapping(given.tables[server]), **own})
    require_free(host, fitted, replace=replace)
    return add_servers(host, attrs.evolve(fitted, notes=(*given.notes, *fitted.notes)))


@click.command()
@click.option("--mcp-server", "server", default=None, shell_complete=servers, help="Sync this server only.")
@click.pass_obj
def refresh(host: Host, server: str | None) -> Report:
    """Sync servers by the older spelling of `pflow mcp sync`: fetch their tools again."""
    return sync_servers(host, [server] if server else None)


@click.command()
@click.option(
    "--from",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A server config of an older pflow.",
)
@click.option("--backup", is_flag=True, help="Copy the server config to a .bak file before it is changed.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.pass_obj
def migrate_mcp(host: Host, path: Path, *, backup: bool, dry_run: bool) -> Report:
    """Migrate the servers of an older pflow; its file is read only, and no server is started.

    A server that is already configured stays as it is. The report has `added`, `kept` (already configured),
    `differing` (configured in another way) and `backup`.
    """
    store, older = server_store(host), server_input.from_file(path)
    configured = store.raw().get(SERVERS, {})
    found = older.tables
    new = {name: table for name, table in found.items() if name not in configured}
    kept = [name for name in found if name in configured]
    differing = [name for name in kept if configured[name] != clean(found[name])]
    data: dict[str, object] = {"from": str(path), "added": [*new], "kept": kept, "differing": differing}
    data["dry_run"] = dry_run
    lines = [f"{'Would add' if dry_run else 'Added'}: {', '.join(new) or 'no server'}"]
    if kept:
        lines.append(f"Already configured: {', '.join(kept)}")
    if differing:
        lines.append(f"Already configured differently, and left unchanged: {', '.join(differing)}")
    for note in older.notes:
        host.report(note)
    if dry_run or not new:
        return Report(data=data, text="\n".join(lines))
    if backup and (copy := store.back_up()):
        data["backup"] = str(copy)
        lines.append(f"The previous config is kept as {copy}")
    added = add_servers(host, server_input.Fitted(tables=new))
    return Report(
        data={**data, **(added.data if isinstance(added.data, Mapping) else {})},
        text=lambda: "\n".join([*lines, added.render()]),
        error=added.error,
    )


@click.command()
@click.pass_obj
def test_mcp_connections(host: Host) -> Report:
    """Connect to every enabled server, for the older spelling `pflow registry test-mcp-connections`."""
    from concurrent.futures import ThreadPoolExecutor

    def tested(name: str) -> Report:
        try:
            return test_server(host, name, insecure=False, startup_timeout=None)
        except PflowError as error:
            return Report(error=error)

    names = enabled(server_store(host))
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        reports = list(threads.map(tested, names))
    data: list[dict[str, object]] = []
    lines, failed = [], []
    for name, report in zip(names, reports, strict=True):
        if report.error:
            failed.append(name)
            data.append({"server": name, "success": False, "error": report.error.to_dict()})
            lines.append(f"{name}: failed: {report.error}")
        else:
            found = report.data if isinstance(report.data, Mapping) else {}
            data.append({"server": name, "success": True, **found})
            lines.append(report.render())
    error = PflowError(
        f"{len(failed)} of {len(names)} servers failed: {', '.join(failed)}",
        suggestions=tuple(f"Run: pflow mcp test {name}" for name in failed),
        kind="connection",
    )
    text = "\n".join(lines) or "No server is configured"
    return Report(data=data, text=text, error=error if failed else None)
