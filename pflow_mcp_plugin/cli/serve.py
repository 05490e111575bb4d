"""`pflow mcp serve`, also `pflow serve mcp`: serves pflow itself to MCP clients."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin.cli.command_arguments import TOKEN_VARIABLE, Seconds, clients, folders
from pflow_mcp_plugin.cli.interaction import tell
from pflow_mcp_plugin.contract import Host, Keeper, PflowError, Problem, Report, RunOptions
from pflow_mcp_plugin.discovery.servers import server_store
from pflow_mcp_plugin.storage import absolute

if TYPE_CHECKING:
    from pflow_mcp_plugin.server.http.request_tokens import TokenCheck
    from pflow_mcp_plugin.server.offer import Offer
    from pflow_mcp_plugin.server.pflow_server import ServingOptions

_NO_SHELL = Problem(
    message="This node runs programs or code, which this server does not allow",
    suggestion="Use other nodes, or ask the user: the server was started with --no-shell, or `[serve]` in "
    "mcp-servers.toml says no_shell",
    kind="validation",
)
_SEVERAL = ("--tools", "--workflows")
"""Options that take all words up to the next option."""
_FILE = click.Path(path_type=Path)
_LIMITS = ("allowed_hosts", "allowed_origins", "max_request_size", "max_requests", "request_timeout")
"""Options that are passed on to `AppOptions`."""
_HOST = re.compile(r"[^\s/@]+")
_ORIGIN = re.compile(r"https?://[^\s/@*]+")


def _require(needed: str, context: click.Context, given: Mapping[str, Any]) -> None:
    """Refuse the given options on the command line of `pflow mcp serve`: they need an option that is not."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in given and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0]} needs {needed}")


def _conflicts(given: Mapping[str, Any]) -> Iterator[str]:
    if given["issuer"] and not given["audience"]:
        yield "--issuer needs --audience: without it, tokens issued for other servers would be accepted"
    if not given["issuer"] and (given["audience"] or given["scopes"]):
        yield "--audience and --scope need --issuer"
    if given["issuer"] and given["token_file"]:
        yield "--issuer and --token-file exclude each other"
    if given["tls_key"] and not given["tls_cert"]:
        yield "--tls-key needs --tls-cert"
    for host in given["allowed_hosts"]:
        if not _HOST.fullmatch(host):
            yield f"--allowed-host takes HOST or HOST:PORT, got {host!r}"
    for origin in given["allowed_origins"]:
        if not _ORIGIN.fullmatch(origin):
            yield f"--allowed-origin takes an origin such as https://app.example.com, got {origin!r}"


class _ServeCommand(click.Command):
    """The click command `pflow mcp serve`: options take several words, as `--tools registry_* trace_read`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let `pflow mcp serve` read `--tools a b` as `--tools a --tools b`; `--tools` alone means `*`."""
        words: list[str] = []
        option = ""
        for word, following in pairwise([*args, "-"]):
            if word in _SEVERAL:
                option = word
                words += (option, "*") if following.startswith("-") else ()
            elif option and not word.startswith("-"):
                words += (option, word)
            else:
                option = ""
                words.append(word)
        return super().parse_args(ctx, words)


