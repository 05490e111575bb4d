"""A workflow as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
from pflow_mcp_plugin.host.trace_files import shown_type
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec
from pflow_mcp_plugin.terminal.looks import printable

# Characters that end a quoted label, begin markup in it, or begin an entity.
_ENTITIES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "\n": " "})


def mermaid(drawn: DrawnWorkflow) -> str:
    """Return a Mermaid flowchart; its nodes are `n0`, `n1`... since ids can be Mermaid keywords.

    A node with a workflow written in it is a subgraph of that workflow's nodes.
    """
    lines = ["flowchart TD"]
    if drawn.graph.start:
        lines.append(f"    start(( )) --> {_names(drawn, '')[drawn.graph.start]}")
    return "\n".join([*lines, *_lines(drawn, "", "    ")])


def _names(drawn: DrawnWorkflow, above: str) -> dict[str, str]:
    return {node.id: f"{above}n{index}" for index, node in enumerate(drawn.document.nodes)}


def _lines(drawn: DrawnWorkflow, above: str, indent: str) -> Iterator[str]:
    names = _names(drawn, above)
    for node in drawn.document.nodes:
        inner, name = drawn.inside.get(node.id), f"{indent}{names[node.id]}"
        if inner is not None:
            yield f'{indent}subgraph {names[node.id]}["{_label(node)}"]'
            yield from _lines(inner, names[node.id], f"{indent}    ")
            yield f"{indent}end"
        elif node.type == "branch":
            yield f'{name}{{"{_label(node)}"}}'
        else:
            yield f'{name}[["{_label(node)}"]]' if node.constructs.repeats else f'{name}["{_label(node)}"]'
    for source, routes in drawn.graph.successors.items():
        for action, target in routes.items():
            label = "" if action == "default" else f'|"{_escaped(action.removeprefix("default "))}"|'
            yield f"{indent}{names[source]} -->{label} {names[target]}"


def _label(node: NodeSpec) -> str:
    kind = shown_type(node.type)
    label = _escaped(node.id) if node.id == kind else f"{_escaped(node.id)}<br>{_escaped(kind)}"
    return "<br>".join([label, *map(_escaped, node.constructs.words())])


def _escaped(text: str) -> str:
    return printable(text).translate(_ENTITIES)
