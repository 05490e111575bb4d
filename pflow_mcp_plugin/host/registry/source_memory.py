"""A record of which plugin brought which node types, for when the plugin is absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.plugins import DISABLE_VARIABLE, Plugin
from pflow_mcp_plugin.host.registry.node_sources import Origin
from pflow_mcp_plugin.storage import JsonStore, StoreError, encode_json, write_atomic


class Memory:
    """The record of every source that was seen: `{"sources": {name: {plugin, distribution, prefixes}}}`.

    It is written without a lock: what two writers lose is recorded again at the next start, and the
    lock would cost every first listing more than it is worth.
    """

    def __init__(self, path: Path, report: Callable[[Problem], None]) -> None:
        self.path = path
        self.report = report

    def note(self, origins: Iterable[Origin]) -> None:
        """Record the sources of plugins that came from a distribution."""
        known = self._read()
        new = {
            origin.name: _record(origin)
            for origin in origins
            if origin.plugin.metadata and not _is_noted(origin, known.get(origin.name, {}))
        }
        if new:
            data: dict[str, JSON] = {"schema_version": 1, "sources": {**known, **new}}
            try:
                write_atomic(self.path, encode_json(self.path, data))
            except StoreError:
                return  # only a better message later is lost

    def explain(self, node_type: str, plugins: Iterable[Plugin]) -> Problem | None:
        """Explain an unknown node type by the absent plugin remembered as its source; None if none is.

        Args:
            node_type: The node type of a workflow.
            plugins: Every installed plugin, loaded or not.
        """
        plugins = list(plugins)
        for record in self._read().values():
            if node_type.startswith(tuple(record["prefixes"])):
                installed = next((plugin for plugin in plugins if plugin.name == record["plugin"]), None)
                return _absent(node_type, installed, record)
        for plugin in plugins:  # never recorded, but plugins are often named like their nodes
            if node_type.startswith(f"{plugin.name}-") and plugin.status != "loaded":
                return _absent(node_type, plugin, {})
        return None

    def _read(self) -> dict[str, dict[str, list[str] | str]]:
        store = JsonStore(
            path=self.path, schema_version=1, what="list of sources", rebuildable=True, report=self.report
        )
        try:
            sources = store.read().get("sources")
        except StoreError:
            return {}
        records = sources.items() if isinstance(sources, dict) else ()
        return {
            name: record
            for name, record in records
            if isinstance(record, dict) and record.keys() >= {"plugin", "prefixes"}
        }


def _is_noted(origin: Origin, record: dict[str, list[str] | str]) -> bool:
    return record.get("prefixes") == list(origin.prefixes) and record.get("plugin") == origin.plugin.name


def _record(origin: Origin) -> dict[str, list[str] | str]:
    return {
        "plugin": origin.plugin.name,
        "distribution": origin.plugin.distribution,
        "prefixes": list(origin.prefixes),
    }


def _absent(node_type: str, plugin: Plugin | None, record: dict[str, list[str] | str]) -> Problem | None:
    """Return why a plugin's node is unknown; None when the plugin is loaded."""
    if plugin is None:
        name = record["distribution"]
        message = f"Node type {node_type} comes from the distribution {name}, which is not installed"
        fix = f"pip install {name}"
    elif plugin.status == "disabled":
        message = (
            f"Node type {node_type} comes from the plugin {plugin.name}, which {DISABLE_VARIABLE} disables"
        )
        fix = f"Remove {plugin.name} from {DISABLE_VARIABLE}"
    elif plugin.status == "skipped":
        message = (
            f"Node type {node_type} comes from the plugin {plugin.label}, which is skipped: {plugin.reason}"
        )
        fix = "See: pflow plugins"
    else:
        return None
    return Problem(
        message=message, suggestion=fix, kind="not_found", source=str(record.get("distribution", ""))
    )
