"""The node source that the plugin registers; it loads `ToolSource` on first use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from pflow_mcp_plugin.config.locations import pin_folder, server_file, stamp, tool_folder
from pflow_mcp_plugin.contract import Entry, NodeSource, Paths, Problem, Sketch
from pflow_mcp_plugin.contract.json_types import JSONObject

if TYPE_CHECKING:
    from pflow_mcp_plugin.registration.tool_source import ToolSource


class LazyToolSource(NodeSource):
    """A lazy node source: loads the `ToolSource` behind it on first use.

    Lists and searches usually need only its fingerprint, since their index exists already; computing
    it takes only a stat of a few files.

    Args:
        paths: The folders of pflow.

    Attributes:
        files: Our files with their roles, for `config path`.
    """

    name = "mcp"
    prefixes: tuple[str, ...] = ("mcp-",)

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._config, self._folder = server_file(paths), tool_folder(paths)
        self.files = {
            self._config: "servers",
            self._folder: "tools of synced servers",
            pin_folder(paths): "approved tools of servers",
        }

    def fingerprint(self) -> str:
        """Return the source's fingerprint without loading it; calls stat only."""
        return stamp(self._config, self._folder)

    def get(self, node_type: str) -> Entry | None:
        """Return the entry of a node type or alias, loading the source on first use."""
        return self._source.get(node_type)

    def entries(self) -> Iterator[Entry]:
        """Return every entry, loading the source on first use."""
        return self._source.entries()

    def sketches(self) -> Iterator[Sketch]:
        """Return the sketch of every entry, loading the source on first use."""
        return self._source.sketches()

    def missing(self, node_type: str) -> Problem | None:
        """Explain why a node type does not exist, loading the source on first use."""
        return self._source.missing(node_type)

    def upgrade(self, node: JSONObject) -> JSONObject | None:
        """Return a node converted from its older form, loading the source on first use."""
        return self._source.upgrade(node)

    @cached_property
    def _source(self) -> ToolSource:
        from pflow_mcp_plugin.discovery.servers import servers
        from pflow_mcp_plugin.registration.tool_source import ToolSource

        known = servers(self._paths)
        return ToolSource(known.catalog, known.store)
