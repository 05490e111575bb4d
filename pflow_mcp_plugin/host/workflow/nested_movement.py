"""How data moves through a workflow and those that it runs: into one by its inputs, out by its outputs.

A node that runs a workflow stands for what moves into that one. What moves out of it is a node of its own
after those inside, with the same id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs

from pflow_mcp_plugin.contract.entries import Effect
from pflow_mcp_plugin.host.flow_policy import INPUTS
from pflow_mcp_plugin.host.workflow.data_movement import WHOLE, DataMovement, MovingNode
from pflow_mcp_plugin.host.workflow.document_reader import MOST_NODES
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, references
from pflow_mcp_plugin.host.workflow.workflow_check import CalledWorkflow, Checked

_OUTPUTS = "outputs"
"""Stands for the parameter that takes what moves out of a workflow."""


class Movement(Protocol):
    """How data moves between numbered nodes; the inputs of the run have the number after the last.

    Attributes:
        ids: The id of each node, and the word for the inputs.
        nodes: The nodes.
    """

    ids: Sequence[str]
    nodes: Sequence[MovingNode]

    def readers(self, place: int) -> int:
        """Return the nodes, as bits, that data may move to from a node, or from the inputs, in one step."""
        ...

    def link(self, source: int, target: int) -> tuple[str, str]:
        """Return the key by which data moves to one of the `readers`, and the parameter that takes it."""
        ...


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


class NestedMovement(Movement):
    """How data moves through a workflow and those that it runs.

    Args:
        checked: The workflow; errors in it do no harm.
        given: The names of the inputs of a run beyond the declared ones.
    """

    def __init__(self, checked: Checked, given: Iterable[str] = ()) -> None:
        self.ids: list[str] = []
        self.nodes: list[MovingNode] = []
        self._levels: list[_Level] = []
        self._whole = _size(checked) <= MOST_NODES  # a larger one is refused as such
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
            return self._entered(level.inside[number])
        reading = level.movement.readers(number) << level.first
        return reading | (1 << level.exit if level.leaving >> number & 1 else 0)

    def _entered(self, level: _Level) -> int:
        """Return the nodes that data may move to from the inputs of a workflow."""
        count = len(level.movement.nodes)
        leaves = 1 << level.exit if level.leaving >> count & 1 else 0
        return level.movement.readers(count) << level.first | leaves

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


def _size(checked: Checked) -> int:
    called = (checked.called.get(node.entry_key) for node in checked.document.nodes)
    return len(checked.document.nodes) + sum(each.size for each in called if each)


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
