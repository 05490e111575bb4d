"""What a place in a workflow can refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.workflow.declarations import inside
from pflow_mcp_plugin.host.workflow.document import Document, NodeSpec
from pflow_mcp_plugin.host.workflow.templates import Reference


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Scope:
    """The names that a node's templates and arguments can take values from.

    Attributes:
        roots: Names at the root of the shared store, with what is known of each value.
        earlier: For each node that can have run, its entry; None if its type is unknown.
        uncertain: Whether the root may hold anything, because a node that writes there is unknown.
        open: Whether it may hold more than `roots`, because a node that writes there may write more
            than it declares; None where nothing is said of that.
    """

    roots: Mapping[str, Field]
    earlier: Mapping[str, Entry | None]
    uncertain: bool
    open: bool | None

    def holders(self, key: str) -> list[str]:
        """Return the earlier nodes that have an output of that name."""
        known = ((node_id, entry) for node_id, entry in self.earlier.items() if entry)
        return [node_id for node_id, entry in known if output_field(entry, key)]

    def declared(self, reference: Reference) -> Field | None:
        """Return what is declared of the value that a template names, None if nothing is known of it."""
        root, *rest = reference.path
        start = self.roots.get(str(root))
        if root not in self.roots and rest:
            entry, key = self.earlier.get(str(root)), str(rest.pop(0))
            start = output_field(entry, key) if entry else None
        found = inside(start, rest) if start else None
        return found if isinstance(found, Field) else None


def output_field(entry: Entry, key: str) -> Field | None:
    """Return what is declared of an output; every node has `error`."""
    declared = next((field for field in entry.interface.outputs if field.key == key), None)
    return declared or (Field(key="error") if key == "error" else None)


def effective_entry(node: NodeSpec, entries: Mapping[str, Entry | None]) -> Entry | None:
    """Return the entry of a node; in a batch its outputs are lists and counts."""
    entry = entries.get(node.type)
    if entry is None or node.batch is None:
        return entry
    interface = attrs.evolve(entry.interface, outputs=_batch_outputs(entry), open_outputs=False)
    return attrs.evolve(entry, interface=interface)


def _batch_outputs(entry: Entry) -> tuple[Field, ...]:
    outputs = entry.interface.outputs
    known = {field.key: field.schema or {"type": list(field.types)} for field in outputs}
    item: dict[str, Any] = {"properties": {"error": {}, **known}}
    if entry.interface.open_outputs:
        item["additionalProperties"] = True
    return (
        Field(key="results", type="list", description="Outputs by item", schema={"items": item}),
        Field(key="errors", type="list", description="`{index, item, error}` of each failed item"),
        Field(key="count", type="int", description="How many items there are"),
        Field(key="succeeded", type="int", description="How many of them succeeded"),
        Field(key="failed", type="int", description="How many of them failed"),
    )


def scope_of(
    document: Document,
    earlier: Mapping[str, NodeSpec],
    entries: Mapping[str, Entry | None],
    given: frozenset[str],
) -> Scope:
    """Return what can be referred to after some nodes have run.

    Args:
        document: The workflow.
        earlier: The nodes that can have run, by id.
        entries: The entry of each node type.
        given: Names that a run is given beyond the declared inputs.
    """
    roots = {name: Field(key=name) for name in given}
    roots |= {name: spec.field for name, spec in document.inputs.items()}
    before = {node_id: effective_entry(node, entries) for node_id, node in earlier.items()}
    writers = before if not document.namespaced else [key for key in document.mappings if key in before]
    for node_id in writers:
        roots.update(_written(document, node_id, before[node_id]))
    exposed = () if document.namespaced else tuple(before.values())
    said = {entry.interface.open_outputs for entry in exposed if entry}
    is_open = True if True in said else None if None in said else False
    return Scope(roots=roots, earlier=before, uncertain=None in exposed, open=is_open)


def _written(document: Document, node_id: str, entry: Entry | None) -> Iterator[tuple[str, Field]]:
    """Yield what a node writes to the root: what is mapped there, and all of it without namespacing."""
    for key, name in document.mapping(node_id).outputs.items():
        yield name, (entry and output_field(entry, key)) or Field(key=key)
    if entry and not document.namespaced:
        yield from ((field.key, field) for field in entry.interface.outputs)
