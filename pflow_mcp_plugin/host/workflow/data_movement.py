"""How data moves between the nodes of a workflow: which node may read what another has written.

It follows what a run does, and where a run may do several things it assumes all of them: every node that may
have run before another may have written what that one reads, and every output of a node may contain what the
node was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.contract.entries import Effect
from pflow_mcp_plugin.host.flow_policy import INPUTS
from pflow_mcp_plugin.host.workflow.expression_places import (
    DATA,
    expression_params,
    is_transform,
    param_expressions,
)
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.scope import effective_entry
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, lone, parse_path, references
from pflow_mcp_plugin.host.workflow.workflow_check import Checked
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument

WHOLE = "*"
"""Stands for a key where data moves as a whole, or under a key that is known only when it runs."""


@attrs.frozen
class Read:
    """A place where data moves into a node.

    Attributes:
        param: The parameter that takes the value.
        root: The first name of what it reads: a key at the root of the shared store, or a node's id.
        key: The name after that; empty if it reads the whole.
        may_be_node: Whether `root` may be the id of a node.
    """

    param: str
    root: str
    key: str = ""
    may_be_node: bool = True


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MovingNode:
    """A node as data moves through it.

    Attributes:
        spec: The node.
        entry: What the registry says of it, None if its type is unknown.
        reads: What it reads, in the order of the document.
        reads_all: Whether it may read every key at the root of the shared store.
        writes: The keys at the root that it may write.
        writes_any: Whether it may write others too.
        place: The JSON path of the node, or of the one in the outermost workflow that runs it.
    """

    spec: NodeSpec
    entry: Entry | None
    reads: tuple[Read, ...]
    reads_all: bool
    writes: frozenset[str]
    writes_any: bool
    place: str

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What the registry says that the node does with data."""
        return self.entry.effects if self.entry else ()

    @property
    def types(self) -> tuple[str, ...]:
        """The node type in the registry, and as the workflow spells it."""
        spelled = self.spec.type
        return tuple(dict.fromkeys((self.entry.node, spelled))) if self.entry else (spelled,)


class DataMovement:
    """How data moves through a workflow, as sets of nodes in the bits of integers.

    A node's number is its place in the workflow, as in a `NodeSet`; the inputs of a run count as a node after
    the last.

    Args:
        checked: The workflow; errors in it do no harm.
        given: The names of the inputs of a run beyond the declared ones.
    """

    def __init__(self, checked: Checked, given: Iterable[str] = ()) -> None:
        document = checked.document
        specs = {
            node.id: node for node in reversed(document.nodes)
        }  # of two with the same id the first counts
        self.ids: tuple[str, ...] = (*checked.graph.positions, INPUTS)
        self.nodes = [_moving(document, specs[node_id], checked.entries) for node_id in self.ids[:-1]]
        self.inputs = frozenset(document.inputs) | frozenset(() if document.namespaced else given)
        self._graph: Graph = checked.graph
        self._naming: dict[str, int] = {}
        self._reading: dict[str, int] = {}
        self._reading_all = bits_of(place for place, node in enumerate(self.nodes) if node.reads_all)
        self._reading_any = self._reading_all
        for place, node in enumerate(self.nodes):
            self._note_reads(1 << place, node)

    def _note_reads(self, bit: int, node: MovingNode) -> None:
        for read in node.reads:
            self._reading[read.root] = self._reading.get(read.root, 0) | bit
            self._reading_any |= bit
            if read.may_be_node:
                self._naming[read.root] = self._naming.get(read.root, 0) | bit

    def readers(self, place: int) -> int:
        """Return the nodes that data may move to from a node, or from the inputs, in one step."""
        if place == len(self.nodes):
            return self._at_root(self.inputs) & self._graph.reachable.bits
        node, node_id = self.nodes[place], self.ids[place]
        reading = self._naming.get(node_id, 0) | self._at_root(node.writes)
        if node.writes_any:
            reading |= self._reading_any
        return reading & self._graph.after(node_id).bits

    def _at_root(self, keys: Iterable[str]) -> int:
        reading = 0
        for key in keys:
            reading |= self._reading.get(key, 0) | self._reading_all
        return reading

    def link(self, source: int, target: int) -> tuple[str, str]:
        """Return the key by which data moves to one of the `readers`, and the parameter that takes it."""
        reads = self.nodes[target].reads
        keys = self.inputs if source == len(self.nodes) else self.nodes[source].writes
        for read in reads:
            if read.may_be_node and read.root == self.ids[source] and source < len(self.nodes):
                return read.key or WHOLE, read.param
            if read.root in keys:
                return read.root, read.param
        # A key that is not declared, or a node that does not say what it reads.
        shown = next((read for read in reads if read.param != WHOLE), None)
        return (shown.root, shown.param) if shown else (min(keys, default=WHOLE), WHOLE)


