"""A workflow as a Mermaid flowchart."""

from __future__ import annotations

from pflow_mcp_plugin.contract.printable_text import printable
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument

# Characters that end a quoted label, begin markup in it, or begin an entity.
_ENTITIES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "\n": " "})


def mermaid(document: WorkflowDocument, graph: Graph) -> str:
    """Return a Mermaid flowchart; its nodes are `n0`, `n1`... since ids can be Mermaid keywords."""
    names = {node.id: f"n{index}" for index, node in enumerate(document.nodes)}
    lines = ["flowchart TD"]
    if graph.start:
        lines.append(f"    start(( )) --> {names[graph.start]}")
    lines += [f"    {names[node.id]}{_box(node)}" for node in document.nodes]
    for source, routes in graph.successors.items():
        for action, target in routes.items():
            label = "" if action == "default" else f'|"{_escaped(action)}"|'
            lines.append(f"    {names[source]} -->{label} {names[target]}")
    return "\n".join(lines)


def _box(node: NodeSpec) -> str:
    label = _escaped(node.id) if node.id == node.type else f"{_escaped(node.id)}<br>{_escaped(node.type)}"
    return f'[["{label}<br>for each item"]]' if node.batch else f'["{label}"]'


def _escaped(text: str) -> str:
    return printable(text).translate(_ENTITIES)
