"""The check of a workflow against the lock files of plugins, made when the user asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import Host, LockCheck, NodeRef, PflowError, Problem
from pflow_mcp_plugin.host.plugins import Plugin, PluginFailed, Plugins, plugin_code
from pflow_mcp_plugin.host.workflow.findings import listing
from pflow_mcp_plugin.host.workflow.workflow_check import Checked, NodeTypes

_DOING = "could not compare the workflow with its lock file"


@attrs.frozen(kw_only=True)
class LockPlace:
    """Where plugins look for the lock file of a workflow first.

    Attributes:
        folder: The folder of the workflow's file; None for a workflow that has no file.
    """

    folder: Path | None = None


def check_lock(
    checked: Checked, place: LockPlace, types: NodeTypes, host: Host, plugins: Plugins
) -> Iterator[Problem]:
    """Yield the differences from the lock files of plugins, and a warning about nodes that none covers.

    A plugin that fails has not compared anything, so its failure is an error too.

    Args:
        checked: The workflow; nodes without an id or of unknown types are skipped.
        place: Where to look for lock files.
        types: Says which plugin has a node type.
        host: The host that asks.
        plugins: The plugins to ask.
    """
    nodes = tuple(_nodes(checked, host))
    check = LockCheck(host=host, nodes=nodes, folder=place.folder)
    asked: set[str] = set()
    for plugin, call in plugins.implementations("pflow_check_lock"):
        asked.add(plugin.name)
        found: list[Problem] = []
        try:
            with plugin_code(plugin, _DOING, passing=(PflowError,)):
                found.extend(map(_of_this_kind, call(check) or ()))
        except PflowError as error:
            found += _failed(plugin, error)
        yield from found
    yield from _without_lock(nodes, asked, types)


def _nodes(checked: Checked, host: Host, above: str = "") -> Iterator[NodeRef]:
    for node in checked.document.nodes:
        entry = checked.entries[node.entry_key]
        node_id = f"{above}{node.id}"
        if entry and node.id:
            yield NodeRef(id=node_id, type=node.type, entry=entry, params=node.params, host=host)
        called = checked.called.get(node.entry_key)
        if called and called.checked:
            yield from _nodes(called.checked, host, f"{node_id}/")


def _of_this_kind(problem: object) -> Problem:
    if not isinstance(problem, Problem):
        raise TypeError(f"it returned a {type(problem).__name__}, not a Problem")
    return attrs.evolve(problem, kind="validation")


def _failed(plugin: Plugin, error: PflowError) -> Iterator[Problem]:
    """Yield the failure of a plugin, and the problems behind it; a single one is part of its message."""
    named = isinstance(error, PluginFailed)
    message = error.message if named else f"Plugin {plugin.label} {_DOING}: {error.message}"
    yield Problem(message=message, suggestion=next(iter(error.suggestions), ""), source=plugin.name)
    if len(error.problems) > 1:
        yield from (_of_this_kind(problem) for problem in error.problems if isinstance(problem, Problem))


def _without_lock(nodes: Iterable[NodeRef], asked: set[str], types: NodeTypes) -> Iterator[Problem]:
    covered: dict[str, Plugin] = {}
    uncovered: dict[str, Plugin] = {}
    for node in nodes:
        if plugin := types.plugin_of(node.entry.node):
            (covered if plugin.name in asked else uncovered)[node.entry.node] = plugin
    for plugin in dict.fromkeys(uncovered.values()):
        named = listing(node for node, owner in uncovered.items() if owner is plugin)
        yield _warning(f"Plugin {plugin.label} has no lock file, so its nodes may change: {named}")
    if not covered and not uncovered:
        yield _warning("Nothing in this workflow is locked: it has no node of a plugin")


def _warning(message: str) -> Problem:
    return Problem(message=message, severity="warning")
