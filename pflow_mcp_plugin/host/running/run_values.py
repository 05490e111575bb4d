"""The values of a run that templates can read: inputs, and what nodes have written so far."""

from __future__ import annotations

from typing import Any

import attrs

from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.templates import MissingValue, TemplateReference, follow, lone, parse_path
from pflow_mcp_plugin.host.workflow.workflow_document import WorkflowDocument


@attrs.frozen(eq=False, repr=False)
class Values:
    """The values of one run, as its templates read them.

    Attributes:
        document: The workflow.
        root: The root of the shared store.
        written: What each node wrote when it last ran, by node id; that which ran last is the last.
        skipped: The nodes that were skipped when it was last their turn.
    """

    document: WorkflowDocument
    root: dict[str, Any]
    written: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    skipped: set[str] = attrs.field(factory=set)

    def note(self, node_id: str, written: dict[str, Any]) -> None:
        """Add to the values of the run what a node has written."""
        self.written.pop(node_id, None)
        self.written[node_id] = written

    def lookup(self, reference: TemplateReference) -> Any:
        """Return the run's value for a template.

        Raises:
            MissingValue: It has no value; names what is available.
        """
        name = reference.root
        if name in self.root and not is_reserved(name):
            return follow(self.root[name], reference.path[1:], name)
        if name in self.written:
            return follow(self.written[name], reference.path[1:], name)
        raise MissingValue("", self.names())

    def find(self, name: str) -> Any:
        """Return the run's value for a mapped name: of a key of the root, else of a path.

        Raises:
            LookupError: It has no value.
        """
        if name in self.root:
            return self.root[name]
        path = parse_path(name)
        if path is None:
            raise MissingValue("", self.names())
        return self.lookup(TemplateReference(name, path))

    def everything(self) -> dict[str, Any]:
        """Return all values that the run has at this point, by name, as expressions see them."""
        root = {name: value for name, value in self.root.items() if not is_reserved(name)}
        return {**self.written, **root}

    def names(self) -> list[str]:
        """Return every name under which the run has a value for templates at this point."""
        return [*(name for name in self.root if not is_reserved(name)), *self.written]

    def is_skipped(self, reference: TemplateReference) -> bool:
        """Return whether a template names a value of a node that the run has skipped."""
        return reference.root in self.skipped and reference.root not in self.root

    def is_left_out(self, value: object) -> bool:
        """Return whether a param consists of a value that the run lacks.

        That is an optional input that was not given, or an output of a node that was skipped.
        """
        reference = lone(value)
        if reference is None:
            return False
        if self.is_skipped(reference):
            return True
        if len(reference.path) > 1:
            return False
        spec = self.document.inputs.get(reference.root)
        return spec is not None and not spec.required and reference.root not in self.root

    def is_absent(self, reference: TemplateReference) -> bool:
        """Return whether the run lacks a template's value, as a successful run may.

        That is one of a node that the run did not reach, or that was skipped, or that failed and was
        recovered from, or an optional input that was not given.
        """
        name = reference.root
        if name in self.root:
            return False
        if name in self.skipped:
            return True
        if name in self.written:
            return self.written[name].get("error") is not None and reference.path[1:] != ("error",)
        return name in self.document.inputs or any(node.id == name for node in self.document.nodes)
