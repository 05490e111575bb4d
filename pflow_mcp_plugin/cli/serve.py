"""`pflow mcp serve`, also `pflow serve mcp`: serves pflow itself to MCP clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from pflow_mcp_plugin.cli.dependencies import server_store
from pflow_mcp_plugin.cli.setup_options import sets_up_clients
from pflow_mcp_plugin.contract import Host, PflowError, Report

_SEVERAL = ("--tools",)
"""Options that take all the words up to the next option."""


class _ServeCommand(click.Command):
    """A command whose options may take several words: `--tools registry_* trace_read`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments of `serve`: each further word of an option becomes an option of its own."""
        return super().parse_args(ctx, list(_repeated(args)))


def _repeated(args: Iterable[str]) -> Iterator[str]:
    """Yield `--tools a --tools b` for `--tools a b`, and `--tools *` where no word follows."""
    option = ""
    for word in args:
        if option and not word.startswith("-"):
            yield from (option, word)
            given = True
            continue
        if option and not given:
            yield from (option, "*")
        option, given = (word, False) if word in _SEVERAL else ("", False)
        if not option:
            yield word
    if option and not given:
        yield from (option, "*")


@click.command(cls=_ServeCommand)
@sets_up_clients
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The only folder from which clients may name workflow files; the working folder by default.",
)
@click.option(
    "--tools",
    "patterns",
    multiple=True,
    metavar="NAME...",
    help="Serve only the tools of these names or patterns, such as 'registry_*'.",
)
@click.option("--read-only", is_flag=True, help="Serve only tools that change nothing.")
@click.option("--json", "as_json", is_flag=True, hidden=True)
@click.pass_obj
def serve(
    host: Host, root: Path | None, patterns: tuple[str, ...], *, read_only: bool, as_json: bool
) -> Report:
    """Serve pflow to an MCP client over standard input and output.

    The client starts this command. Its tools find, check, run and save workflows, and run single nodes.
    """
    if as_json:
        raise click.UsageError("--json does not apply: standard output belongs to the protocol")
    from pflow_mcp_plugin.server.pflow_server import build_server
    from pflow_mcp_plugin.server.serving_options import ServingOptions
    from pflow_mcp_plugin.server.stdio import serve_stdio
    from pflow_mcp_plugin.server.tool_selection import selected
    from pflow_mcp_plugin.server.tools.all_tools import ALL_TOOLS
    from pflow_mcp_plugin.telemetry.provider import tracer

    chosen = selected(ALL_TOOLS, patterns, read_only=read_only)
    options = ServingOptions(root=served_folder(root), show_secrets=_secrets_may_be_shown(host))
    tracer()  # set up before the first request: its span is made by the SDK
    return Report(exit_code=serve_stdio(build_server(host, lambda: chosen, options)))


def _secrets_may_be_shown(host: Host) -> Callable[[], bool]:
    """Return what says whether the user's config allows secrets to be shown; the file may change meanwhile.

    Raises:
        PflowError: The table `[serve]` has mistakes.
    """
    store = server_store(host)
    store.serve()
    for warning in store.check_serve():
        host.report(warning)

    def allowed() -> bool:
        try:
            return store.serve().get("show_secrets") is True
        except PflowError:
            return False

    return allowed


def served_folder(root: Path | None) -> Path:
    """Return the folder whose files clients may name, as a real path.

    Raises:
        PflowError: It is not a folder.
    """
    folder = Path(os.path.realpath(root or Path.cwd()))
    if not folder.is_dir():
        raise PflowError(f"--root {root} is not a folder", kind="usage")
    return folder
