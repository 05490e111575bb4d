"""The embedded host's registry of node types, which the rest of the host and plugins ask."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

import attrs

from pflow_mcp_plugin.contract import Paths, PflowError, Problem, Registry
from pflow_mcp_plugin.contract.problems import advice, problem_of
from pflow_mcp_plugin.host.plugins import Plugin, PluginFailed, Plugins
from pflow_mcp_plugin.host.registry.node_index import Index, NodeRow, open_index
from pflow_mcp_plugin.host.registry.node_sources import NAME as SAVED
from pflow_mcp_plugin.host.registry.node_sources import Memory, Origin, SavedEntries, asked, collect_sources
from pflow_mcp_plugin.host.shared_parts import shared_part

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Discovery, Entry, Match, NodeUse, Sketch
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
    from pflow_mcp_plugin.host.registry.discovery import FoundNode, NodeDiscovery
    from pflow_mcp_plugin.host.registry.semantic_search import SemanticSearch

_Drawn = TypeVar("_Drawn", "Entry", "Sketch")
_FEW = 2_000
"""The most names in the registry that are compared one by one with a misspelt name."""


class Overwritten(Problem):
    """A warning that two sources of the registry have the same node type; the first of them provides it."""


class NodeRegistry(Registry):
    """The embedded host's registry: its own node types, those in `registry.json`, those of plugins."""

    def __init__(self, paths: Paths, plugins: Plugins, setting: Callable[[str], str | None]) -> None:
        self._cache = paths.cache
        self._plugins = plugins
        self._setting = setting
        self._report = plugins.report
        self._saved = SavedEntries(paths.data / SAVED, self._report)
        self._memory = Memory(paths.state / "sources.json", self._report)
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._no_code: Problem | None = None

    @shared_part
    def sources(self) -> list[Origin]:
        saved = Origin(self._saved, Plugin(SAVED, own=True))
        origins = collect_sources(self._plugins, saved)
        self._memory.note(origins)
        return origins

    def get(self, node_type: str) -> Entry:
        if entry := self.find(node_type):
            return entry
        problem = self.missing(node_type)
        raise PflowError(
            problem.message,
            details={"node": node_type},
            suggestions=(problem.suggestion,) if problem.suggestion else (),
            kind="not_found",
        )

    def fingerprint(self) -> str:
        return "\n".join(
            f"{origin.name} {origin.plugin.name} {asked(origin.fingerprint, self._report)}"
            for origin in self.sources
        )

    def find(self, node_type: str) -> Entry | None:
        fitting = (origin for origin in self.sources if origin.fits(node_type))
        found = ((origin, asked(partial(origin.get, node_type), self._report)) for origin in fitting)
        answers = [(origin, entry) for origin, entry in found if entry is not None]
        # A name beats an alias, even one of an earlier source.
        named = [(origin, entry) for origin, entry in answers if entry.node == node_type]
        for origin, _ in named[1:]:
            self._overwritten(node_type, named[0][0], origin)
        entry = next((entry for _, entry in named or answers), None)
        if entry is not None and entry.runs_code and self._no_code is not None:
            return attrs.evolve(entry, withheld=self._no_code)
        return entry

    def withhold_code(self, reason: Problem) -> None:
        self._no_code = reason

    def _is_listed(self, entry: Entry) -> bool:
        return self._no_code is None or not entry.runs_code

    def entries(self, pattern: str = "") -> Iterator[Entry]:
        wanted = pattern.lower()
        found = (entry for entry in self._all(Origin.entries, []) if wanted in entry.node.lower())
        yield from sorted(filter(self._is_listed, found), key=lambda entry: entry.node)

    def rows(self, pattern: str = "") -> list[NodeRow]:
        """Return the registry's nodes that match a pattern, as rows of its index instead of entries."""
        self._tell_lacking(pattern)
        return self._opened().rows(pattern)

    def beginning(self, prefix: str) -> list[tuple[str, str]]:
        return self._opened().beginning(prefix)

    def search(self, words: str, limit: int = 20) -> list[tuple[Entry, float]]:
        found = ((self.find(row.node), row.score) for row in self.search_rows(words, limit))
        return [(entry, score) for entry, score in found if entry is not None and self._is_listed(entry)]

    def count(self, words: str) -> int:
        return self._opened().count(words)

    def search_rows(self, words: str, limit: int = 20) -> list[NodeRow]:
        self._tell_lacking(words)
        return self._opened().search(words, min(limit, sys.maxsize))

    def discover(self, task: str, limit: int = 10) -> Discovery[Entry]:
        from pflow_mcp_plugin.contract import Discovery, Match
        from pflow_mcp_plugin.host.registry.discovery import fitting

        found = fitting(self.discovered(task, limit))
        matches = [
            Match(item=match.item.entry, confidence=match.confidence, reason=match.reason)
            for match in found.matches
            if self._is_listed(match.item.entry)
        ]
        return Discovery(matches=matches, ranked_by=found.ranked_by, note=found.note)

    def discovered(self, task: str, limit: int = 10) -> Discovery[FoundNode]:
        """Return all that the registry finds for a task, with rows and scores: `discover` chooses from it."""
        self._tell_lacking(task)
        return self._discovery().whole(task, limit)

    def discovered_by_clause(
        self, task: str, most: int, limit: int
    ) -> list[tuple[str, list[Match[FoundNode]]]]:
        self._tell_lacking(task)
        return self._discovery().by_clause(task, most, limit)

    def _tell_lacking(self, text: str) -> None:
        """For a search of this registry, report what its sources lack, such as an unsynced server's tools."""
        for origin in self.sources if text else ():
            if not origin.plugin.own:
                for problem in asked(partial(origin.lacking, text), self._report) or ():
                    self._report(problem)

    def nearest(self, node_type: str) -> list[str]:
        from pflow_mcp_plugin.terminal.similar_names import closest

        names = self._opened().names()
        # Comparing takes time for each name, so the search index narrows them down first.
        if len(names) > _FEW:
            names = [row.node for row in self._opened().search(node_type, 200)]
        return closest(node_type, names)

    def missing(self, node_type: str) -> Problem:
        unknown = f"Unknown node type {node_type}"
        fitting = [origin for origin in self.sources if origin.fits(node_type)]
        for origin in fitting:
            if problem := asked(partial(origin.missing, node_type), self._report):
                return problem
        for origin in fitting:
            try:
                origin.get(node_type)
            except PflowError as error:  # it may well know the node
                return problem_of(error, message=f"{unknown}: {error.message}", kind="not_found")
        if explained := self._memory.explain(node_type, self._plugins.all):
            return explained
        nearest = self.nearest(node_type)
        fix = f"Did you mean {' or '.join(nearest)}?" if nearest else "List them: pflow registry list"
        return Problem(message=unknown, suggestion=fix, kind="not_found")

    def unmet(self, uses: Iterable[NodeUse]) -> list[Problem]:
        """Ask this registry's sources what the machine lacks for these uses of their nodes."""
        by_source: dict[str, list[NodeUse]] = {}
        for use in uses:
            by_source.setdefault(use.entry.source, []).append(use)
        found: list[Problem] = []
        for origin in self.sources:
            if used := by_source.get(origin.name):
                found += asked(partial(origin.unmet, used), self._report) or ()
        return found

    def check_use(self, use: NodeUse) -> list[Problem]:
        origin = next((it for it in self.sources if it.name == use.entry.source), None)
        if origin is None:
            return []
        try:
            return origin.check_use(use)
        except PluginFailed as failed:  # a use that was not checked must not run
            return [attrs.evolve(failed.as_warning(), severity="error")]

    def upgrade(self, node: JSONObject) -> JSONObject | None:
        answers = (asked(partial(origin.upgrade, node), self._report) for origin in self.sources)
        return next((answer for answer in answers if answer is not None), None)

    def save(self, nodes: Mapping[str, JSONObject]) -> None:
        self._saved.save(nodes)

    def export(self) -> dict[str, JSON]:
        """Return the whole registry, the entries of every source, in the shape of `registry.json`."""
        nodes: dict[str, JSON] = {}
        for entry in self.entries():
            data = entry.to_dict()
            interface = cast("JSONObject", data["interface"])  # see `Interface.to_dict`
            data["interface"] = {"description": entry.description, **interface}
            nodes[str(data.pop("node"))] = data
        return {"schema_version": 1, "nodes": nodes}

    def refresh(self) -> None:
        index = self._opened()
        if self._semantic is None:
            return
        try:
            self._semantic.refresh(index)
        except PflowError as error:
            message = f"Discovery goes by words only: {error.message}"
            self._report(problem_of(error, message=message, severity="warning"))

    def close(self) -> None:
        with self._lock:
            index, self._index = self._index, None
        if index is not None:
            index.close()

    def plugin_of(self, node_type: str) -> Plugin | None:
        fitting = (it.plugin for it in self.sources if it.fits(node_type) and not it.plugin.own)
        return next(fitting, None)

    @shared_part
    def _semantic(self) -> SemanticSearch | None:
        from importlib.util import find_spec

        # Without the extra `[semantic]` nothing is imported.
        if find_spec("onnxruntime") is None:
            return None
        from pflow_mcp_plugin.host.registry.semantic_search import SemanticSearch

        return SemanticSearch(self._cache, self._setting, self._drawn)

    def _discovery(self) -> NodeDiscovery:
        from pflow_mcp_plugin.host.registry.discovery import NodeDiscovery

        semantic = self._semantic.discover if self._semantic else None
        return NodeDiscovery(self._opened(), self.find, self._setting, semantic)

    def _drawn(self) -> tuple[list[Sketch], bool]:
        lacking: list[Origin] = []
        return list(self._all(Origin.sketches, lacking)), not lacking

    def _opened(self) -> Index:
        self._saved.check()  # an existing index does not report which entries were left out of it
        fingerprint = self.fingerprint()
        with self._lock:
            index = self._index
            if index is None or not index.fits(fingerprint):
                # The previous one closes itself when the last thread that reads from it is done.
                self._index = index = open_index(self._cache, fingerprint, self._drawn)
            return index

    def _all(self, ask: Callable[[Origin], Iterable[_Drawn]], lacking: list[Origin]) -> Iterator[_Drawn]:
        owners: dict[str, Origin] = {}
        for origin in self.sources:
            try:
                entries = ask(origin)
            except PflowError as error:
                lacking.append(origin)
                message = f"The nodes of {origin.name} are left out: {error}"
                told = problem_of(error, message=message, severity="warning", source=origin.name)
                self._report(error.as_warning() if isinstance(error, PluginFailed) else told)
                continue
            for entry in entries:
                if not origin.fits(entry.node):
                    why = f"it begins with none of {', '.join(origin.prefixes)}"
                    message = f"Node type {entry.node} of {origin.name} is left out: {why}"
                    self._report(advice("", message, source=origin.name))
                elif entry.node not in owners:
                    owners[entry.node] = origin
                    yield entry
                elif owners[entry.node] is not origin:
                    self._overwritten(entry.node, owners[entry.node], origin)

    def _overwritten(self, node: str, by: Origin, origin: Origin) -> None:
        message = f"Node type {node} of {origin.name} is overwritten by that of {by.name}"
        self._report(Overwritten(message=message, severity="warning", kind="config", source=origin.name))
