"""The edges of a workflow as a graph: order, reachability, endless loops, and the check of its routes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property, reduce
from operator import and_

import attrs

from pflow_mcp_plugin.contract import FAILURES, Entry, Interface
from pflow_mcp_plugin.host.workflow.findings import Findings, listing
from pflow_mcp_plugin.host.workflow.workflow_document import EdgeSpec, NodeSpec, WorkflowDocument, split_route
from pflow_mcp_plugin.host.workflow.workflow_reads import OWN, cases_of, own_type
from pflow_mcp_plugin.schemas.schema_reader import table_of
from pflow_mcp_plugin.terminal.similar_names import did_you_mean


@attrs.frozen(eq=False, repr=False)
class NodeSet(AbstractSet[str]):
    """A set of a graph's nodes, as the bits of an integer: even one for each of thousands of nodes is cheap.

    Bit n is set if the node at place n, by `positions`, is in the set.
    """

    positions: Mapping[str, int]
    bits: int

    def __contains__(self, node_id: object) -> bool:
        position = self.positions.get(node_id) if isinstance(node_id, str) else None
        return position is not None and bool(self.bits >> position & 1)

    def __iter__(self) -> Iterator[str]:
        return (node_id for node_id in self.positions if node_id in self)

    def __len__(self) -> int:
        return self.bits.bit_count()


def bits_of(places: Iterable[int]) -> int:
    """Return a set of places in the graph of a workflow as an integer with a bit for each."""
    # Not `bits |= 1 << place`: that copies the whole integer for each node.
    bits = bytearray()
    for place in places:
        bits.extend(bytes(max(0, place // 8 + 1 - len(bits))))
        bits[place // 8] |= 1 << place % 8
    return int.from_bytes(bits, "little")


def places_in(bits: int) -> Iterator[int]:
    """Yield the places in the graph of the nodes whose bits are set, in order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class Graph:
    """The graph of a workflow: for each node, the next ones by the `route` of the edge.

    A route is an action, with the condition of the edge if it has one. `start` is empty if the workflow has
    no valid start.
    """

    start: str
    successors: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, document: WorkflowDocument) -> Graph:
        successors: dict[str, dict[str, str]] = {node.id: {} for node in document.nodes}
        for edge in document.edges:
            if edge.source in successors and edge.target in successors:
                # If two edges are equal, the first counts; the route check reports the second.
                successors[edge.source].setdefault(edge.route, edge.target)
        start = document.start or next(iter(successors), "")
        return cls(start=start if start in successors else "", successors=successors)

    @cached_property
    def positions(self) -> dict[str, int]:
        return {node_id: place for place, node_id in enumerate(self.successors)}

    @cached_property
    def reachable(self) -> NodeSet:
        return self.set_of(self._order)

    def set_of(self, node_ids: Iterable[str]) -> NodeSet:
        return NodeSet(self.positions, bits_of(self.positions[node_id] for node_id in node_ids))

    def before(self, node_id: str) -> NodeSet:
        """Return the nodes that lead to `node_id` in the graph; in a loop, including itself."""
        return NodeSet(self.positions, self._before.get(node_id, 0))

    def may_miss(self, node_id: str, earlier: str) -> bool:
        """Whether a way through the graph to `node_id` leaves out another node that leads to it.

        Not if there is a fork between them on every way: it may be what makes sure that the other one ran.
        """
        always = self._always_before.get(node_id, 0)
        return not always & (1 << self.positions[earlier] | self._forks & self.after(earlier).bits)

    def after(self, node_id: str) -> NodeSet:
        """Return the nodes that `node_id` leads to in the graph; in a loop, including itself."""
        return NodeSet(self.positions, self._after.get(node_id, 0))

    def default_loops(self) -> list[tuple[str, ...]]:
        """Return the graph's endless loops: default edges among reachable nodes without a path to an end.

        A node without a default edge ends the flow when it takes its default action.
        """
        ends = [node_id for node_id in self._order if "default" not in self.successors[node_id]]
        trapped = set(self._order) - _spread(ends, self._sources)
        loops: list[tuple[str, ...]] = []
        known: set[str] = set()
        for node_id in sorted(trapped):  # sorted, as a set has no order of its own
            walked = self._walk(node_id, known)
            following = self.successors[walked[-1]].get("default") if walked else None
            if following in walked:
                loops.append(tuple(walked[walked.index(following) :]))
            known.update(walked)
        return loops

    def certain(self, branches: Collection[str] = ()) -> frozenset[str]:
        """Return the nodes of the graph that run if all take their default action, up to the first branch."""
        walked = self._walk(self.start) if self.start else []
        # A default edge with a condition may lead elsewhere.
        turning = (
            node_id
            for node_id in walked
            if any(
                action == "default" and when for action, when in map(split_route, self.successors[node_id])
            )
        )
        ends = {*branches, *turning}
        first = next((place for place, node_id in enumerate(walked) if node_id in ends), len(walked))
        return frozenset(walked[: first + 1])

    def actions(self, node_id: str) -> set[str]:
        return {split_route(route)[0] for route in self.successors[node_id]}

    def _walk(self, node_id: str, known: Collection[str] = ()) -> list[str]:
        """Follow the graph's default edges to an end, to a node already visited, or to one of `known`."""
        walked: dict[str, None] = {}
        following: str | None = node_id
        while following and following not in walked and following not in known:
            walked[following] = None
            following = self.successors[following].get("default")
        return list(walked)

    @cached_property
    def _sources(self) -> dict[str, list[str]]:
        sources: dict[str, list[str]] = {node_id: [] for node_id in self.successors}
        for node_id in self._order:
            for target in self.successors[node_id].values():
                sources[target].append(node_id)
        return sources

    @cached_property
    def _order(self) -> list[str]:
        """The reachable nodes in the graph's topological order, edges that close a loop ignored."""
        if not self.start:
            return []
        done: list[str] = []
        seen = {self.start}
        # An explicit stack, as a chain of thousands of nodes would exceed Python's recursion limit.
        ways = [(self.start, iter(self.successors[self.start].values()))]
        while ways:
            node_id, targets = ways[-1]
            fresh = next((target for target in targets if target not in seen), None)
            if fresh is None:
                done.append(node_id)
                ways.pop()
            else:
                seen.add(fresh)
                ways.append((fresh, iter(self.successors[fresh].values())))
        return done[::-1]  # a node is done after every node that it leads to

    @cached_property
    def _loops(self) -> list[set[str]]:
        """The nodes in topological order; those that lead to each other are one set (Kosaraju)."""
        joined: list[set[str]] = []
        placed: set[str] = set()
        for node_id in self._order:
            if node_id not in placed:
                joined.append(_spread([node_id], self._sources, placed))
                placed |= joined[-1]
        return joined

    @cached_property
    def _before(self) -> dict[str, int]:
        return self._spans(self._loops, self._sources)

    @cached_property
    def _forks(self) -> int:
        return bits_of(place for place, routes in enumerate(self.successors.values()) if len(routes) > 1)

    @cached_property
    def _always_before(self) -> dict[str, int]:
        """The nodes of the graph on every way to each; in a loop with two ways in, some more."""
        found: dict[str, int] = {}
        for node_id in self._order:
            ways = [found[it] | 1 << self.positions[it] for it in self._sources[node_id] if it in found]
            found[node_id] = reduce(and_, ways) if ways else 0
        return found

    @cached_property
    def _after(self) -> dict[str, int]:
        targets = {node_id: list(self.successors[node_id].values()) for node_id in self._order}
        return self._spans(reversed(self._loops), targets)

    def _spans(self, loops: Iterable[set[str]], neighbours: Mapping[str, Collection[str]]) -> dict[str, int]:
        # Loops that `neighbours` lead to come before those that lead to them.
        spans: dict[str, int] = {}
        for joined in loops:
            beside = {neighbour for member in joined for neighbour in neighbours[member]}
            bits = self.set_of(beside).bits
            for neighbour in beside - joined:
                bits |= spans[neighbour]
            if not beside.isdisjoint(joined):
                bits |= self.set_of(joined).bits
            # Nodes that lead to each other have the same bits.
            spans.update(dict.fromkeys(joined, bits))
        return spans


