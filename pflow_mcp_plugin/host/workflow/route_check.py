"""Checks of the routes through a workflow: edges, unreachable nodes, endless loops."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pflow_mcp_plugin.contract import FAILURES, Entry, Interface
from pflow_mcp_plugin.host.workflow.expression_places import OWN, cases_of, is_branch
from pflow_mcp_plugin.host.workflow.findings import Findings, did_you_mean, listing
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.scope import effective_entry
from pflow_mcp_plugin.host.workflow.workflow_document import EdgeSpec, NodeSpec, WorkflowDocument

_CLOSE = 0.75
"""The similarity to a known action from which an edge's action counts as misspelt."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RouteCheck:
    """Checks the routes through a workflow: its edges, start and loops.

    Attributes:
        document: The workflow.
        graph: Its edges.
        nodes: The nodes by id.
        entries: The entry of each node type, None for an unknown one.
        findings: Collects the problems.
    """

    document: WorkflowDocument
    graph: Graph
    nodes: Mapping[str, NodeSpec]
    entries: Mapping[str, Entry | None]
    findings: Findings

    def run(self) -> None:
        """Check the start node, every edge and every loop."""
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
        self._check_loops()

    def unknown_node(self, path: str, message: str, node_id: str) -> None:
        """Report that a route, its start or a mapping names an unknown node."""
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
        entry = effective_entry(node, self.entries) if node else None
        if node is None or entry is None:
            return
        known = {"default", *FAILURES, *entry.interface.actions}
        if edge.action in known:
            return
        hint = did_you_mean(edge.action, known, cutoff=_CLOSE)
        # A node that declares no actions may return any; a misspelt one is still reported.
        declared = entry.source == OWN or entry.interface.actions != Interface().actions
        if declared or hint:
            message = f"Node {node.id} ({node.type}) never takes the action {edge.action}"
            step = hint or f"It takes {listing(entry.interface.actions)}"
            # One that declares none may yet return it.
            report = self.findings.error if declared else self.findings.warning
            report(f"{edge.path}.action", message, step)

    def _check_cases(self) -> None:
        for node in self.nodes.values():
            if not is_branch(self.entries[node.entry_key]):
                continue
            routed = self.graph.actions(node.id)
            for number, case in enumerate(cases_of(node.params)):
                action = case.get("action") if isinstance(case, Mapping) else None
                if isinstance(action, str) and action not in {*routed, *FAILURES, "", "default"}:
                    message = f"No edge takes the case {action} of node {node.id}: the run would end there"
                    step = f'Add {{"from": "{node.id}", "to": ..., "action": "{action}"}}'
                    self.findings.warning(f"{node.path}.params.cases[{number}].action", message, step)

    def _check_loops(self) -> None:
        for loop in self.graph.default_loops():
            self.findings.add(
                self.nodes[loop[0]].path,
                f"The loop {' -> '.join((*loop, loop[0]))} has no way out",
                "Add an edge that leaves it",
                severity="warning" if any(map(self._may_end, loop)) else "error",
            )

    def _may_end(self, node_id: str) -> bool:
        """Return whether a node may end the flow by an action of its own that no edge takes."""
        entry = effective_entry(self.nodes[node_id], self.entries)
        routed = self.graph.actions(node_id)
        # The default action has an edge in a loop, and a failure that no edge takes fails the run.
        return entry is None or bool(set(entry.interface.actions) - {"default"} - FAILURES - routed)
