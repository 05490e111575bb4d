"""What several `pflow mcp` commands share on their command lines, such as functions that complete words."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from pflow_mcp_plugin.config.field_checks import DAY
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.discovery.servers import catalog, server_store
from pflow_mcp_plugin.terminal.human_units import seconds_in


class Seconds(click.FloatRange):
    """An argument of `pflow mcp` commands that is a time, such as `90`, `90s` or `15m`, in seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            has_unit = isinstance(value, str) and value[-1:].isalpha()
            seconds = float(seconds_in(value) if has_unit else value)
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a time such as 90s or 15m.", param, ctx)
        return float(super().convert(seconds, param, ctx))


startup_timeout = click.option(
    "--startup-timeout",
    type=Seconds(min=0, min_open=True, max=DAY),
    metavar="TIME",
    help="Time for the start of each server, downloads included, such as 90s or 5m.",
)
"""Adds the option to a command; its value is None if it is not given."""

TOKEN_VARIABLE = "PFLOW_SERVE_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token of `pflow mcp serve --http`, to which a client's config refers."""


def servers(context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[str]:
    """Complete the name of a server: those configured, and those that have tools."""
    names = set(catalog(context.obj).servers())
    with suppress(PflowError):  # the config is corrupt
        names.update(server_store(context.obj).names())
    return sorted(names)


def tool_nodes(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the node type of a tool, as the host does."""
    found = context.obj.complete_chain([], incomplete)
    return [CompletionItem(it.value, it.type, it.help) for it in found if it.value.startswith("mcp-")]


def presets(context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[CompletionItem]:
    """Complete a word of a `pflow mcp` command as the name of a ready-made server."""
    from pflow_mcp_plugin.presets.collection import collect

    offered = collect(context.obj).offered
    return [CompletionItem(name, help=offer.preset.title) for name, offer in offered.items()]


def words_of_add(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a command's arguments: the first as a ready-made server, and each as a file."""
    first = [] if context.params.get("words") else presets(context, parameter, incomplete)
    return [*first, CompletionItem(incomplete, type="file")]


def words_of_presets(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete words for `pflow mcp presets`: first `show`, then the name of a ready-made server."""
    words = context.params.get("words") or ()
    if not words:
        return [CompletionItem("show", help="Show one of them")]
    return presets(context, parameter, incomplete) if words == ("show",) else []


def clients(_context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[CompletionItem]:
    """Complete the name of a client whose files pflow reads and writes."""
    from pflow_mcp_plugin.config.interchange.clients import CLIENTS

    return [CompletionItem(name, help=client.title) for name, client in CLIENTS.items()]


def clients_and_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a word of a `pflow mcp` command as the name of a client or, by the shell, of a file."""
    return [*clients(context, parameter, incomplete), CompletionItem(incomplete, type="file")]


def workflows_and_files(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a word of a `pflow mcp` command as the name of a saved workflow, or as that of a file."""
    library = context.obj.library
    names = library.names() if library is not None else ()
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


def folders(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a word of a `pflow mcp` command as the name of a folder; the shell lists them."""
    return [CompletionItem(incomplete, type="dir")]


def command_or_url(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a command the options for the command or URL of a server; see `server_input.Flags`."""
    for option in reversed(_OF_COMMAND_OR_URL):
        command = option(command)
    return command


_OF_COMMAND_OR_URL = (
    click.option(
        "--env", "-e", multiple=True, metavar="NAME=VALUE", help="Environment variable for the server."
    ),
    click.option(
        "--cwd",
        default="",
        metavar="FOLDER",
        shell_complete=folders,
        help="Working folder of its command; by default that of pflow.",
    ),
    click.option(
        "--header",
        "-H",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="An HTTP header to send to its URL.",
    ),
    click.option(
        "--bearer", default="", metavar="'${TOKEN}'", help="Bearer token for its URL; preferably a reference."
    ),
    click.option("--type", type=click.Choice(["http", "sse"]), help="Transport of its URL; by default http."),
    click.option("--insecure", is_flag=True, help="Allow plain http to another machine."),
)
