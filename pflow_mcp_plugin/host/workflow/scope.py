"""What a place in a workflow can refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.workflow.document import Document, NodeSpec
from pflow_mcp_plugin.host.workflow.templates import Reference


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Scope:
    """The names that a node's templates and arguments can take values from.

    Attributes:
        roots: Names at the root of the shared store, with what is known of each value.
        earlier: For each node that can have run, its entry; None if its type is unknown.
        uncertain: Whether the root may hold more than `roots`, because a node that writes there is
            unknown.
    """

    roots: Mapping[str, Field]
    earlier: Mapping[str, Entry | None]
    uncertain: bool

    def holders(self, key: str) -> list[str]:
        """Return the earlier nodes that have an output of that name."""
        known = ((node_id, entry) for node_id, entry in self.earlier.items() if entry)
        return [node_id for node_id, entry in known if output_field(entry, key)]

    def declared(self, reference: Reference) -> Field | None:
        """Return the declaration of what a template names as a whole: an input or an output."""
        match reference.path:
            case [root] if root in self.roots:
                return self.roots[str(root)]
            case [root, str(key)] if root not in self.roots and (entry := self.earlier.get(str(root))):
                return output_field(entry, key)
        return None


def output_field(entry: Entry, key: str) -> Field | None:
    """Return what is declared of an output; every node has `error`."""
    declared = next((field for field in entry.interface.outputs if field.key == key), None)
    return declared or (Field(key="error") if key == "error" else None)


def effective_entry(node: NodeSpec, entries: Mapping[str, Entry | None]) -> Entry | None:
    """Return the entry of a node; in a batch its outputs are lists and counts."""
    entry = entries.get(node.type)
    if entry is None or node.batch is None:
        return entry
    return attrs.evolve(entry, interface=attrs.evolve(entry.interface, outputs=_batch_outputs(entry)))


def _batch_outputs(entry: Entry) -> tuple[Field, ...]:
    known = {field.key: field.schema or {} for field in entry.interface.outputs}
    item = {"properties": known}
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
    unknown = any(entry is None for entry in before.values())
    return Scope(roots=roots, earlier=before, uncertain=unknown and not document.namespaced)


def _written(document: Document, node_id: str, entry: Entry | None) -> Iterator[tuple[str, Field]]:
    """Yield what a node writes to the root: what is mapped there, and all of it without namespacing."""
    for key, name in document.mapping(node_id).outputs.items():
        yield name, (entry and output_field(entry, key)) or Field(key=key)
    if entry and not document.namespaced:
        yield from ((field.key, field) for field in entry.interface.outputs)
