"""`pflow mcp call`, also `pflow mcp SERVER TOOL`: runs a tool with flags, as the node that it is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.cli.command_arguments import command_or_url, startup_timeout
from pflow_mcp_plugin.cli.interaction import tell
from pflow_mcp_plugin.cli.tools import find_tool, list_tools, nearest_tools
from pflow_mcp_plugin.config import display, server_input
from pflow_mcp_plugin.contract import Entry, Host, PflowError, Report
from pflow_mcp_plugin.discovery.servers import catalog, lookup, open_pool, server_store
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.schemas.schema_reader import CONTENT_BLOCKS

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Suggestion


_EXAMPLES = """\
\b
Examples:
pflow mcp call demo.add a=1 b=2
pflow mcp call demo.echo --args '{"value": ["any", "JSON"]}'
pflow mcp call demo.word_count text='three short words' then echo
pflow mcp call --stdio 'uvx mcp-server-time' get_current_time timezone=UTC"""
_LENT = "ad-hoc"
"""The name of a server that is used for one call without being configured."""
_ARGS, _OF_HOST = "--args", "--params"
"""The option for arguments as JSON, and the host's name for it."""


class _CallCommand(click.Command):
    """Completes servers, tools and arguments of `pflow mcp call`; which flags it has depends on the tool."""

    def complete_words(self, words: Sequence[str], incomplete: str, *, obj: Host) -> Sequence[Suggestion]:
        from pflow_mcp_plugin.contract import Suggestion

        if incomplete.startswith("-") and not words:
            names = [name for each in self.params for name in each.opts if name.startswith("--")]
            return [Suggestion(value=name) for name in names if name.startswith(incomplete)]
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
    metavar="SERVER TOOL|SERVER.TOOL|NODE|TOOL|URL TOOL [NAME=VALUE]... [--FLAG VALUE]... [then NODE ...]",
)
@click.option("--stdio", default="", metavar="COMMAND", help="Start a server that is not configured.")
@command_or_url
@startup_timeout
@click.pass_context
def call(ctx: click.Context, /, words: tuple[str, ...], *, stdio: str, **options: Any) -> Report:
    """Run TOOL of SERVER with arguments; `pflow mcp SERVER TOOL ...` is short for it.

    TOOL is the tool's own name, or its spelling in the node type; alone it will do if only one server has
    it. `pflow mcp call SERVER --help` lists the tools, `pflow mcp call SERVER.TOOL --help` the arguments.
    `--args JSON`, `--args @FILE` or `--args -` gives arguments as a JSON object. More nodes may follow, each
    after the word `then`.

    `--stdio COMMAND TOOL` and `URL TOOL` use a server that is not configured, for this call only; without
    TOOL they list its tools. The server's options come before them.
    """
    host: Host = ctx.obj
    flags = server_input.Flags(**options)
    try:
        typed = shlex.split(stdio) or [word for word in words[:1] if server_input.is_url(word)]
    except ValueError as error:
        raise PflowError(f"--stdio: {error}", suggestions=("Close the quote",), kind="usage") from error
    if typed:
        words = (_LENT, *_tool_first(words[0 if stdio else 1 :]))
        if kept := [word for word in words if word.partition("=")[0] in ("--save", "--print")]:
            message = f"{kept[0]}: a workflow cannot use a server that is not configured"
            raise PflowError(message, suggestions=("First run: pflow mcp add NAME ...",), kind="usage")
    elif flags != server_input.Flags():
        step = "Put them before --stdio COMMAND or URL; a tool's own flags come after it"
        raise PflowError("A configured server takes no such options", suggestions=(step,), kind="usage")
    # Without the word `call`, a mistyped command of the group must not run a tool of that name.
    alone = (ctx.info_name or "").split()[-1:] == ["call"]
    takes_params = False
    with _lent(host, typed, flags) if typed else nullcontext(str) as as_typed:
        try:
            given = _named_apart(host, _tool_first(words), alone=alone)
            found = _entry(host, given)
            if isinstance(found, Report):
                report = found
            else:
                chain, takes_params = _with_params(found, given[2:])
                report = host.run_chain(chain, ctx.command_path.partition(" ")[0])
        except PflowError as error:
            if takes_params:
                _retell(error, lambda text: text.replace(_OF_HOST, _ARGS))
            _retell(error, as_typed)
            raise
    if report.error:
        _retell(report.error, as_typed)
    _tell_files(report)
    if typed and isinstance(report.text, str) and not {"-h", "--help"}.isdisjoint(words):
        return attrs.evolve(report, text=as_typed(report.text))
    return report


