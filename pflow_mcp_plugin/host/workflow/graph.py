"""The edges of a workflow as a graph: what runs before what, what never runs, what never ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import attrs

from pflow_mcp_plugin.host.workflow.document import Document


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class Graph:
    """Where each node leads.

    Attributes:
        start: The id of the first node, empty if there is none.
        successors: For each node id, the next node's id by action.
    """

    start: str
    successors: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, document: Document) -> Graph:
        """Build from a workflow; edges from or to unknown nodes are left out."""
        successors: dict[str, dict[str, str]] = {node.id: {} for node in document.nodes}
        for edge in document.edges:
            if edge.source in successors and edge.target in successors:
                successors[edge.source].setdefault(edge.action, edge.target)
        start = document.start or next(iter(successors), "")
        return cls(start=start if start in successors else "", successors=successors)

    @cached_property
    def reachable(self) -> set[str]:
        """The nodes that some way leads to from the start."""
        targets = {node_id: list(routes.values()) for node_id, routes in self.successors.items()}
        return _spread([self.start] if self.start else [], targets)

    def before(self, node_id: str) -> set[str]:
        """Return the nodes that can have run when `node_id` runs; in a loop, itself among them."""
        return _spread(self._sources[node_id], self._sources) & self.reachable

    def trapped(self) -> set[str]:
        """Return the reachable nodes from which no way leads to an end.

        A node without a default edge ends the flow when it takes its default action.
        """
        ends = [node_id for node_id, routes in self.successors.items() if "default" not in routes]
        return self.reachable - _spread(ends, self._sources)

    def default_loop(self, node_id: str) -> tuple[str, ...]:
        """Return the loop that default edges lead into from a node; empty if they lead to an end."""
        walked = self._walk(node_id)
        following = self.successors[walked[-1]].get("default")
        return tuple(walked[walked.index(following) :]) if following else ()

    def certain(self) -> frozenset[str]:
        """Return the nodes that run whenever every node takes its default action."""
        return frozenset(self._walk(self.start)) if self.start else frozenset()

    def _walk(self, node_id: str) -> list[str]:
        walked = dict.fromkeys([node_id])
        following = self.successors[node_id].get("default")
        while following and following not in walked:
            walked[following] = None
            following = self.successors[following].get("default")
        return list(walked)

    @cached_property
    def _sources(self) -> dict[str, list[str]]:
        sources: dict[str, list[str]] = {node_id: [] for node_id in self.successors}
        for node_id, routes in self.successors.items():
            for target in routes.values():
                sources[target].append(node_id)
        return sources


def _spread(first: Iterable[str], neighbours: Mapping[str, Iterable[str]]) -> set[str]:
    seen = set(first)
    waiting = list(seen)
    while waiting:
        fresh = set(neighbours[waiting.pop()]) - seen
        seen |= fresh
        waiting.extend(fresh)
    return seen
