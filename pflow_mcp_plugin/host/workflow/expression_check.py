"""Checks the expressions of a node: their syntax, the values they name, and types that never fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import attrs

from pflow_mcp_plugin.contract import FAILURES, Entry, Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.constructs import ExpressionPlace
from pflow_mcp_plugin.host.workflow.expression_places import (
    CASES,
    DATA,
    EXPRESSION,
    OUTPUTS,
    cases_of,
    is_branch,
    is_transform,
    outputs_of,
    param_expressions,
)
from pflow_mcp_plugin.host.workflow.expressions import parsed
from pflow_mcp_plugin.host.workflow.expressions.shapes import Path, Reading, Shape, is_always_true
from pflow_mcp_plugin.host.workflow.findings import Findings, at, cut, shown
from pflow_mcp_plugin.host.workflow.reference_check import ReferenceCheck
from pflow_mcp_plugin.host.workflow.scope import Scope
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, lone
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ExpressionCheck:
    """Checks the expressions of one node.

    Attributes:
        node: The node.
        entry: Its entry, None if its type is unknown.
        references: Checks what they name.
        findings: Collects the problems.
    """

    node: NodeSpec
    entry: Entry | None
    references: ReferenceCheck
    findings: Findings

    def check_condition(self, place: ExpressionPlace) -> None:
        """Check the condition of the node, or of one of its edges."""
        self._check(place)

    def check_params(self) -> None:
        """Check the expressions in the node's params, and the params around them."""
        if is_branch(self.entry):
            self._check_cases()
        elif is_transform(self.entry):
            self._check_outputs()
        for place in param_expressions(self.node, self.entry):
            self._check(place)

    def _check_cases(self) -> None:
        path = f"{self.node.path}.params.{CASES}"
        if self.node.constructs.batch:
            step = "Filter the items with a transform, and give several nodes a batch each"
            self.findings.error(self.node.constructs.batch.path, "A branch cannot have a batch", step)
        if CASES in self.node.params and not cases_of(self.node.params):
            step = 'Write [{"when": "count > 3", "action": "many"}]'
            self.findings.error(path, f"Node {self.node.id} has no cases", step)
        known: dict[str, int] = {}
        for number, case in enumerate(cases_of(self.node.params)):
            self._check_case(case, f"{path}[{number}]")
            self._check_order(case, f"{path}[{number}]", known, number)

    def _check_order(self, case: JSON, path: str, known: dict[str, int], number: int) -> None:
        """Warn of a case behind one that is always true, or has the same condition."""
        when = case.get("when") if isinstance(case, Mapping) else None
        if not isinstance(when, str):
            return
        before = known.get(when.strip(), known.get("true"))
        if before is not None:
            message = f"The case is never taken: cases[{before}] holds wherever it does"
            self.findings.warning(f"{path}.when", message, "Remove it, or put it first")
        known.setdefault(when.strip(), number)

    def _check_case(self, case: JSON, path: str) -> None:
        if not isinstance(case, Mapping):
            step = 'Write {"when": "count > 3", "action": "many"}'
            self.findings.error(path, f"Expected an object, found {shown(case)}", step)
            return
        for key in ("when", "action"):
            if not isinstance(case.get(key), str) or not case[key]:
                where = at(path, key) if key in case else path
                found = f"must be a string, found {shown(case[key])}" if key in case else "is missing"
                self.findings.error(where, f"{key} {found}", f"Fill in {key}")
        for key in case.keys() - {"when", "action"}:
            self.findings.error(at(path, str(key)), f"Unknown key {key}", "A case has when and action")
        if case.get("action") in FAILURES:
            message = f"The action {case['action']} is reserved for failed nodes"
            self.findings.error(f"{path}.action", message, "Give the case another name")

    def _check_outputs(self) -> None:
        path = f"{self.node.path}.params"
        if EXPRESSION not in self.node.params and OUTPUTS not in self.node.params:
            message = f"Node {self.node.id} has no expression"
            self.findings.error(path, message, "Set expression, or outputs: an expression for each name")
        for name, text in outputs_of(self.node.params).items():
            where = at(f"{path}.{OUTPUTS}", name)
            if not isinstance(text, str):
                self.findings.error(where, f"Expected an expression, found {shown(text)}", 'Write "..."')
            if name == "error" or is_reserved(name):
                self.findings.error(where, f"The output name {name} is reserved", "Choose another name")

    def _check(self, place: ExpressionPlace) -> None:
        try:
            expression = parsed(place.text)
        except PflowError as error:
            self.findings.error(place.path, error.message, next(iter(error.suggestions), ""))
            return
        scope = self.references.scope
        current = self._data(scope) if place.on_data else None
        reading = Reading.of(expression, partial(_declared, scope), current)
        for path in reading.longest_paths:
            self._check_path(path, reading, place)
        for message, step in dict.fromkeys(reading.mistakes):
            self.findings.error(place.path, f"In {cut(place.text)!r}, {message}", step)
        for name in expression.syntax.quoted:
            message = f'In {cut(place.text)!r}, "{name}" is the name of a value'
            self.findings.warning(place.path, message, f"Write '{name}' for the string")
        if place.is_condition and is_always_true(reading.result_types):
            message = f"The condition {cut(place.text)!r} is a number, so it is always true"
            self.findings.error(place.path, message, f"Compare it, as in {cut(place.text)} > 0")

    def _data(self, scope: Scope) -> Shape:
        """Return what is known of the parameter `data`, which has been checked as any other."""
        reference = lone(self.node.params[DATA])
        known = reference is not None and scope.declared(reference) is not None
        return Shape(path=reference.path) if reference and known else Shape()

    def _check_path(self, path: Path, reading: Reading, place: ExpressionPlace) -> None:
        scope, name = self.references.scope, str(path[0])
        is_known = name in scope.roots or name in scope.earlier or name in self.references.node_ids
        if len(path) == 1 and name in reading.compared and not is_known and not scope.uncertain:
            message = f"In {cut(place.text)!r}, {name} is not the name of a value"
            self.findings.error(place.path, message, f"Write '{name}' if the string is meant")
            return
        self.references.check_reference(TemplateReference(_spelled(path), path), place.path)


def _declared(scope: Scope, path: Path) -> Field | None:
    return scope.declared(TemplateReference("", path))


def _spelled(path: Path) -> str:
    return "".join(_steps(path))


def _steps(path: Path) -> Iterator[str]:
    for number, step in enumerate(path):
        if isinstance(step, int):
            yield f"[{step}]"
        else:
            yield f".{step}" if number else step
