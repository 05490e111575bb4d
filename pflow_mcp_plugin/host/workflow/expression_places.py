"""Where a workflow has expressions: in `when`, in the cases of a `branch`, and in a `transform`.

This module does not parse them, and does not import the expression language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.findings import at
from pflow_mcp_plugin.host.workflow.json_text import json_in
from pflow_mcp_plugin.host.workflow.workflow_document import EdgeSpec, NodeSpec

OWN = "pflow"
"""The source of the host's own nodes."""
EVALUATE = "__evaluate__"
"""The parameter in which a node gets the function that evaluates its expressions."""
CASES, EXPRESSION, OUTPUTS, DATA = "cases", "expression", "outputs", "data"
_PARAMS: Mapping[str, frozenset[str]] = {
    "branch": frozenset({CASES}),
    "transform": frozenset({EXPRESSION, OUTPUTS}),
}


@attrs.frozen(kw_only=True)
class ExpressionPlace:
    """An expression of a node.

    Attributes:
        text: The expression.
        path: Its JSON path.
        param: The parameter it is in, or `when`.
        output: The output that its value becomes, of a `transform`.
        is_condition: Whether its value only counts as true or false.
    """

    text: str
    path: str
    param: str
    output: str = ""
    is_condition: bool = False


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
    if node.when:
        yield ExpressionPlace(text=node.when, path=f"{node.path}.when", param="when", is_condition=True)
    yield from param_expressions(node, entry)


def edge_expression(edge: EdgeSpec) -> ExpressionPlace:
    """Return the expression that is the condition of an edge."""
    return ExpressionPlace(text=edge.when, path=f"{edge.path}.when", param="when", is_condition=True)


def param_expressions(node: NodeSpec, entry: Entry | None) -> Iterator[ExpressionPlace]:
    """Yield the expressions in a node's params; malformed ones are left out."""
    path = f"{node.path}.params"
    if is_branch(entry):
        for number, case in enumerate(cases_of(node.params)):
            text = case.get("when") if isinstance(case, Mapping) else None
            if isinstance(text, str):
                where = f"{path}.cases[{number}].when"
                yield ExpressionPlace(text=text, path=where, param=CASES, is_condition=True)
    elif is_transform(entry):
        text = node.params.get(EXPRESSION)
        if isinstance(text, str):
            yield ExpressionPlace(text=text, path=f"{path}.{EXPRESSION}", param=EXPRESSION, output="result")
        for name, text in outputs_of(node.params).items():
            if isinstance(text, str):
                where = at(f"{path}.{OUTPUTS}", name)
                yield ExpressionPlace(text=text, path=where, param=OUTPUTS, output=name)


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
