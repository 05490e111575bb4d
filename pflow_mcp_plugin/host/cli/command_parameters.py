"""Parameters that commands share: times, the options of a run, and values for the shell to complete."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click
from click.shell_completion import CompletionItem

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.terminal.human_units import DURATION, seconds_in

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import RunOptions
    from pflow_mcp_plugin.host.embedded_host import EmbeddedHost

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def seconds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """Convert a command's time parameter to seconds, at most a year: `90`, `90s`, `15m`, `1h`, `2d`."""
    if value is None:
        return None
    try:
        return seconds_in(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def time_limit(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Convert `--timeout`, which the host's commands share, as `seconds` does; it must be more than 0."""
    limit = seconds(context, parameter, value)
    if limit == 0:
        raise click.BadParameter(f"{value} must be more than 0")
    return limit


def limit_option(default: int, what: str = "results") -> Callable[[Decorated], Decorated]:
    """Return the decorator that gives a command the option `--limit`, the most results to list."""
    return click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help=f"Maximum number of {what}.",
    )


class WithLoneCache(click.Command):
    """A command with the shared option `--cache`, which stands alone or has a time after `=`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for word, following in pairwise(takewhile(lambda word: word != "--", args)):
            if word == "--cache" and re.fullmatch(DURATION, following):
                step = f"Write --cache={following}"
                raise PflowError("--cache takes a time only after =", suggestions=(step,), kind="usage")
        return super().parse_args(ctx, self.spelled_out(args))

    def spelled_out(self, words: Sequence[str]) -> list[str]:
        from pflow_mcp_plugin.contract.run_requests import USUAL_TTL

        end = words.index("--") if "--" in words else len(words)
        given = [f"--cache={USUAL_TTL:g}" if word == "--cache" else word for word in words[:end]]
        return [*given, *words[end:]]


def _giving(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def give(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return give


run_options = _giving(
    click.option("--locked", is_flag=True, help="Refuse nodes that differ from the lock file."),
    click.option(
        "--cache",
        metavar="[=TTL]",
        help="Reuse results of read-only nodes from earlier runs that are younger than TTL, such as 90s, 15m "
        "or 2d; by default an hour.",
    ),
    click.option("--no-cache", is_flag=True, help="Reuse no results of earlier runs, and keep none."),
    click.option(
        "--trust-readonly", is_flag=True, help="For this run, trust nodes that claim to be read-only."
    ),
)
"""Gives a command that runs something the options of `RunOptions`."""

workflow_run_options = _giving(
    click.option(
        "--items-must-succeed", is_flag=True, help="Fail at the end of the run if items of a batch failed."
    ),
    click.option(
        "--max-calls", type=click.IntRange(min=0), metavar="N", help="Stop the run before further calls."
    ),
    click.option(
        "--max-writes",
        type=click.IntRange(min=0),
        metavar="N",
        help="Stop the run before further calls of nodes that are not known to only read.",
    ),
    click.option("--allow-extra", is_flag=True, help="Let nodes take parameters that are not declared."),
    click.option(
        "--timeout", callback=time_limit, metavar="TIME", help="Stop the run after a time such as 90s or 15m."
    ),
    click.option("--quiet", "-q", is_flag=True, help="Show nothing on the terminal while the workflow runs."),
    click.option(
        "--verbose", "-v", is_flag=True, help="Show everything that nodes say, and what they wait for."
    ),
)
"""Gives a command that runs a workflow the bounds of `RunOptions`, and how the run is shown."""


def taken_options(options: dict[str, Any]) -> RunOptions:
    """Remove the shared options of a run from a command's parameters, and return them."""
    from pflow_mcp_plugin.contract import RunOptions

    return RunOptions(
        **{name: options.pop(name) for name in attrs.fields_dict(RunOptions) if name in options}
    )


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For the parameter FILE, which commands share: the shell completes it with files."""
    return [CompletionItem(incomplete, type="file")]


def saved_names(context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[str]:
    """Offer values for the parameter NAME that commands share: the names of all saved workflows."""
    return _host(context).library.names()


def workflows(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer values for the parameter WORKFLOW that commands share: a saved name or a file."""
    names = saved_names(context, parameter, incomplete)
    return [*map(CompletionItem, names), *files(context, parameter, incomplete)]


def runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer values for the parameter RUN that commands share: `latest`, newest ids or a trace file."""
    if "/" in incomplete:
        return files(context, parameter, incomplete)
    from pflow_mcp_plugin.host.trace_files import LATEST

    ids = (path.stem for path in _host(context).traces.paths())
    found = [run for run in ids if run.startswith(incomplete)][:50]  # the newest ones
    return [CompletionItem(LATEST, help="The newest run"), *map(CompletionItem, found)]


def setting_names(context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[str]:
    """Offer values for the parameter KEY that commands share: names of settings, not what they are set to."""
    return list(_host(context).settings.names())


def node_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer values for the parameter NODE that commands share: node types that begin as typed."""
    from pflow_mcp_plugin.host.direct.chain_completion import node_types

    found = node_types(_host(context).registry, incomplete)
    return [CompletionItem(each.value, each.type, each.help) for each in found]


def node_sources(context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[str]:
    """Offer values for a command's parameter that is a source of node types: the names of all sources."""
    return [origin.name for origin in _host(context).registry.sources]


def _host(context: click.Context) -> EmbeddedHost:
    host: EmbeddedHost = context.obj
    return host
