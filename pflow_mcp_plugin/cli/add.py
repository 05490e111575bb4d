"""`pflow mcp add`: configure servers; nothing is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.cli.command_arguments import command_or_url, startup_timeout, words_of_add
from pflow_mcp_plugin.cli.interaction import is_interactive, tell
from pflow_mcp_plugin.config import display, server_egress, server_input
from pflow_mcp_plugin.config.field_checks import join, refusal
from pflow_mcp_plugin.config.server_input import Fitted
from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.config.server_store import StoreChange
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.discovery.servers import approve_launches, catalog, server_store
from pflow_mcp_plugin.secret_detection import tokens
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import one_line
from pflow_mcp_plugin.types import Server, ServerPreset
from pflow_mcp_plugin.variable_references import references

_METAVAR = "PRESET | NAME -- COMMAND [ARGS]... | NAME URL | FILE | [NAME] JSON"
_EXAMPLES = "\b\n" + "\n".join(("Examples:", *server_input.FORMS))  # \b: click leaves the lines as they are


_TRANSPORT = "For a URL write --type http or --type sse; for a command write it after --"
_SCOPE = "Servers are added for the user; those of a project are in its .mcp.json (pflow --project)"
_OF_OTHERS = {"-t": _TRANSPORT, "--transport": _TRANSPORT, "-s": _SCOPE, "--scope": _SCOPE} | {
    "--command": "Write the command after --, as in: pflow mcp add NAME -- COMMAND ARGS...",
    "--url": "Write the URL after the name, as in: pflow mcp add NAME URL",
}
"""What to write instead of options that other programs have."""


class _AddCommand(click.Command):
    """`pflow mcp add`: reports a missing name before `--`, or a missing `--` before a command's options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        command = args[args.index("--") + 1 :] if "--" in args else []
        try:
            rest = super().parse_args(ctx, args)  # which empties `args`
        except click.NoSuchOption as error:
            step = _OF_OTHERS.get(error.option_name) or (
                "A command's own options go after --, as in: pflow mcp add NAME -- COMMAND ARGS..."
            )
            raise click.UsageError(f"No such option: {error.option_name}. {step}", ctx) from error
        if len(command) > 1 and list(ctx.params["words"]) == command:
            raise server_input.nameless(command)
        return rest


@click.command(cls=_AddCommand, epilog=_EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar=_METAVAR, shell_complete=words_of_add)
@command_or_url
@click.option(
    "--trust-readonly", is_flag=True, help="Trust what the server says about which tools are read-only."
)
@click.option(
    "--input", "-i", "inputs", multiple=True, metavar="NAME=VALUE", help="A value that a preset needs."
)
@click.option("--name", default="", help="Name of a preset's server; by default that of the preset.")
@startup_timeout
@click.option("--replace", is_flag=True, help="Replace servers of the same names.")
@click.option("--sync", "sync_too", is_flag=True, help="Start the server and sync its tools now.")
@click.pass_obj
def add(
    host: Host,
    /,
    words: tuple[str, ...],
    *,
    inputs: tuple[str, ...],
    name: str,
    replace: bool,
    sync_too: bool,
    **options: Any,
) -> Report:
    """Add servers.

    PRESET is the name of a ready-made server; see: pflow mcp presets. What it needs is asked
    for on a terminal; secrets are kept as settings.
    Adding starts no server; it shows in full what a sync will start, and approves it.
    If some of several servers have mistakes, the others are added.
    Values may refer to variables: ${NAME} or ${NAME:-default}; put them in
    single quotes, or the shell expands them and the secret ends up in the file.
    """
    flags = server_input.Flags(**options)
    preset = _preset(host, words)
    if not preset:
        for option, value in (("--input", inputs), ("--name", name)):
            if value:
                step = f"pflow mcp add PRESET {option} ..."
                raise PflowError(f"{option} is for presets only", suggestions=(step,), kind="usage")
        given = server_input.read(words, flags)
        require_free(host, given, replace=replace)
        return add_servers(host, given, sync_too=sync_too)
    from pflow_mcp_plugin.cli.presets import keep_secrets, preset_server

    # Whom to trust and how long to wait is the user's decision, not part of what a preset describes.
    server_input.refuse_flags(attrs.evolve(flags, trust_readonly=False, startup_timeout=None), "a preset")
    given, secrets = preset_server(host, preset, inputs, name, server_input.decided(flags))
    require_free(host, given, replace=replace)
    keep_secrets(host, secrets, name or preset.name)
    return add_servers(host, given, sync_too=sync_too, settings=tuple(secrets))


def require_free(host: Host, given: Fitted, *, replace: bool) -> None:
    """Ask before an added server replaces another; where nobody can be asked, `--replace` must be given."""
    taken = () if replace else server_store(host).differing(given.tables)
    if not taken:
        return
    names = f"{count_text(len(taken), 'server')} ({', '.join(taken)})"
    if is_interactive() and click.confirm(f"Replace {names}?", default=False, err=True):
        return
    raise PflowError(
        f"Nothing was added: it would replace {names}",
        suggestions=("Replace what is there: --replace", "Or choose another name; see: pflow mcp list"),
        kind="usage",
    )


