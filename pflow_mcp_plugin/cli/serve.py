"""`pflow mcp serve`, also `pflow serve mcp`: serves pflow itself to MCP clients."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin.cli.command_arguments import clients, folders
from pflow_mcp_plugin.cli.dependencies import server_store
from pflow_mcp_plugin.cli.http_options import given_http_options, http_options, serve_http, taken_token
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report

if TYPE_CHECKING:
    from pflow_mcp_plugin.server.pflow_server import PflowServer

_NO_SHELL = Problem(
    message="This node runs programs or code, which this server is not to do",
    suggestion="Use other nodes, or ask the user: the server was started with --no-shell, or `[serve]` in "
    "mcp-servers.toml says no_shell",
    kind="validation",
)
_SEVERAL = ("--tools", "--workflows")
"""Options that take all words up to the next option."""


def sets_up_clients(command: Callable[..., Report]) -> Callable[..., Report]:
    """Add the options that set up a client instead of serving; without them, the command runs as before.

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
    shell_complete=folders,
    help="Clients may name workflow files in this folder only; by default the working folder.",
)
@click.option(
    "--tools",
    "patterns",
    multiple=True,
    metavar="NAME...",
    help="Serve only the tools with these names or patterns, such as 'registry_*'.",
)
@click.option("--read-only", is_flag=True, help="Serve only tools that change nothing.")
@click.option(
    "--no-shell", is_flag=True, help="Run no node that runs programs or code, such as shell, for any client."
)
@click.option(
    "--workflows",
    "workflows",
    multiple=True,
    metavar="[PATTERN...]",
    help="Serve saved workflows as tools too: those with these names or patterns, or all.",
)
@http_options
@click.option("--json", "as_json", is_flag=True, hidden=True)
@click.pass_context
def serve(
    context: click.Context, /, root: Path | None, *, as_json: bool, no_shell: bool, **options: Any
) -> Report:
    """Serve pflow to an MCP client over standard input and output, or to many over HTTP.

    Without --http, the client starts this command. The tools find, check, run and save workflows, and run
    single nodes.
    """
    chosen = {name: options.pop(name) for name in ("patterns", "workflows", "read_only")}
    over_http = given_http_options(context, options)
    if over_http and root:
        raise click.UsageError("--root does not apply to --http: clients over HTTP name no files")
    if as_json:
        raise click.UsageError("--json does not apply: standard output belongs to the protocol")
    from pflow_mcp_plugin.server.offer import Offer
    from pflow_mcp_plugin.server.pflow_server import build_server
    from pflow_mcp_plugin.telemetry.provider import tracer

    host: Host = context.obj
    inherited = taken_token()  # over standard input and output, too: no node is to find it
    tracer()  # set up before the first request: its span is made by the SDK
    _collect_garbage_often()
    offer = Offer(host, **chosen)
    show_secrets = _secrets_may_be_shown(host)
    if no_shell or server_store(host).serve().get("no_shell") is True:
        host.registry.withhold_code(_NO_SHELL)
    if over_http:
        from pflow_mcp_plugin.server.http.request_tokens import http_caller

        # Someone with a token of an authorization server is not always the user, who owns the secrets.
        shown = show_secrets if over_http.issuer is None else lambda: False
        served = attrs.evolve(offer.options(), caller=http_caller, show_secrets=shown)

        def build(token: str) -> PflowServer:
            secrets = frozenset({token, inherited or ""} - {""})
            return build_server(host, offer.tools, attrs.evolve(served, secrets=secrets))

        return Report(exit_code=serve_http(build, over_http, inherited))
    from pflow_mcp_plugin.server.stdio import serve_stdio

    secrets = frozenset({inherited} if inherited else ())
    served = attrs.evolve(offer.options(served_folder(root)), show_secrets=show_secrets, secrets=secrets)
    return Report(exit_code=serve_stdio(build_server(host, offer.tools, served)))


def _collect_garbage_often() -> None:
    """Return to frequent garbage collection: the program sets it for commands that end soon."""
    gc.freeze()  # what is loaded stays, and need not be looked at again
    gc.set_threshold(1_000, 10, 10)


def _secrets_may_be_shown(host: Host) -> Callable[[], bool]:
    """Return a function that says whether the user's config allows secrets to be shown now.

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
