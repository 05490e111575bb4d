"""Scopes: the values that templates at each place of a workflow can refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.workflow.expression_places import (
    actions_of,
    is_branch,
    is_transform,
    transform_outputs,
)
from pflow_mcp_plugin.host.workflow.graph import NodeSet
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, inside
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Scope:
    """The scope of one place: the names that templates and arguments there can refer to.

    Attributes:
        roots: Names at the root of the shared store, with what is known of each value.
        earlier: For each node that can have run, its entry; None if its type is unknown.
        uncertain: Whether the root may hold anything, because a node that writes there is unknown.
        open: Whether it may hold more than `roots`, because a node that writes there may write more
            than it declares; None where that is not declared.
    """

    roots: Mapping[str, Field]
    earlier: Mapping[str, Entry | None]
    uncertain: bool
    open: bool | None

    def holders(self, key: str) -> list[str]:
        """Return the earlier nodes in scope that have an output of that name."""
        known = ((node_id, entry) for node_id, entry in self.earlier.items() if entry)
        return [node_id for node_id, entry in known if output_field(entry, key)]

    def declared(self, reference: TemplateReference) -> Field | None:
        """Return the declaration of the value in scope that a template names, None if it is unknown."""
        root, *rest = reference.path
        start = self.roots.get(str(root))
        if root not in self.roots and rest:
            entry, key = self.earlier.get(str(root)), str(rest.pop(0))
            start = output_field(entry, key) if entry else None
        found = inside(start, rest) if start else None
        return found if isinstance(found, Field) else None


def output_field(entry: Entry, key: str) -> Field | None:
    """Return the declaration of an output as later scopes see it; every node has `error`."""
    declared = next((field for field in entry.interface.outputs if field.key == key), None)
    return declared or (Field(key="error") if key == "error" else None)


def effective_entry(node: NodeSpec, entries: Mapping[str, Entry | None]) -> Entry | None:
    """Return the entry of a node as later scopes see it.

    A branch has actions of its own and a transform outputs, and constructs change both.
    """
    entry = _of_its_expressions(node, entries.get(node.entry_key))
    return entry and node.constructs.gathered(entry)


def _of_its_expressions(node: NodeSpec, entry: Entry | None) -> Entry | None:
    if entry is None or not (is_branch(entry) or is_transform(entry)):
        return entry
    if is_branch(entry):
        return attrs.evolve(entry, interface=attrs.evolve(entry.interface, actions=actions_of(node)))
    outputs = transform_outputs(node, entry)
    result = "result" if any(field.key == "result" for field in outputs) else ""
    return attrs.evolve(entry, interface=attrs.evolve(entry.interface, outputs=outputs, result=result))


@attrs.frozen(eq=False, repr=False)
class _Writers:
    """The nodes that write a name at the root of the shared store.

    Attributes:
        fields: Each node's declaration of the value, by the node's place in the workflow.
        bits: The same places, as in a `NodeSet`.
    """

    fields: Mapping[int, Field]
    bits: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Roots(Mapping[str, Field]):
    """The names at the root after `nodes` have run; the last node that writes a name counts."""

    item: Mapping[str, Field]
    given: Mapping[str, Field]
    writers: Mapping[str, _Writers]
    nodes: NodeSet

    def __getitem__(self, name: str) -> Field:
        if name in self.item:
            return self.item[name]
        writers = self.writers.get(name)
        if writers and (written := writers.bits & self.nodes.bits):
            return writers.fields[written.bit_length() - 1]
        return self.given[name]

    def __iter__(self) -> Iterator[str]:
        written = (name for name, writers in self.writers.items() if writers.bits & self.nodes.bits)
        return iter(dict.fromkeys((*self.given, *written, *self.item)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@attrs.frozen(eq=False, repr=False)
class _Earlier(Mapping[str, Entry | None]):
    """The entries of those nodes that have run."""

    entries: Mapping[str, Entry | None]
    nodes: NodeSet

    def __getitem__(self, node_id: str) -> Entry | None:
        if node_id not in self.nodes:
            raise KeyError(node_id)
        return self.entries[node_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


class Scopes:
    """Creates the scope of each place of a workflow.

    What the places share is computed once: a scope is a view of it, and its cost does not depend on
    the number of nodes.

    Args:
        document: The workflow.
        nodes: Its nodes by id, in its order.
        entries: The entry of each node type.
        given: Names that a run is given beyond the declared inputs.

    Attributes:
        entries: The entry of each node, by its id, as later nodes see it.
    """

    def __init__(
        self,
        document: WorkflowDocument,
        nodes: Mapping[str, NodeSpec],
        entries: Mapping[str, Entry | None],
        given: frozenset[str],
    ) -> None:
        self.entries = {node_id: effective_entry(node, entries) for node_id, node in nodes.items()}
        self._given = {name: Field(key=name) for name in given}
        self._given |= {name: spec.field for name, spec in document.inputs.items()}
        self._writers = _writers(document, self.entries)
        # With namespacing, a node writes to the root only what is mapped there, which is known.
        exposed = () if document.namespaced else tuple(self.entries.values())
        self._uncertain = _places(entry is None for entry in exposed)
        said = [entry.interface.open_outputs if entry else False for entry in exposed]
        self._open = _places(is_open is True for is_open in said)
        self._unsaid = _places(is_open is None for is_open in said)

    def after(self, nodes: NodeSet, item: Mapping[str, Field] | None = None) -> Scope:
        """Return the scope after some nodes have run."""
        return Scope(
            roots=_Roots(item=item or {}, given=self._given, writers=self._writers, nodes=nodes),
            earlier=_Earlier(self.entries, nodes),
            uncertain=bool(self._uncertain & nodes.bits),
            open=True if self._open & nodes.bits else None if self._unsaid & nodes.bits else False,
        )


def _places(wanted: Iterable[bool]) -> int:
    """Return the places of the nodes that are wanted, as in a `NodeSet`."""
    return sum(1 << place for place, is_wanted in enumerate(wanted) if is_wanted)


def _writers(document: WorkflowDocument, entries: Mapping[str, Entry | None]) -> dict[str, _Writers]:
    fields: dict[str, dict[int, Field]] = {}
    for place, (node_id, entry) in enumerate(entries.items()):
        for name, field in _written(document, node_id, entry):
            fields.setdefault(name, {})[place] = field
    return {name: _Writers(known, sum(1 << place for place in known)) for name, known in fields.items()}


def _written(document: WorkflowDocument, node_id: str, entry: Entry | None) -> Iterator[tuple[str, Field]]:
    """Yield what a node writes to the root: what is mapped there, and all of it without namespacing."""
    for key, name in document.mapping(node_id).outputs.items():
        yield name, (entry and output_field(entry, key)) or Field(key=key)
    if entry and not document.namespaced:
        yield from ((field.key, field) for field in entry.interface.outputs)