@contextmanager
def _lent(host: Host, typed: Sequence[str], flags: server_input.Flags) -> Iterator[Callable[[str], str]]:
    """Lend a server that is not configured to one `pflow mcp call`; its config and tools are gone afterwards.

    Whoever typed its command or URL has approved it. Yields a function that replaces the server's name by it
    in the commands that a text suggests.
    """
    from tempfile import TemporaryDirectory

    from pflow_mcp_plugin.client.kept_servers import KeptServers
    from pflow_mcp_plugin.discovery.servers import servers
    from pflow_mcp_plugin.discovery.tool_sync import sync

    known, given = servers(host.paths), server_input.read([_LENT, *typed], flags)
    shown = display.arguments(typed)
    url = server_input.is_url(typed[0])
    in_call = shlex.join(shown) if url else f"--stdio {shlex.quote(shlex.join(shown))}"
    adding = f"pflow mcp add NAME {'' if url else '-- '}{shlex.join(shown)}"

    def as_typed(text: str) -> str:
        named = rf"pflow (?:mcp (?:call|tools|info) )?(?:mcp-)?{_LENT}(?:(-)|\b)"
        text = re.sub(named, lambda found: f"pflow mcp call {in_call}{' ' if found[1] else ''}", text)
        text = text.replace(f"set insecure = true for server {_LENT}", "write --insecure before the URL")
        own_auth = rf"set auth = \{{.*?\}} for server {_LENT}\b"
        text = re.sub(own_auth, "write --bearer '${TOKEN}' before the URL", text)
        return re.sub(rf"pflow mcp \w+ {_LENT}\b", lambda _: adding, text)

    kept = KeptServers(lambda _warn, _on_start: open_pool(host))
    with TemporaryDirectory(prefix="pflow-") as folder:
        try:
            known.store.lend(given.tables, Path(folder) / "servers")
            tell(f"Used for this call only: {shlex.join(shown)}. To keep it: {adding}")
            # The call uses the connection that has listed the tools.
            known.kept = kept
            with kept.share(lambda _: None, lambda _: lambda _: None) as share:
                (synced,) = sync([_LENT], known, share.list_tools, lookup(host))
            if synced.error:
                _retell(synced.error, as_typed)
                raise synced.error
            yield as_typed
        finally:
            known.store.lend({}, Path())
            known.kept = None
            kept.close()


def _entry(host: Host, words: Sequence[str]) -> Entry | Report:
    """Return the tool that the words begin with, or the tools of a server if its help is asked for."""
    names = list(takewhile(lambda word: not word.startswith("-"), words[:2]))
    if not names or not names[0].strip():
        message = "Name a server and one of its tools first"
        raise PflowError(message, suggestions=("See: pflow mcp call --help",), kind="usage")
    store = server_store(host)
    source = ToolSource(catalog(host), store)
    server = names[0]
    if server not in store.names():
        error = store.not_configured(server)
        error.details["unknown"] = server
        of_any = (source.of_tool(name, names[-1]) for name in store.names())
        meant = [entry for entry in of_any if entry] or nearest_tools(host, server)
        named = (shlex.quote(f"{it.labels['server']}.{it.labels['tool']}") for it in meant)
        steps = tuple(f"Did you mean pflow mcp call {name}?" for name in named)
        error.suggestions = steps or error.suggestions
        raise error
    if len(names) == 1 or not names[1]:
        if server in store.lent or not {"-h", "--help"}.isdisjoint(words):
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
    """Move `--args` that come before the tool of a call behind it."""
    if not words or words[0].partition("=")[0] != _ARGS:
        return words
    length = 1 if "=" in words[0] else 2
    target = list(takewhile(lambda word: not word.startswith("-"), words[length : length + 2]))
    # The second word is the tool, or already an argument.
    named = 1 if len(target) < 2 or "=" in target[1] or target[1] == "then" else 2
    return [*words[length : length + named], *words[:length], *words[length + named :]]


def _named_apart(host: Host, words: Sequence[str], *, alone: bool) -> Sequence[str]:
    """Return a call's words, the first split into server and tool if it names both, as `SERVER.TOOL` does."""
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
    """Return the call as a chain, with its `--args` as the `--params` of the host, and whether it has any.

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


def _tell_files(report: Report) -> None:
    """Name the files of media that a tool returned beside a structured result, which alone is printed."""
    data = report.data if isinstance(report.data, Mapping) else {}
    outputs = data.get("outputs")
    blocks = outputs.get(CONTENT_BLOCKS) if isinstance(outputs, Mapping) else None
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, Mapping) and {"path", "mimeType", "size", "sha256"} <= block.keys():
            tell(f"Also returned: {block['path']} ({block['mimeType']})")


def _retell(error: PflowError, as_typed: Callable[[str], str]) -> None:
    error.message = as_typed(error.message)
    error.suggestions = tuple(map(as_typed, error.suggestions))
    error.problems = tuple(
        attrs.evolve(it, message=as_typed(it.message), suggestion=as_typed(it.suggestion))
        for it in error.problems
    )
