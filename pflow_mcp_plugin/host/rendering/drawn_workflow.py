"""A workflow as drawings show it, including the workflows that are written in its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.host.workflow.document_reader import read_document
from pflow_mcp_plugin.host.workflow.findings import Findings, listing, refusal
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.workflow_document import Upgrade, WorkflowDocument, normalise
from pflow_mcp_plugin.terminal.similar_names import did_you_mean


@attrs.frozen(kw_only=True)
class DrawnWorkflow:
    """A workflow as every drawing shows it.

    `inside` are the workflows that are written in its nodes, by node id. Workflows that nodes name are drawn
    as boxes, and so are malformed ones.
    """

    document: WorkflowDocument
    graph: Graph
    inside: Mapping[str, DrawnWorkflow] = attrs.field(factory=dict)

    @classmethod
    def read(cls, workflow: JSON, name: str, upgrade: Upgrade) -> DrawnWorkflow:
        """Read a workflow to draw, with those inside; `upgrade` rewrites nodes of older shapes.

        It must be well-formed, with a valid start, else the error lists what is wrong in the workflow `name`.
        Node types may be unknown.
        """
        findings = Findings()
        document = read_document(normalise(workflow, upgrade), findings)
        ids = [node.id for node in document.nodes]
        if document.start and document.start not in ids:
            hint = did_you_mean(document.start, ids, f"The nodes are {listing(ids)}")
            findings.error("$.start_node", f"start_node names unknown node {document.start}", hint)
        if errors := errors_in(findings.problems):
            raise refusal(name, errors)
        inside = {}
        for node in document.nodes:
            if isinstance(node.runs, Mapping):
                with suppress(PflowError):
                    inside[node.id] = cls.read(node.runs, node.id, upgrade)
        return cls(document=document, graph=Graph.of(document), inside=inside)

    def every(self, above: str = "") -> Iterator[tuple[str, DrawnWorkflow]]:
        """Yield the drawn workflows inside, however deep, each with the ids of the nodes that lead to it."""
        for node_id, inner in self.inside.items():
            yield f"{above}{node_id}", inner
            yield from inner.every(f"{above}{node_id}/")
