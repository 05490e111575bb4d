"""The lazy node source that the plugin registers; it loads `ToolSource` on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.config.locations import (
    approvals_file,
    pin_folder,
    project_file,
    server_file,
    tool_files,
    tool_folder,
)
from pflow_mcp_plugin.contract import NodeSource

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Entry, NodeUse, Paths, Problem, Settings, Sketch
    from pflow_mcp_plugin.contract.json_types import JSONObject
    from pflow_mcp_plugin.registration.tool_source import ToolSource


class LazyToolSource(NodeSource):
    """A lazy node source: loads the `ToolSource` behind it on first use.

    Lists and searches usually need only its fingerprint, since their index exists already; computing it takes
    only a stat of a few files. `report` gets the warnings about a project's config when the source is loaded,
    and `settings` may hold variables that decide what is started. If calls `may_be_answered` by a plugin, in
    place of their server, nobody knows which servers must start.
    """

    name = "mcp"
    prefixes: tuple[str, ...] = ("mcp-",)

    def __init__(
        self,
        paths: Paths,
        report: Callable[[Problem], None] = lambda _: None,
        settings: Settings | None = None,
        may_be_answered: Callable[[], bool] = lambda: False,
    ) -> None:
        self._paths = paths
        self._may_be_answered = may_be_answered
        self._settings = settings
        self._report = report

    @property
    def files(self) -> dict[Path, str]:  # type: ignore[override]  # computed when asked
        found = {
            server_file(self._paths): "servers",
            tool_folder(self._paths): "tools of synced servers",
            pin_folder(self._paths): "approved tools of servers",
        }
        of_projects = {
            project_file(self._paths): "servers of the project",
            approvals_file(self._paths): "approved projects",
            self._paths.data / "projects": "tools of projects' servers",
        }
        return found | {path.absolute(): role for path, role in of_projects.items() if path.exists()}

    def fingerprint(self) -> str:
        """Return the fingerprint of the lazy source without loading it, by stat alone unless in a project."""
        tools = sorted(tool_files(tool_folder(self._paths)))
        found = f"{storage.file_stamp(server_file(self._paths))} {tools}"
        if not project_file(self._paths).exists():
            return found
        from pflow_mcp_plugin.config.project_file import ProjectFile

        return found + ProjectFile(self._paths).stamp()

    def get(self, node_type: str) -> Entry | None:
        return self._source.get(node_type)

    def entries(self) -> Iterator[Entry]:
        return self._source.entries()

    def sketches(self) -> Iterator[Sketch]:
        return self._source.sketches()

    def missing(self, node_type: str) -> Problem | None:
        return self._source.missing(node_type)

    def lacking(self, text: str) -> Iterable[Problem]:
        return self._source.lacking(text)

    def unmet(self, uses: Iterable[NodeUse]) -> Iterable[Problem]:
        return () if self._may_be_answered() else self._source.unmet(uses)

    def check_use(self, use: NodeUse) -> Iterable[Problem]:
        return self._source.check_use(use)

    def upgrade(self, node: JSONObject) -> JSONObject | None:
        return self._source.upgrade(node)

    @cached_property
    def _source(self) -> ToolSource:
        from pflow_mcp_plugin.discovery.servers import servers
        from pflow_mcp_plugin.registration.tool_source import ToolSource

        known = servers(self._paths)
        for problem in known.store.notices():
            self._report(problem)
        return ToolSource(known.catalog, known.store, self._settings)
