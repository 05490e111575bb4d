"""What the arguments of the host's own commands may be, as functions for click's `shell_complete`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from pflow_mcp_plugin.host.embedded_host import EmbeddedHost

_RUNS = 50
"""The most runs that are offered, the newest ones."""


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def saved_names(context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[str]:
    """Return the names of saved workflows."""
    return _host(context).library.names()


def workflows(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of saved workflows, and let the shell complete the name of a file."""
    names = saved_names(context, parameter, incomplete)
    return [*map(CompletionItem, names), *files(context, parameter, incomplete)]


def runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of the newest runs that begin so, and `latest`; a path is that of a trace file."""
    if "/" in incomplete:
        return files(context, parameter, incomplete)
    from pflow_mcp_plugin.host.trace_files import LATEST

    ids = (path.stem for path in _host(context).traces.paths())
    found = [run for run in ids if run.startswith(incomplete)][:_RUNS]
    return [CompletionItem(LATEST, help="The newest run"), *map(CompletionItem, found)]


def setting_names(context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[str]:
    """Return the names of saved settings, never their values."""
    return list(_host(context).settings.names())


def node_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the node types that begin so."""
    from pflow_mcp_plugin.host.registry.node_registry import node_types

    found = node_types(_host(context).registry, incomplete)
    return [CompletionItem(each.value, each.type, each.help) for each in found]


def node_sources(context: click.Context, _parameter: click.Parameter, _incomplete: str) -> list[str]:
    """Return the names of the sources that node types come from."""
    return [origin.name for origin in _host(context).registry.sources]


def _host(context: click.Context) -> EmbeddedHost:
    host: EmbeddedHost = context.obj
    return host