def _spread(
    first: Iterable[str], neighbours: Mapping[str, Iterable[str]], beyond: Collection[str] = ()
) -> set[str]:
    """Return `first` and all nodes of the graph reachable from it without passing through `beyond`."""
    seen = set(first)
    waiting = list(seen)
    while waiting:
        for neighbour in neighbours[waiting.pop()]:
            if neighbour not in seen and neighbour not in beyond:
                seen.add(neighbour)
                waiting.append(neighbour)
    return seen


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RouteCheck:
    """Checks the routes through the graph of a workflow: its edges, start and loops.

    `entries` has the entry of each node, by its id, as later nodes see it; None for an unknown type.
    """

    document: WorkflowDocument
    graph: Graph
    nodes: Mapping[str, NodeSpec]
    entries: Mapping[str, Entry | None]
    findings: Findings

    def run(self) -> None:
        self._check_edges()
        self._check_cases()
        start = self.document.start
        if start and start not in self.nodes:
            self.unknown_node("$.start_node", f"start_node names unknown node {start}", start)
            return
        reachable = self.graph.reachable
        for node in self.nodes.values():
            if node.id not in reachable:
                message = f"Node {node.id} is never reached from {self.graph.start}"
                self.findings.warning(node.path, message, "Add an edge to it, or remove it")
        for loop in self.graph.default_loops():
            # A node may end the flow with an action that no edge takes. In a loop, the default action has an
            # edge in a loop, and a failure that no edge takes fails the run.
            may_end = any(
                (entry := self.entries[node_id]) is None
                or set(entry.interface.actions) - {"default"} - FAILURES - self.graph.actions(node_id)
                for node_id in loop
            )
            self.findings.add(
                self.nodes[loop[0]].path,
                f"The loop {' -> '.join((*loop, loop[0]))} has no way out",
                "Add an edge that leaves it",
                severity="warning" if may_end else "error",
            )

    def unknown_node(self, path: str, message: str, node_id: str) -> None:
        hint = did_you_mean(node_id, self.nodes, f"The nodes are {listing(self.nodes)}")
        self.findings.error(path, message, hint)

    def _check_edges(self) -> None:
        taken: dict[tuple[str, str], str] = {}
        for edge in self.document.edges:
            for key, node_id in (("from", edge.source), ("to", edge.target)):
                if node_id not in self.nodes:
                    self.unknown_node(f"{edge.path}.{key}", f"Edge {key} unknown node {node_id}", node_id)
            other = taken.setdefault((edge.source, edge.route), edge.path)
            if other != edge.path:
                message = f"Node {edge.source} already has an edge for action {edge.route}, {other}"
                self.findings.error(edge.path, message, "Remove one, or give it another action")
            self._check_action(edge)

    def _check_action(self, edge: EdgeSpec) -> None:
        node = self.nodes.get(edge.source)
        entry = self.entries[node.id] if node else None
        if node is None or entry is None:
            return
        known = {"default", *FAILURES, *entry.interface.actions}
        if edge.action in known:
            return
        step = did_you_mean(edge.action, known, f"It takes {listing(entry.interface.actions)}")
        path = f"{edge.path}.action"
        if entry.source == OWN or entry.interface.actions != Interface().actions:
            message = f"Node {node.id} ({node.type}) never takes the action {edge.action}"
            self.findings.error(path, message, step)
        else:  # perhaps its author did not think of actions
            message = f"Node {node.id} ({node.type}) does not declare the action {edge.action}"
            self.findings.warning(path, message, step)

    def _check_cases(self) -> None:
        for node in self.nodes.values():
            if own_type(self.entries[node.id]) != "branch":
                continue
            routed = self.graph.actions(node.id)
            for number, case in enumerate(cases_of(node.params)):
                action = table_of(case).get("action")
                if isinstance(action, str) and action not in {*routed, *FAILURES, "", "default"}:
                    message = f"No edge takes the case {action} of node {node.id}: the run would end there"
                    step = f'Add {{"from": "{node.id}", "to": ..., "action": "{action}"}}'
                    self.findings.warning(f"{node.path}.params.cases[{number}].action", message, step)