@click.command(cls=_ServeCommand)
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
    "--allow-decisions",
    is_flag=True,
    help="Let clients that resume a run say what became of steps whose outcome is unknown.",
)
@click.option("--locked", is_flag=True, help="Refuse nodes that differ from the lock file, at each run.")
@click.option(
    "--cache",
    is_flag=False,
    flag_value="1h",
    metavar="[TTL]",
    help="Let each run reuse results of read-only nodes that are younger than TTL; by default an hour.",
)
@click.option("--no-cache", is_flag=True, help="Reuse no results of earlier runs, and keep none.")
@click.option("--trust-readonly", is_flag=True, help="Trust nodes that claim to be read-only, at each run.")
@click.option(
    "--workflows",
    "workflows",
    multiple=True,
    metavar="[PATTERN...]",
    help="Serve saved workflows as tools too: those with these names or patterns, or all.",
)
@click.option(
    "--http",
    "http_address",
    metavar="HOST:PORT",
    help="Serve over HTTP on this address instead; a port of 0 takes any free one.",
)
@click.option(
    "--token-file",
    type=_FILE,
    metavar="FILE",
    help="HTTP: a file with the token that clients send; by default $PFLOW_SERVE_TOKEN, or a new token.",
)
@click.option("--issuer", metavar="URL", help="HTTP: accept tokens of this authorization server instead.")
@click.option("--audience", metavar="AUD", help="HTTP: the audience that those tokens must name.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="HTTP: a scope that they must have.")
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="HOST[:PORT]",
    help="HTTP: another name under which clients reach this server.",
)
@click.option(
    "--allowed-origin",
    "allowed_origins",
    multiple=True,
    metavar="ORIGIN",
    help="HTTP: web pages that may send requests, such as https://app.example.com; none by default.",
)
@click.option(
    "--max-request-size",
    type=click.IntRange(min=1024),
    default=4 << 20,
    show_default=True,
    metavar="BYTES",
    help="HTTP: larger requests get 413.",
)
@click.option(
    "--max-requests",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    metavar="N",
    help="HTTP: requests that are handled at once; further ones get 503.",
)
@click.option(
    "--request-timeout",
    type=Seconds(min=0, min_open=True),
    default=3600,
    show_default=True,
    metavar="TIME",
    help="HTTP: a request that takes longer is cancelled together with its run.",
)
@click.option(
    "--grace",
    type=Seconds(min=0),
    default=10,
    show_default=True,
    metavar="TIME",
    help="HTTP: how long running requests may continue after Ctrl-C or SIGTERM.",
)
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="HTTP: serve https with this certificate.")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="HTTP: its key, if not in the same file.")
@click.option(
    "--reuse-port",
    is_flag=True,
    help="HTTP: let several processes share the address; the system spreads connections over them.",
)
@click.option("--json", "as_json", is_flag=True, hidden=True)
@click.pass_context
def serve(
    context: click.Context,
    /,
    *,
    root: Path | None,
    as_json: bool,
    no_shell: bool,
    allow_decisions: bool,
    **options: Any,
) -> Report:
    """Serve pflow to an MCP client over standard input and output, or to many over HTTP.

    Without --http, the client starts this command. The tools find, check, run and save workflows, and run
    single nodes.
    """
    setup = {key: options.pop(key) for key in ("print_config", "install", "name", "force")}
    if setup["print_config"] or setup["install"]:
        if setup["print_config"] and setup["install"]:
            raise click.UsageError("--print-config and --install exclude each other")
        from pflow_mcp_plugin.cli.client_setup import set_up_client

        # The other options become those of the server that the client starts.
        return set_up_client(context, **setup, quiet=as_json)
    _require("--install CLIENT or --print-config CLIENT", context, setup)
    host: Host = context.obj
    chosen = {key: options.pop(key) for key in ("patterns", "workflows", "read_only")}
    run_options = RunOptions(
        **{key: options.pop(key) for key in attrs.fields_dict(RunOptions) if key in options}
    )
    if options["http_address"] is None:
        _require("--http HOST:PORT", context, options)
    for message in _conflicts(options):
        raise click.UsageError(message)
    over_http = options["http_address"] is not None
    if over_http and root:
        raise click.UsageError("--root does not apply to --http: clients over HTTP name no files")
    if as_json:
        raise click.UsageError("--json does not apply: standard output belongs to the protocol")
    from pflow_mcp_plugin.server.offer import Offer
    from pflow_mcp_plugin.telemetry.provider import tracer

    inherited = taken_token()  # even without --http: no node may find it
    tracer()  # set up before the first request: its span is made by the SDK
    # The program turns garbage collection down for commands that end soon; what is loaded by now stays.
    gc.freeze()
    gc.set_threshold(1_000, 10, 10)
    offer = Offer(host, **chosen)
    allowed = _allowed_by_config(host)
    served = attrs.evolve(
        offer.options(),
        run_options=run_options,
        show_secrets=partial(allowed, "show_secrets"),
        allow_decisions=lambda: allow_decisions or allowed("allow_decisions"),
    )
    if no_shell or server_store(host).serve().get("no_shell") is True:
        host.registry.withhold_code(_NO_SHELL)
    if over_http:
        return Report(exit_code=_serve_http(host, offer, options, inherited, served))
    return Report(exit_code=_serve_stdio(host, offer, root, inherited, served))


def _serve_stdio(
    host: Host, offer: Offer, root: Path | None, inherited: str | None, served: ServingOptions
) -> int:
    from pflow_mcp_plugin.server.pflow_server import build_server
    from pflow_mcp_plugin.server.stdio import serve_stdio

    folder = Path(os.path.realpath(absolute(root or Path())))
    if not folder.is_dir():
        raise PflowError(f"--root {root} is not a folder", kind="usage")
    with closing(Keeper()) as keeper:
        served = attrs.evolve(
            served,
            root=folder,
            keeper=lambda: keeper,
            secrets=frozenset({inherited} if inherited else ()),
        )
        return serve_stdio(build_server(host, offer.tools, served))


def _allowed_by_config(host: Host) -> Callable[[str], bool]:
    # Mistakes in the table `[serve]` are reported before anything is served.
    store = server_store(host)
    store.serve()
    for warning in store.check_serve():
        host.report(warning)

    def allowed(key: str) -> bool:
        try:
            return store.serve().get(key) is True
        except PflowError:
            return False

    return allowed