def _moving(document: WorkflowDocument, spec: NodeSpec, entries: Mapping[str, Entry | None]) -> MovingNode:
    entry = effective_entry(spec, entries)
    says_nothing = entry is None or (
        entry.interface.open and not entry.interface.reads and not entry.interface.params
    )
    return MovingNode(
        spec=spec,
        entry=entry,
        reads=tuple(_reads(document, spec, entry, careful=says_nothing)),
        reads_all=says_nothing,
        writes=frozenset(_writes(document, spec, entry)),
        writes_any=not document.namespaced and _writes_any(spec, entry),
        place=spec.path,
    )


def _reads(
    document: WorkflowDocument, spec: NodeSpec, entry: Entry | None, *, careful: bool
) -> Iterator[Read]:
    """Yield what a node reads; `careful` if it may read from the store what its params contain."""
    item = spec.batch.name if spec.batch else None
    if spec.batch:
        yield from _in_templates("batch.items", spec.batch.items)
    # The item of a batch hides what has its name, and comes from `batch.items`.
    yield from (read for read in _in_params(document, spec, entry) if read.root != item)
    mapped = document.mapping(spec.id).inputs
    open_keys = {key for key in (*mapped, *_natural(entry)) if careful or not _is_set(document, spec, key)}
    for key, source in mapped.items():
        if key in open_keys and source != item:
            path = parse_path(source) or (source,)
            yield Read(key, source, may_be_node=False)
            if str(path[0]) != item:
                yield _read(key, path)
    for key in _natural(entry):
        if key in open_keys and key not in mapped and key != item:
            # A parameter that is hidden has no name to show.
            param = key if entry and key in entry.interface.inputs else WHOLE
            yield Read(param, key, may_be_node=False)
            if spec.batch is None:
                yield Read(param, spec.id, param)  # what it wrote itself when it last ran, in a loop
    if careful and spec.batch is None:
        yield Read(WHOLE, spec.id)  # the same


def _in_params(document: WorkflowDocument, spec: NodeSpec, entry: Entry | None) -> Iterator[Read]:
    for key, value in spec.params.items():
        if key not in expression_params(entry):
            yield from _in_templates(str(key), value)
    if not is_transform(entry):  # a condition decides which nodes run; no data pass through it
        return
    from pflow_mcp_plugin.host.workflow.expression_reads import expression_reads

    everything = (*document.inputs, *(node.id for node in document.nodes))
    places = param_expressions(spec, entry)
    for read in expression_reads(places, everything, on_data=DATA in spec.params):
        yield Read(read.param, read.root, read.key)


def _in_templates(param: str, value: object) -> Iterator[Read]:
    for _, part in references(value):
        if isinstance(part, TemplateReference):
            yield _read(param, part.path)


def _read(param: str, path: tuple[str | int, ...]) -> Read:
    return Read(param, str(path[0]), str(path[1]) if len(path) > 1 else "")


def _natural(entry: Entry | None) -> tuple[str, ...]:
    return entry.interface.reads if entry else ()


def _is_set(document: WorkflowDocument, spec: NodeSpec, key: str) -> bool:
    """Return whether a param is set in every run; one that is an optional input may be left out."""
    if key not in spec.params:
        return False
    reference = lone(spec.params[key])
    declared = document.inputs.get(reference.root) if reference and len(reference.path) == 1 else None
    return declared is None or declared.required


def _writes(document: WorkflowDocument, spec: NodeSpec, entry: Entry | None) -> Iterator[str]:
    mapped = document.mapping(spec.id).outputs
    yield from mapped.values()
    if not document.namespaced:
        keys = ("error", *(field.key for field in entry.interface.outputs)) if entry else ("error",)
        yield from (mapped.get(key, key) for key in keys)


def _writes_any(spec: NodeSpec, entry: Entry | None) -> bool:
    """Return whether a node may write keys that it does not declare; strangers do not keep to a schema."""
    if entry is None:
        return True
    if spec.batch:
        return False
    return entry.interface.open_outputs is not False or "untrusted_output" in entry.effects


def bits_of(places: Iterable[int]) -> int:
    """Return the set of the nodes whose data may move, by their places."""
    bits = bytearray()
    for place in places:
        bits.extend(bytes(max(0, place // 8 + 1 - len(bits))))
        bits[place // 8] |= 1 << place % 8
    return int.from_bytes(bits, "little")


def places_in(bits: int) -> Iterator[int]:
    """Yield the places of the nodes in a set of those whose data may move, in order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
