"""`pflow mcp call`, also `pflow mcp SERVER TOOL`: runs a tool with flags, as the node that it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import attrs
import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.cli.tools import call_of, find_tool, list_tools, nearest_tools
from pflow_mcp_plugin.contract import Entry, Host, PflowError, Report
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.registration.tool_source import ToolSource

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Suggestion


_EXAMPLES = """\
\b
Examples:
pflow mcp call demo.add a=1 b=2
pflow mcp call demo.echo --args '{"value": ["any", "JSON"]}'
pflow mcp call demo.word_count text='three short words' then echo"""
_ARGS, _OF_HOST = "--args", "--params"
"""The option for arguments as JSON, and the host's name of it."""


class _CallCommand(click.Command):
    """Completes what the tools take: which flags there are, only they say."""

    def complete_words(self, words: Sequence[str], incomplete: str, *, obj: Host) -> Sequence[Suggestion]:
        """Return the servers, tools and flags that may follow; see `CommandLike`."""
        from pflow_mcp_plugin.contract import Suggestion

        store = server_store(obj)
        source = ToolSource(catalog(obj), store)
        if len(words) > 1:
            entry = source.of_tool(words[0], words[1])
            return obj.complete_chain([entry.node, *words[2:]], incomplete) if entry else ()
        if words:
            names = source.tool_names(words[0], incomplete)
        else:
            names = [name for name in store.names() if name.startswith(incomplete)]
        return [Suggestion(value=name) for name in names]


@click.command(
    cls=_CallCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=_EXAMPLES,
)
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="SERVER TOOL|SERVER.TOOL|NODE|TOOL [NAME=VALUE]... [--FLAG VALUE]... [then NODE ...]",
)
@click.pass_context
def call(ctx: click.Context, words: tuple[str, ...]) -> Report:
    """Run TOOL of SERVER with arguments; `pflow mcp SERVER TOOL ...` is short for it.

    TOOL is the tool's own name, or its spelling in the node type; alone it will do if only one server has
    it. `pflow mcp call SERVER --help` lists the tools, `pflow mcp call SERVER.TOOL --help` the arguments.
    `--args JSON`, `--args @FILE` or `--args -` gives arguments as a JSON object. More nodes may follow, each
    after the word `then`.
    """
    host: Host = ctx.obj
    # Without the word `call`, a mistyped command of the group must not run a tool of that name.
    alone = (ctx.info_name or "").split()[-1:] == ["call"]
    given = _named_apart(host, _tool_first(words), alone=alone)
    entry = _entry(host, given)
    if isinstance(entry, Report):
        return entry
    chain, takes_params = _with_params(entry, given[2:])
    try:
        return host.run_chain(chain, ctx.command_path.partition(" ")[0])
    except PflowError as error:
        if takes_params:
            raise _as_typed(error) from error
        raise


def _entry(host: Host, words: Sequence[str]) -> Entry | Report:
    """Return the tool that words begin with, or the tools of a server if its help is asked for."""
    names = list(takewhile(lambda word: not word.startswith("-"), words[:2]))
    if not names or not names[0].strip():
        message = "Name a server and one of its tools first"
        raise PflowError(message, suggestions=("See: pflow mcp call --help",), kind="usage")
    store = server_store(host)
    source = ToolSource(catalog(host), store)
    server = names[0]
    if server not in store.names():
        raise _unknown_server(host, source, server, names[-1])
    if len(names) == 1 or not names[1]:
        if not {"-h", "--help"}.isdisjoint(words):
            return list_tools(host, server)
        message = f"The name of a tool of server {server} is missing"
        raise PflowError(message, suggestions=(f"See its tools: pflow mcp tools {server}",), kind="usage")
    entry = source.of_tool(server, names[1])
    if entry is None:
        problem = source.missing_tool(server, names[1])
        raise McpError(
            problem.message,
            where=Where(server=server, tool=names[1], phase="config"),
            next_step=problem.suggestion,
            kind=problem.kind,
            action="resource_missing",
        )
    return entry


def _tool_first(words: Sequence[str]) -> Sequence[str]:
    """Return the words with `--args` after the tool, where it stands before it."""
    if not words or words[0].partition("=")[0] != _ARGS:
        return words
    length = 1 if "=" in words[0] else 2
    target = list(takewhile(lambda word: not word.startswith("-"), words[length : length + 2]))
    # The second word is the tool, or already an argument.
    named = 1 if len(target) < 2 or "=" in target[1] or target[1] == "then" else 2
    return [*words[length : length + named], *words[:length], *words[length + named :]]


def _named_apart(host: Host, words: Sequence[str], *, alone: bool) -> Sequence[str]:
    """Return the words with server and tool apart where the first, such as `SERVER.TOOL`, names both."""
    first, *rest = words or ("",)
    store = server_store(host)
    server, dot, tool = first.partition(".")
    if dot and server in store.names():
        return [server, tool, *rest]
    known = not first or first.startswith("-") or first in store.names()
    entry = None if known else find_tool(host, first, alone=alone)
    if entry is not None:
        return [entry.labels["server"], entry.labels["tool"], *rest]
    return [server, tool, *rest] if tool and not known and naming.is_server_name(server) else words


def _with_params(entry: Entry, words: Sequence[str]) -> tuple[list[str], bool]:
    """Return the chain of a tool with its `--args` as the `--params` of the host, and whether it has any.

    A tool may have an argument called `args`; then the flag is that argument's.
    """
    own = list(takewhile(lambda word: word != "then", words))
    is_ours = [word.partition("=")[0] == _ARGS for word in own]
    if any(field.key == "args" for field in entry.interface.params) or not any(is_ours):
        return [entry.node, *words], False
    spelled = [
        _OF_HOST + word.removeprefix(_ARGS) if ours else word for word, ours in zip(own, is_ours, strict=True)
    ]
    return [entry.node, *spelled, *words[len(own) :]], True


def _as_typed(error: PflowError) -> PflowError:
    """Let an error of the host about `--params` name the option as it was typed."""

    def typed(text: str) -> str:
        return text.replace(_OF_HOST, _ARGS)

    error.message = typed(error.message)
    error.suggestions = tuple(map(typed, error.suggestions))
    error.problems = tuple(
        attrs.evolve(it, message=typed(it.message), suggestion=typed(it.suggestion)) for it in error.problems
    )
    return error


def _unknown_server(host: Host, source: ToolSource, server: str, tool: str) -> McpError:
    """Return the error about a server that is not configured; suggests the tools that may be meant.

    `tool` is the same as `server` if only one name was given.
    """
    store = server_store(host)
    error = store.not_configured(server)
    error.details["unknown"] = server
    of_any = (source.of_tool(name, tool) for name in store.names())
    meant = [entry for entry in of_any if entry] or nearest_tools(host, server)
    error.suggestions = tuple(f"Did you mean {call_of(entry)}?" for entry in meant) or error.suggestions
    return error
