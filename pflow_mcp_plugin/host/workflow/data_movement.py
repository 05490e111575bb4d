"""How data moves between the nodes of a workflow, and into and out of those that it runs.

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
from pflow_mcp_plugin.host.workflow.document_reader import MOST_NODES
from pflow_mcp_plugin.host.workflow.expression_places import (
    expression_params,
    expression_reads,
    is_transform,
    param_expressions,
)
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.scope import effective_entry
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, lone, parse_path, references
from pflow_mcp_plugin.host.workflow.workflow_check import CalledWorkflow, Checked
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument

WHOLE = "*"
"""Stands for a key where data moves as a whole, or under a key that is known only when it runs."""
_OUTPUTS = "outputs"
"""Stands for the parameter that takes what moves out of a workflow."""


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
        # Of two nodes with the same id the first counts.
        specs = {node.id: node for node in reversed(document.nodes)}
        self.ids: tuple[str, ...] = (*checked.graph.positions, INPUTS)
        self.nodes = [_moving(document, specs[node_id], checked.entries) for node_id in self.ids[:-1]]
        self.inputs = frozenset(document.inputs) | frozenset(() if document.namespaced else given)
        self._graph: Graph = checked.graph
        self._naming: dict[str, int] = {}
        self._reading: dict[str, int] = {}
        self._reading_all = bits_of(place for place, node in enumerate(self.nodes) if node.reads_all)
        self._reading_any = self._reading_all
        reads = ((1 << place, read) for place, node in enumerate(self.nodes) for read in node.reads)
        for bit, read in reads:
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
    for place in spec.constructs.templates():
        yield from _in_templates(place.name, place.value)
    # What only the node sees hides what has the same name, and comes from its constructs.
    own = spec.constructs.names
    yield from (read for read in _in_params(document, spec, entry) if read.root not in own)
    mapped = document.mapping(spec.id).inputs
    open_keys = {key for key in (*mapped, *_natural(entry)) if careful or not _is_set(document, spec, key)}
    for key, source in mapped.items():
        if key in open_keys and source not in own:
            path = parse_path(source) or (source,)
            yield Read(key, source, may_be_node=False)
            if str(path[0]) not in own:
                yield _read(key, path)
    for key in _natural(entry):
        if key in open_keys and key not in mapped and key not in own:
            # A parameter that is hidden has no name to show.
            param = key if entry and key in entry.interface.inputs else WHOLE
            yield Read(param, key, may_be_node=False)
            if not spec.constructs.repeats:
                yield Read(param, spec.id, param)  # what it wrote itself when it last ran, in a loop
    if careful and not spec.constructs.repeats:
        yield Read(WHOLE, spec.id)  # the same


def _in_params(document: WorkflowDocument, spec: NodeSpec, entry: Entry | None) -> Iterator[Read]:
    for key, value in spec.params.items():
        if key not in expression_params(entry):
            yield from _in_templates(str(key), value)
    if not is_transform(entry):  # a condition decides which nodes run; no data pass through it
        return
    everything = (*document.inputs, *(node.id for node in document.nodes))
    reads = expression_reads(param_expressions(spec, entry), everything)
    yield from (_read(param, path) for param, path in reads)


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
    if spec.constructs.repeats:
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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Exit(MovingNode):
    """Where data moves out of a workflow; it is no node that a policy could name."""

    @property
    def effects(self) -> tuple[Effect, ...]:
        return ()

    @property
    def types(self) -> tuple[str, ...]:
        return ()


@attrs.define(eq=False, repr=False)
class _Level:
    """One workflow among those that run one in another.

    Attributes:
        movement: How data moves through it alone.
        first: The number of its first node.
        around: The workflow that runs it.
        own: The number, in that one, of the node that runs it.
        exit: The number of the place where data moves out of it.
        leaving: Its nodes, as bits, whose data may move out; its inputs have the bit after the last.
        inside: The workflows that its nodes run, by their numbers in it.
    """

    movement: DataMovement
    first: int
    around: _Level | None = None
    own: int = 0
    exit: int = 0
    leaving: int = 0
    inside: dict[int, _Level] = attrs.field(factory=dict)


class NestedMovement:
    """How data moves through a workflow and those that it runs, numbered as in a `DataMovement`.

    A node that runs a workflow stands for what moves into that one. What moves out of it is a node of its own
    after those inside, with the same id.

    Args:
        checked: The workflow; errors in it do no harm.
        given: The names of the inputs of a run beyond the declared ones.
    """

    def __init__(self, checked: Checked, given: Iterable[str] = ()) -> None:
        self.ids: list[str] = []
        self.nodes: list[MovingNode] = []
        self._levels: list[_Level] = []
        called = (checked.called.get(node.entry_key) for node in checked.document.nodes)
        size = len(checked.document.nodes) + sum(each.size for each in called if each)
        self._whole = size <= MOST_NODES  # a larger one is refused as such
        self._top = self._add(checked, DataMovement(checked, given), "", "")
        self.ids.append(INPUTS)

    def _add(self, checked: Checked, movement: DataMovement, above: str, place: str) -> _Level:
        """Add the nodes of a workflow, and of those that it runs.

        Args:
            checked: The workflow.
            movement: How data moves through it.
            above: The ids of the nodes that run it, each with a slash.
            place: The JSON path that its nodes get; empty for their own.
        """
        level = _Level(movement, len(self.nodes))
        self.ids += [f"{above}{node_id}" for node_id in movement.ids[:-1]]
        self.nodes += [attrs.evolve(node, place=place or node.place) for node in movement.nodes]
        self._levels += [level] * len(movement.nodes)
        for number, node in enumerate(movement.nodes):
            called = checked.called.get(node.spec.entry_key)
            if called and called.checked and self._whole:
                inner = DataMovement(called.checked, node.spec.params)
                where = place or node.place
                inside = self._add(called.checked, inner, f"{above}{node.spec.id}/", where)
                inside.around, inside.own, inside.exit = level, number, len(self.nodes)
                inside.leaving = _leaving(called, inner, movement, node)
                level.inside[number] = inside
                self.ids.append(f"{above}{node.spec.id}")
                self.nodes.append(_exit(node, where))
                self._levels.append(inside)
        return level

    def readers(self, place: int) -> int:
        """Return the nodes that data may move to from a node, or from the inputs, in one step."""
        if place == len(self.nodes):
            return self._top.movement.readers(len(self._top.movement.nodes))
        level = self._levels[place]
        if place == level.exit and level.around:
            return level.around.movement.readers(level.own) << level.around.first
        number = place - level.first
        if number in level.inside:
            inner = level.inside[number]
            count = len(inner.movement.nodes)
            leaves = 1 << inner.exit if inner.leaving >> count & 1 else 0
            return inner.movement.readers(count) << inner.first | leaves
        reading = level.movement.readers(number) << level.first
        return reading | (1 << level.exit if level.leaving >> number & 1 else 0)

    def link(self, source: int, target: int) -> tuple[str, str]:
        """Return the key by which data moves to one of the `readers`, and the parameter that takes it."""
        into = self._levels[target]
        if target == into.exit and into.around:
            return WHOLE, _OUTPUTS
        number = target - into.first
        count = len(into.movement.nodes)
        if source == len(self.nodes):
            return into.movement.link(count, number)
        level = self._levels[source]
        if source == level.exit and level.around:
            return into.movement.link(level.own, number)
        return into.movement.link(source - into.first if level is into else count, number)


def _exit(node: MovingNode, place: str) -> _Exit:
    return _Exit(
        spec=node.spec,
        entry=node.entry,
        reads=(),
        reads_all=False,
        writes=node.writes,
        writes_any=node.writes_any,
        place=place,
    )


def _leaving(called: CalledWorkflow, inner: DataMovement, outer: DataMovement, node: MovingNode) -> int:
    """Return the nodes of a workflow, as bits, whose data may be in what the node that runs it writes."""
    document = called.checked.document if called.checked else None
    everything = (1 << len(inner.nodes) + 1) - 1
    if document is None or not document.outputs or _shows_errors(outer, node):
        return everything
    found = (part for output in document.outputs.values() for _, part in references(output.source))
    named = {part.root for part in found if isinstance(part, TemplateReference)}
    leaving = 0 if named.isdisjoint(inner.inputs) else 1 << len(inner.nodes)
    for number, part in enumerate(inner.nodes):
        if inner.ids[number] in named or part.writes_any or not named.isdisjoint(part.writes):
            leaving |= 1 << number
    return leaving


def _shows_errors(outer: DataMovement, node: MovingNode) -> bool:
    """Return whether the error of a node, or all that it wrote, is read: any inside may have raised it."""
    reads = (read for other in outer.nodes for read in other.reads if read.may_be_node)
    is_read = any(read.root == node.spec.id and read.key in ("", "error", WHOLE) for read in reads)
    return is_read or "error" in node.writes or node.writes_any
