"""Whether the user can be asked, and messages beside a command's report."""

from __future__ import annotations
import sys
import click
from pflow_mcp_plugin.terminal.printable_text import printable


def is_interactive() -> bool:
    """Whether the user can be asked: not if any standard stream is redirected."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def tell(text: str) -> None:
    """Write lines for people to standard error, printable, before a command returns its report."""
    click.echo(printable(text), err=True)
