"""`pflow mcp test`: whether a server starts and answers; `pflow mcp logs`: its stderr when it failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

import attrs
import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.cli.command_arguments import servers, startup_timeout
from pflow_mcp_plugin.cli.login import logged_in
from pflow_mcp_plugin.config.locations import stderr_folder
from pflow_mcp_plugin.config.server_input import require_plain_http
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.discovery.servers import (
    catalog,
    launch,
    lookup,
    open_pool,
    server_store,
    with_startup_timeout,
)
from pflow_mcp_plugin.errors import ConnectionFailed
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.terminal.human_units import duration_text
from pflow_mcp_plugin.terminal.looks import one_line, printable
from pflow_mcp_plugin.trust import tool_difference

_PHASES = ("start", "handshake", "list")


@click.command()
@click.argument("name", shell_complete=servers)
@click.option("--insecure", is_flag=True, help="Allow plain http to another machine in this test.")
@startup_timeout
@click.pass_obj
def test(host: Host, name: str, *, insecure: bool, startup_timeout: float | None) -> Report:
    """Test a server: connect to it, list its tools and time each phase; nothing is saved."""
    return test_server(host, name, insecure=insecure, startup_timeout=startup_timeout)


def test_server(host: Host, name: str, *, insecure: bool, startup_timeout: float | None) -> Report:
    """For `pflow mcp test`: connect and list the tools; report each phase's milliseconds, or which failed."""
    offered = False
    while True:
        try:
            listing = _listing(host, name, insecure=insecure, startup_timeout=startup_timeout)
            break
        except ConnectionFailed as error:
            if offered or not logged_in(host, error):
                return Report(error=error)
            offered = True
    before = catalog(host).file(name)
    info, timings = listing.info, listing.timings
    data = {
        "server": name,
        "milliseconds": {phase: round(value, 1) for phase, value in timings.items()},
        "protocol": info.protocol,
        "era": info.era,
        "server_name": info.name,
        "server_version": info.version,
        "tools": len(listing.tools),
        "skipped": [{"name": tool, "reason": reason} for tool, reason in listing.skipped],
        "notes": list(listing.notes),
        "memory_mb": listing.memory_mb if listing.memory_mb is None else round(listing.memory_mb, 1),
        "sync_due": before is None or bool(tool_difference.compare(before.tools, listing.tools)),
    }
    return Report(data=data, text=lambda: "\n".join(map(one_line, _lines(data))))


def _listing(host: Host, name: str, *, insecure: bool, startup_timeout: float | None) -> Listing:
    ready = launch(name, server_store(host), catalog(host), lookup(host))
    ready = with_startup_timeout(ready, startup_timeout)
    server = ready.server
    if insecure:
        if not server.url:
            message = f"--insecure allows plain http, and server {name} is reached over {server.transport}"
            raise PflowError(message, suggestions=(f"pflow mcp test {name}",), kind="usage")
        require_plain_http(name, server.url)
        ready = attrs.evolve(ready, server=attrs.evolve(server, insecure=True))
    with open_pool(host) as pool:
        return pool.list_tools(ready)


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    says = " ".join(part for part in (data["server_name"], data["server_version"]) if part)
    yield f"{data['server']}: works" + (f" ({says})" if says else "")
    for phase in _PHASES:
        if phase in data["milliseconds"]:
            yield f"  {phase:10} {duration_text(data['milliseconds'][phase])}"
    yield f"  {'protocol':10} {data['protocol']} ({data['era']})"
    yield f"  {'tools':10} {data['tools']}"
    if data["memory_mb"] is not None:
        yield f"  {'memory':10} {data['memory_mb']:,.0f} MiB"
    yield from (f"  ! {item['name']} is malformed: {item['reason']}" for item in data["skipped"])
    yield from (f"  ! {note}" for note in data["notes"])
    if data["sync_due"]:
        yield f"Its tools differ from those of the last sync. Run: pflow mcp sync {data['server']}"


@click.command()
@click.argument("name", shell_complete=servers)
@click.option("--all", "every", is_flag=True, help="All that is kept, oldest first, not only the newest.")
@click.pass_obj
def logs(host: Host, name: str, *, every: bool) -> Report:
    """Show what a server wrote to stderr when it last failed, if the error showed only a part of it.

    Kept are the last 64 KiB before a failure, for the newest five failures that differ. A stderr
    of a few lines is not kept: the error shows all of it, and so does the trace of the run. Nothing is
    kept of a server that works.
    """
    folder = stderr_folder(host.paths) / naming.server_name(name)
    kept = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    if not kept and name not in catalog(host).servers():
        server_store(host).table(name)  # raises the error about an unknown server, with similar names
    data = []
    for path in kept if every else kept[-1:]:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise PflowError(f"{path} cannot be read: {error.strerror or error}", kind="config") from error
        data.append({"path": str(path), "text": text})
    if data:
        lines = [f"{item['path']}\n{printable(item['text'])}" for item in data]
        return Report(data=data, text="\n".join(lines))
    return Report(
        data=data,
        text=f"No stderr of server {name} is kept. pflow keeps it, in {folder},\n"
        "when the server fails and the error shows only a part of it; a few lines are in the error.\n"
        f"To see whether the server starts: pflow mcp test {quote(name)}; "
        "to see failed runs: pflow trace list --failed",
    )
