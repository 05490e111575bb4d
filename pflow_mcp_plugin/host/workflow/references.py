"""Checking that every template names something that is there when it is needed."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Literal

import attrs

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.workflow.coercion import type_name
from pflow_mcp_plugin.host.workflow.findings import Findings, did_you_mean, listing
from pflow_mcp_plugin.host.workflow.scope import Scope, output_field
from pflow_mcp_plugin.host.workflow.templates import Malformed, Reference, references

_SCALARS = frozenset({"str", "int", "float", "bool", "None"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReferenceCheck:
    """Checks the templates of one place.

    Attributes:
        scope: What it can refer to.
        node_ids: Every node of the workflow.
        user: Who refers, for messages: `node fetch`, `output summary`.
        severity: `warning` where templates are left as text when they lead nowhere.
        findings: Where problems are put.
    """

    scope: Scope
    node_ids: Container[str]
    user: str
    severity: Literal["error", "warning"]
    findings: Findings

    def check(self, value: Any, path: str) -> None:
        """Check every template in a value that stands at `path`."""
        for where, part in references(value, path):
            if isinstance(part, Malformed):
                message = f"{part.text} in {self.user} is not a template"
                self._add(where, message, "Write ${name.key}, or $${ for a literal ${")
            else:
                self.check_reference(part, where)

    def check_reference(self, reference: Reference, path: str) -> None:
        """Check one template that stands at `path`."""
        root = reference.root
        if root in self.scope.roots:
            self._check_inside(reference, self.scope.roots[root], 1, path)
        elif root in self.scope.earlier:
            self._check_output(reference, self.scope.earlier[root], path)
        elif root in self.node_ids:
            message = f"{reference.text} names node {root}, which does not run before {self.user}"
            self._add(path, message, "Refer to an earlier node, or add an edge")
        elif not self.scope.uncertain:
            self._add(
                path, f"{reference.text} in {self.user} names nothing that is there", self._nearest(root)
            )

    def _nearest(self, root: str) -> str:
        holders = self.scope.holders(root)
        if holders:
            return f"Did you mean ${{{holders[-1]}.{root}}}?"
        known = [*self.scope.roots, *self.scope.earlier]
        step = f"It can name {listing(known)}" if known else f"Declare {root} under inputs"
        return did_you_mean(root, known, f"{step}; write $${{ for a literal ${{")

    def _check_output(self, reference: Reference, entry: Entry | None, path: str) -> None:
        if entry is None or len(reference.path) == 1:
            return
        key = str(reference.path[1])
        field = output_field(entry, key)
        if field:
            self._check_inside(reference, field, 2, path)
            return
        outputs = [known.key for known in entry.interface.outputs]
        message = f"{reference.text}: node {reference.root} ({entry.node}) has no output {key}"
        self._add(path, message, did_you_mean(key, outputs, f"It has {listing(outputs)}"))

    def _check_inside(self, reference: Reference, field: Field, used: int, path: str) -> None:
        rest = reference.path[used:]
        if not rest:
            return
        if {type_name(name) for name in field.types} <= _SCALARS:
            message = f"{reference.text}: {field.key} is {field.type} and holds nothing inside"
            self._add(path, message, "Refer to it as a whole")
            return
        stray = _stray(field.schema, rest)
        if stray:
            name, known = stray
            message = f"{reference.text}: the schema of {field.key} names no {name}"
            self.findings.warning(path, message, did_you_mean(name, known, f"It names {listing(known)}"))

    def _add(self, path: str, message: str, suggestion: str) -> None:
        self.findings.add(path, message, suggestion, severity=self.severity)


def _stray(schema: Any, rest: Sequence[str | int]) -> tuple[str, list[str]] | None:
    """Return the first step that a schema does not name, with the names it has there."""
    for step in rest:
        if not isinstance(schema, Mapping):
            return None
        properties = schema.get("properties")
        if isinstance(step, int):
            schema = schema.get("items")
        elif isinstance(properties, Mapping) and properties:
            if step not in properties:
                return (
                    None if schema.get("additionalProperties") else (step, [str(name) for name in properties])
                )
            schema = properties[step]
        else:
            return None
    return None