def taken_token() -> str | None:
    """Take the token of `pflow mcp serve` out of the environment, so that nothing that it starts has it.

    A removed variable is still in the memory that the system shows to others as the environment of the
    process (`/proc/PID/environ`, `ps`); it is overwritten there.
    """
    import ctypes

    if TOKEN_VARIABLE not in os.environ:
        return None
    if os.name == "posix":
        find = ctypes.CDLL(None).getenv
        find.restype = ctypes.c_void_p
        place = find(TOKEN_VARIABLE.encode())
        if place:
            ctypes.memset(place, 0, len(os.environb[TOKEN_VARIABLE.encode()]))
    return os.environ.pop(TOKEN_VARIABLE)


def _serve_http(
    host: Host,
    offer: Offer,
    options: Mapping[str, Any],
    inherited: str | None,
    served: ServingOptions,
) -> int:
    from pflow_mcp_plugin.redaction import Redactor
    from pflow_mcp_plugin.server.http.http_app import AppOptions, build_app, note_call
    from pflow_mcp_plugin.server.http.http_server import HttpServer, Tls
    from pflow_mcp_plugin.server.http.listening_address import listen, parse_address
    from pflow_mcp_plugin.server.http.request_tokens import KeptByToken, http_caller
    from pflow_mcp_plugin.server.pflow_server import build_server

    tls = Tls(certificate=options["tls_cert"], key=options["tls_key"]) if options["tls_cert"] else None
    if tls is not None:
        tls.check()
    wanted = parse_address(options["http_address"])
    check, made = _token_check(host, options, inherited)
    token = getattr(check, "value", "")
    listening, address = listen(wanted, shared=options["reuse_port"])
    kept = KeptByToken()
    served = attrs.evolve(
        served,
        caller=http_caller,
        began=note_call,
        keeper=kept.keeper,
        # Someone with a token of an authorization server is not always the user, who owns the secrets.
        show_secrets=served.show_secrets if options["issuer"] is None else lambda: False,
        secrets=frozenset({token, inherited or ""} - {""}),
    )
    app_options = AppOptions(
        address=address,
        check=check,
        **{name: options[name] for name in _LIMITS},
        tls=tls is not None,
    )
    app, limits = build_app(build_server(host, offer.tools, served), app_options)
    if not address.is_loopback and tls is None:
        tell(
            f"Warning: {options['http_address']} is served by plain http: anyone on the network path can "
            "read tokens and data. Give --tls-cert, or put a TLS proxy in front of it"
        )
    if address.is_wildcard and not options["allowed_hosts"]:
        tell(
            "Warning: Only requests to localhost are answered: name the host that clients use, with "
            "--allowed-host"
        )
    if made:
        tell(f"Token, shown only now: {made}")
    tell(f"Serving pflow on {app_options.url} (Ctrl-C ends it)")
    with closing(kept):
        return HttpServer(app, limits, listening, tls=tls, grace=options["grace"]).run(Redactor([token]))


def _token_check(host: Host, options: Mapping[str, Any], inherited: str | None) -> tuple[TokenCheck, str]:
    """Return the token check of `pflow mcp serve --http`, and the token that was made for it, if any."""
    import secrets

    from pflow_mcp_plugin.server.http import request_tokens
    from pflow_mcp_plugin.server.http.request_tokens import BearerToken

    if options["issuer"]:
        if inherited is not None:
            raise PflowError(f"--issuer and ${TOKEN_VARIABLE} exclude each other: unset one", kind="usage")
        issuer = request_tokens.AuthorizationServer(
            issuer=request_tokens.valid_issuer(options["issuer"]),
            network=server_store(host).network(),
            warn=lambda message: tell(f"Warning: {message}"),
        )
        audience, scopes = options["audience"] or "", options["scopes"]
        return request_tokens.AccessTokens(server=issuer, audience=audience, scopes=scopes), ""
    if options["token_file"]:
        token, warning = request_tokens.read_token(options["token_file"])
        if warning:
            tell(f"Warning: {warning}")
        return BearerToken(token), ""
    if inherited is not None:
        return BearerToken(request_tokens.valid_token(inherited, f"${TOKEN_VARIABLE}")), ""
    if options["reuse_port"] or not sys.stderr.isatty():
        reason = "processes on one address need the same" if options["reuse_port"] else "serving needs one"
        step = f"Set {TOKEN_VARIABLE}, or give --token-file FILE or --issuer URL"
        raise PflowError(f"No token is given, and {reason}", kind="usage", suggestions=(step,))
    made = secrets.token_urlsafe(32)
    return BearerToken(made), made
