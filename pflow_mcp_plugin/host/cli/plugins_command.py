"""`pflow plugins`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from pflow_mcp_plugin.contract import Report
from pflow_mcp_plugin.host.cli.command_tree import Leaf, build_cli, leaves
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.plugins import Plugin


@click.command()
@click.pass_obj
def plugins(host: EmbeddedHost) -> Report:
    """List plugins: where each comes from, what it provides, and why any were not loaded."""
    commands = list(leaves(build_cli(host)))
    rows = [describe_plugin(host, plugin, commands) for plugin in host.plugins.all]
    return Report(data=rows, text=lambda: "\n".join(line for row in rows for line in _lines(row)))


def describe_plugin(host: EmbeddedHost, plugin: Plugin, commands: Sequence[Leaf]) -> dict[str, Any]:
    """Return what `pflow plugins` shows of a plugin: origin, status, node sources, commands and hooks.

    Args:
        host: The host that loaded it.
        plugin: The plugin.
        commands: The commands of all plugins.
    """
    sources = (origin for origin in host.registry.sources if origin.plugin is plugin)
    paths = (leaf.announced.path for leaf in commands if leaf.plugin is plugin)
    callers = host.plugins.manager.get_hookcallers(plugin.module) if plugin.status == "loaded" else None
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "own": plugin.own,
        "status": plugin.status,
        "reason": plugin.reason,
        "sources": [{"name": origin.name, "prefixes": list(origin.prefixes)} for origin in sources],
        "commands": [" ".join(path) for path in paths],
        "hooks": sorted(caller.name for caller in callers or ()),
    }


def _lines(row: dict[str, Any]) -> Iterator[str]:
    origin = f"{row['distribution']} {row['version']}".strip() or "registered by hand"
    yield f"{row['name']}  {origin}  {row['status']}{': ' + row['reason'] if row['reason'] else ''}"
    for source in row["sources"]:
        yield f"  nodes     {', '.join(source['prefixes'])} (source {source['name']})"
    for title, key in (("commands", "commands"), ("hooks", "hooks")):
        if row[key]:
            yield f"  {title:<9} {', '.join(row[key])}"
