"""A workflow as drawings show it, including the workflows that are written in its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.host.workflow.document_reader import read_document
from pflow_mcp_plugin.host.workflow.findings import Findings, TooManyProblems
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.workflow_document import Upgrade, WorkflowDocument, normalise


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
    def of(cls, document: WorkflowDocument, upgrade: Upgrade | None = None) -> DrawnWorkflow:
        """Make a workflow ready to be drawn, with those inside; `upgrade` rewrites nodes of older shapes."""
        written = {node.id: node.runs for node in document.nodes if isinstance(node.runs, Mapping)}
        found = {node_id: _sound_document(workflow, upgrade) for node_id, workflow in written.items()}
        inside = {node_id: cls.of(inner, upgrade) for node_id, inner in found.items() if inner}
        return cls(document=document, graph=Graph.of(document), inside=inside)

    def every(self, above: str = "") -> Iterator[tuple[str, DrawnWorkflow]]:
        """Yield the drawn workflows inside, however deep, each with the ids of the nodes that lead to it."""
        for node_id, inner in self.inside.items():
            yield f"{above}{node_id}", inner
            yield from inner.every(f"{above}{node_id}/")


def _sound_document(workflow: JSONObject, upgrade: Upgrade | None) -> WorkflowDocument | None:
    findings = Findings()
    try:
        document = read_document(normalise(workflow, upgrade), findings)
    except TooManyProblems:
        return None
    is_started = not document.start or document.start in {node.id for node in document.nodes}
    return document if is_started and not errors_in(findings.problems) else None
