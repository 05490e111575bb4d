"""`pflow mcp call`, also `pflow mcp SERVER TOOL`: runs a tool with flags, as the node that it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import click

from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.cli.tools import list_tools
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.registration.tool_source import ToolSource

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Suggestion


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
)
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="SERVER TOOL [--FLAG VALUE]... [then NODE ...]"
)
@click.pass_context
def call(ctx: click.Context, words: tuple[str, ...]) -> Report:
    """Run TOOL of SERVER with flags; `pflow mcp SERVER TOOL ...` is short for it.

    TOOL is the tool's own name, or its spelling in the node type. `pflow mcp SERVER --help` lists the tools,
    `pflow mcp SERVER TOOL --help` the flags. More nodes may follow, each after the word `then`.
    """
    return call_tool(ctx.obj, words, ctx.command_path.partition(" ")[0])


def call_tool(host: Host, words: Sequence[str], program: str) -> Report:
    """Return the report of a chain of nodes that begins with a tool; no server is started to look it up.

    Args:
        host: The host that runs the chain.
        words: The names of server and tool, then the rest of the command line.
        program: The name of the program, for the host's messages.

    Raises:
        McpError: The server or the tool does not exist or cannot be used, or the server was never synced.
        PflowError: One of them is not named, or the host refuses the rest of the line.
    """
    names = list(takewhile(lambda word: not word.startswith("-"), words[:2]))
    if not names:
        message = "Name a server and one of its tools first"
        raise PflowError(message, suggestions=("See: pflow mcp call --help",), kind="usage")
    store = server_store(host)
    source = ToolSource(catalog(host), store)
    server = names[0]
    if server not in store.names():
        raise _unknown_server(source, store, server, names[-1])
    if len(names) == 1:
        return _tools(host, server, words)
    entry = source.of_tool(server, names[1])
    if entry is None:
        raise _unusable(source, server, names[1])
    return host.run_chain([entry.node, *words[2:]], program)


def _unknown_server(source: ToolSource, store: ServerStore, server: str, tool: str) -> McpError:
    """Return the error about a server that is not configured; suggests the servers that have the tool.

    Args:
        source: The tools that there are.
        store: The configured servers.
        server: What stands for a server.
        tool: What stands for a tool; the same if only one name was given.
    """
    error = store.not_configured(server)
    error.details["unknown"] = server
    named = source.get(server)
    meant = (named,) if named else (source.of_tool(name, tool) for name in store.names())
    lines = tuple(f"Did you mean pflow {entry.node}?" for entry in meant if entry)
    error.suggestions = lines or error.suggestions
    return error


def _unusable(source: ToolSource, server: str, tool: str) -> McpError:
    problem = source.missing_tool(server, tool)
    return McpError(
        problem.message,
        where=Where(server=server, tool=tool, phase="config"),
        next_step=problem.suggestion,
        kind=problem.kind,
        action="resource_missing",
    )


def _tools(host: Host, server: str, words: Sequence[str]) -> Report:
    """Return the tools of a server as the help of `pflow mcp SERVER`.

    Raises:
        PflowError: Help was not asked for.
    """
    if "--help" in words:
        return list_tools(host, server)
    message = f"The name of a tool of server {server} is missing"
    raise PflowError(message, suggestions=(f"See its tools: pflow mcp tools {server}",), kind="usage")
