"""`pflow mcp logs`: what a server wrote to stderr when it failed."""

from __future__ import annotations

from pathlib import Path

import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.config.locations import stderr_folder
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.contract.printable_text import printable


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
    return show_logs(host, name, every=every)


def show_logs(host: Host, name: str, *, every: bool) -> Report:
    """Return the report of `pflow mcp logs`: the kept stderr of a server, oldest first.

    Args:
        host: The host.
        name: The server.
        every: Whether all files are shown, else the newest.

    Raises:
        McpError: Neither a configured server nor a kept file has this name.
        PflowError: A file cannot be read.
    """
    folder = stderr_folder(host.paths) / naming.server_name(name)
    kept = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    if not kept and name not in catalog(host).servers():
        server_store(host).table(name)  # raises if it is not configured
    shown = kept if every else kept[-1:]
    data = [{"path": str(path), "text": _text(path)} for path in shown]
    if not data:
        return Report(data=data, text=_nothing_kept(name, folder))
    return Report(data=data, text="\n".join(f"{item['path']}\n{printable(item['text'])}" for item in data))


def _nothing_kept(name: str, folder: Path) -> str:
    from shlex import quote

    return (
        f"No stderr of server {name} is kept. pflow keeps it, in {folder},\n"
        "when the server fails and the error shows only a part of it; a few lines stand in the error.\n"
        f"To see whether the server starts: pflow mcp test {quote(name)}; "
        "to see failed runs: pflow trace list --failed"
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise PflowError(message, kind="config") from error
