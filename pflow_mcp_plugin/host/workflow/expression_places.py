"""Where a workflow has expressions, what they read, and what those of a `transform` make.

They are in the constructs of nodes, in conditions of edges, in the cases of a `branch`, and in a `transform`.
The expression language is imported only where there is one to parse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Entry, Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.coercion import json_in
from pflow_mcp_plugin.host.workflow.constructs import ExpressionPlace, Path
from pflow_mcp_plugin.host.workflow.findings import at
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument

OWN = "pflow"
"""The source of the host's own nodes."""
EVALUATE = "__evaluate__"
"""The parameter in which a node gets the function that evaluates its expressions."""
CASES, EXPRESSION, OUTPUTS, DATA = "cases", "expression", "outputs", "data"
_PARAMS: Mapping[str, frozenset[str]] = {
    "branch": frozenset({CASES}),
    "transform": frozenset({EXPRESSION, OUTPUTS}),
}


def is_branch(entry: Entry | None) -> bool:
    """Return whether an entry is the one of nodes whose actions are their cases, which have expressions."""
    return entry is not None and entry.source == OWN and entry.node == "branch"


def is_transform(entry: Entry | None) -> bool:
    """Return whether an entry is the one of nodes whose outputs are expressions."""
    return entry is not None and entry.source == OWN and entry.node == "transform"


def expression_params(entry: Entry | None) -> frozenset[str]:
    """Return the parameters of a node whose strings are expressions; templates in them are not resolved."""
    return _PARAMS.get(entry.node, frozenset()) if entry is not None and entry.source == OWN else frozenset()


def expressions_in(node: NodeSpec, entry: Entry | None) -> Iterator[ExpressionPlace]:
    """Yield the expressions of a node; malformed ones are left out."""
    yield from node.constructs.conditions()
    yield from param_expressions(node, entry)


def every_expression(
    document: WorkflowDocument, entries: Mapping[str, Entry | None]
) -> Iterator[ExpressionPlace]:
    """Yield the expressions of a whole workflow."""
    for node in document.nodes:
        yield from expressions_in(node, entries.get(node.entry_key))
    for edge in document.edges:
        yield from edge.conditions()


def param_expressions(node: NodeSpec, entry: Entry | None) -> Iterator[ExpressionPlace]:
    """Yield the expressions in a node's params; malformed ones are left out."""
    path, on_data = f"{node.path}.params", DATA in node.params
    if is_branch(entry):
        for number, case in enumerate(cases_of(node.params)):
            text = case.get("when") if isinstance(case, Mapping) else None
            if isinstance(text, str):
                where = f"{path}.cases[{number}].when"
                yield ExpressionPlace(text=text, path=where, param=CASES, is_condition=True, on_data=on_data)
    elif is_transform(entry):
        text = node.params.get(EXPRESSION)
        if isinstance(text, str):
            where = f"{path}.{EXPRESSION}"
            yield ExpressionPlace(text=text, path=where, param=EXPRESSION, output="result", on_data=on_data)
        for name, text in outputs_of(node.params).items():
            if isinstance(text, str):
                where = at(f"{path}.{OUTPUTS}", name)
                yield ExpressionPlace(text=text, path=where, param=OUTPUTS, output=name, on_data=on_data)


def cases_of(params: Mapping[str, Any]) -> list[JSON]:
    """Return the cases of a branch, whose conditions are expressions; an empty list if there are none."""
    found = _structured(params.get(CASES))
    return list(found) if isinstance(found, list) else []


def outputs_of(params: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the named expressions of a transform, by output."""
    found = _structured(params.get(OUTPUTS))
    return {str(name): text for name, text in found.items()} if isinstance(found, dict) else {}


def _structured(value: Any) -> Any:
    return json_in(value) if isinstance(value, str) else value


def actions_of(node: NodeSpec) -> tuple[str, ...]:
    """Return the actions that a branch can take by its expressions: its cases, then `default`."""
    cases = (case.get("action") for case in cases_of(node.params) if isinstance(case, Mapping))
    return tuple(dict.fromkeys([*(name for name in cases if isinstance(name, str)), "default", "error"]))


def expression_reads(
    places: Iterable[ExpressionPlace], everything: Iterable[str]
) -> Iterator[tuple[str, Path]]:
    """Yield the paths that expressions read, each with its parameter; a malformed one reads nothing."""
    for place in places:
        from pflow_mcp_plugin.host.workflow.expressions import parsed
        from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading, Shape

        try:
            expression = parsed(place.text)
        except PflowError:
            continue
        reading = Reading.of(expression, current=Shape() if place.on_data else None)
        if reading.everything:
            yield from ((place.param, (name,)) for name in everything)
        yield from ((place.param, path) for path in reading.longest_paths)


def transform_outputs(node: NodeSpec, entry: Entry) -> tuple[Field, ...]:
    """Return the outputs of a transform: `result` of its expression, and those it names itself."""
    return tuple(_output(place) for place in param_expressions(node, entry))


def _output(place: ExpressionPlace) -> Field:
    from pflow_mcp_plugin.host.workflow.expressions import parsed
    from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading

    try:
        field = Reading.of(parsed(place.text)).result.field(place.output)
    except PflowError:  # the check reports it
        field = Field(key=place.output)
    return attrs.evolve(field, description=place.text)