def add_servers(host: Host, given: Fitted, *, sync_too: bool = False, settings: Sequence[str] = ()) -> Report:
    """Add servers, as `pflow mcp add` does, and report what would run; `settings` were saved for them.

    If some of them have mistakes, the others are added, and the report has the error.
    """
    store, known = server_store(host), catalog(host).servers()
    refused = store.refused(given.tables)
    good = {name: table for name, table in given.tables.items() if name not in refused}
    change = store.add(good or given.tables)  # raises the errors if no server is valid
    servers = [store.get(name) for name in good]
    approve_launches(host, good, new=change.added)
    advised = (found for server in servers for found in _advice(server, starting=sync_too))
    places = set(map(server_path, good))
    shadowing = (notice for notice in store.notices(duplicates=True) if notice.path in places)
    warnings = (*given.notes, *change.warnings, *advised, *shadowing)
    for warning in warnings:
        host.report(warning)
    mistakes = [problem for found in refused.values() for problem in found]
    error = refusal(f"Not added: {', '.join(refused)}", mistakes) if refused else None
    data: dict[str, Any] = {
        "file": str(store.path),
        "added": [*change.added],
        "replaced": [*change.replaced],
        "servers": [display.shown(server) for server in servers],
        "warnings": [warning.to_dict() for warning in warnings],
        "settings": [*settings],
    }
    lines = [one_line(line) for server in servers for line in _server_lines(change, server)]
    lines += [f"  setting  {name} is saved" for name in settings]
    if sync_too:
        from pflow_mcp_plugin.cli.server_sync import sync_servers

        tell("\n".join(lines))  # before anything starts
        synced = sync_servers(host, [server.name for server in servers], shown=True)
        return Report(data={**data, "sync": synced.data}, text=synced.text, error=error or synced.error)
    host.refresh("mcp")
    step = f"pflow mcp sync {servers[0].name if len(servers) == 1 else '--all'}"
    older = ", ".join(name for name in change.replaced if name in known)
    note = f"; until then the tools of {older} are those from before this change" if older else ""
    text = "\n".join([*lines, f"Next: {step}{note}"])
    return Report(data={**data, "next": step}, text=text, error=error)


def _preset(host: Host, words: Sequence[str]) -> ServerPreset | None:
    if len(words) != 1 or not naming.is_server_name(words[0]):
        return None
    from pflow_mcp_plugin.cli.presets import collected

    collection, name = collected(host), words[0]
    if name not in collection.offered and name not in collection.clashes and Path(name).is_file():
        return None
    return collection.get(name).preset


def _advice(server: Server, *, starting: bool) -> Iterator[Problem]:
    insecure = server_egress.advise(server)
    if insecure:
        yield insecure
    if server.command and not starting:  # otherwise starting it reports the same
        from pflow_mcp_plugin.config.server_schema import advise

        missing = advise(server)  # it may be installed later
        if missing:
            program, _, arguments = server.command.partition(" ")
            if arguments:
                step = f'Write the program alone, command = "{program}", and its arguments as args'
            else:
                from pflow_mcp_plugin.processes import missing_programs

                step = missing_programs.remedy(program)  # unlike a start, it may ask the login shell
            yield advice(f"{server_path(server.name)}.command", missing.message, step or missing.suggestion)
    from pflow_mcp_plugin.config.interchange.transfer_plans import extracted

    path = server_path(server.name)
    for key in ("token", "key", "password", "client_secret"):
        value = server.auth.get(key)
        if isinstance(value, str) and value and not references(value):
            message = "The secret is stored in plain text in the config file"
            step = f"Keep it in a variable: {key} = '${{API_{key.upper()}}}' (in a shell in single quotes)"
            yield advice(f"{path}.auth.{key}", message, step)
    fields = [("url", server.url)]
    fields += [(f"args[{index}]", argument) for index, argument in enumerate(server.args)]
    for table in ("env", "headers"):
        fields += [(join(table, name), value) for name, value in getattr(server, table).items()]
    found = [(field, token.variable) for field, value in fields for token in tokens(value)]
    named = {"env": dict(server.env), "headers": dict(server.headers)}
    _, literal = extracted(server.name, named, lambda *_: False)
    found += [(secret.field, secret.variable) for secret in literal if secret.field not in dict(found)]
    for field, variable in found:
        from pflow_mcp_plugin.exchange import setting

        message = "It looks like a secret, and is stored in plain text in the config file"
        step = f"Write '${{{variable}}}' instead (in a shell in single quotes), and run: {setting(variable)}"
        yield advice(f"{path}.{field}", message, step)


def _server_lines(change: StoreChange, server: Server) -> Iterator[str]:
    verb = "Replaced" if server.name in change.replaced else "Unchanged:"
    verb = "Added" if server.name in change.added else verb
    yield f"{verb} server {server.name} ({server.transport})"
    if server.command:
        yield f"  runs     {display.command_line(server)}"
    for key in ("cwd", "path"):
        if getattr(server, key):
            yield f"  {key:8} {getattr(server, key)}"
    if server.url:
        yield f"  url      {display.url(server.url)}"
    shown = display.shown(server)
    for key, separator in (("env", "="), ("headers", ": "), ("auth", " = ")):
        values = shown.get(key)
        for name, value in values.items() if isinstance(values, Mapping) else ():
            yield f"  {key:8} {name}{separator}{value}"
