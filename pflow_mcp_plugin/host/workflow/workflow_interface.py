"""The interface of a whole workflow: the types of its inputs and outputs, as of a node type."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pflow_mcp_plugin.contract import FAILURES, Field, Interface
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow.coercion import is_type, type_name
from pflow_mcp_plugin.host.workflow.scope import Scope, Scopes, effective_entry
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, lone, parse
from pflow_mcp_plugin.host.workflow.workflow_check import Checked
from pflow_mcp_plugin.host.workflow.workflow_document import InputSpec, OutputSpec

_ORDINARY = FAILURES | {"default"}
"""Actions after which a workflow goes on along its default edges, or fails."""


def workflow_interface(checked: Checked, workflow: JSONObject) -> Interface:
    """Return the interface of a checked workflow.

    An output has the type that is declared for what its template names, with None added where a successful
    run may lack it.

    Args:
        checked: The workflow, checked without a run.
        workflow: The same as loaded, for the descriptions of its outputs.
    """
    document = checked.document
    outputs = _Outputs(checked, workflow.get("outputs"))
    return Interface(
        params=tuple(map(_param, document.inputs.values())),
        outputs=tuple(map(outputs.field, document.outputs.values())),
        inputs=tuple(document.inputs),
        open=not document.namespaced,
        open_outputs=not document.outputs,
    )


def _param(spec: InputSpec) -> Field:
    return attrs.evolve(
        spec.field,
        type=_friendly(spec.type),
        required=spec.required and not spec.has_default,
        schema={"default": spec.default} if spec.has_default else None,
    )


class _Outputs:
    """What is known of the outputs of a workflow."""

    def __init__(self, checked: Checked, declared: JSON) -> None:
        document, graph = checked.document, checked.graph
        self._nodes = {node.id: node for node in document.nodes}
        self._inputs = document.inputs
        self._declared = declared if isinstance(declared, Mapping) else {}
        self._permissive = document.permissive
        self._scope: Scope = Scopes(document, self._nodes, checked.entries, frozenset()).after(
            graph.reachable
        )
        found = (effective_entry(node, checked.entries) for node in document.nodes)
        actions = {action for entry in found if entry for action in entry.interface.actions}
        is_straight = actions <= _ORDINARY and all(edge.route == "default" for edge in document.edges)
        # Where a failure may be recovered from, or another way taken, no node's outputs are certain.
        always = frozenset(node.id for node in document.nodes if not node.constructs.may_skip)
        self._certain = graph.certain() & always if is_straight else frozenset[str]()

    def field(self, output: OutputSpec) -> Field:
        found = self._found(output.source)
        kind = "any" if self._permissive else _friendly(found.type)
        if kind != "any" and self._may_be_absent(output.source):
            kind = " | ".join(dict.fromkeys([*kind.split(" | "), "None"]))
        raw = self._declared.get(output.name)
        description = raw.get("description") if isinstance(raw, Mapping) else None
        return attrs.evolve(
            found,
            key=output.name,
            type=kind,
            description=description if isinstance(description, str) else found.description,
        )

    def _found(self, source: str) -> Field:
        reference = lone(source)
        if reference is None:
            return Field(key="", type="str")
        if len(reference.path) == 1 and reference.root in self._scope.earlier:
            return Field(key="", type="dict")
        found = self._scope.declared(reference)
        if found is None:
            return Field(key="")
        node = self._nodes.get(reference.root)
        # The items of a batch are described for templates only: the one of a failed item is None.
        schema = (
            found.schema
            if isinstance(found.schema, dict) and not (node and node.constructs.repeats)
            else None
        )
        kept = attrs.evolve(found, required=False, shell_line=False, schema=schema)
        return attrs.evolve(kept, schema=None) if reference.root in self._inputs else kept

    def _may_be_absent(self, source: str) -> bool:
        roots = [part.root for part in parse(source) if isinstance(part, TemplateReference)]
        return any(self._is_optional(root) for root in roots)

    def _is_optional(self, root: str) -> bool:
        spec = self._inputs.get(root)
        if spec is not None:
            return (not spec.required and not spec.has_default) or (spec.has_default and spec.default is None)
        return root in self._nodes and root not in self._certain


def _friendly(kind: str) -> str:
    if not is_type(kind):
        return "any"
    names = dict.fromkeys(type_name(part.strip()) for part in kind.split("|"))
    return "any" if "any" in names else " | ".join(names)
