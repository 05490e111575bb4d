"""Finds data flows through a checked workflow, such as from a web page to a node that sends messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import attrs

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.entries import Effect
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.flow_policy import (
    INPUTS,
    POLICY_FILE,
    FlowPolicy,
    FlowRule,
    matches,
)
from pflow_mcp_plugin.host.workflow.data_movement import DataMovement, NestedMovement, bits_of, places_in
from pflow_mcp_plugin.host.workflow.workflow_check import Checked

MOST_FLOWS = 100
"""The data flows that are listed; nobody reads more, and each takes a search."""
MOST_STEPS = 10_000
"""The nodes in all paths together after which no further data flow is listed."""
_ENDS = 8
"""The nodes that are shown at each end of a long path."""


@attrs.frozen(kw_only=True)
class PathNode:
    """A node on the path of a data flow.

    Attributes:
        node: Its id, or `inputs`.
        type: Its type, empty for the inputs.
        param: The parameter that takes the data; empty for the first.
        key: The key by which the data moves on; empty for the last.
    """

    node: str
    type: str = ""
    param: str = ""
    key: str = ""

    def to_dict(self) -> dict[str, JSON]:
        """Return a node of a data flow for `--json`: its fields that are not empty."""
        return {name: value for name, value in attrs.asdict(self).items() if value}


@attrs.frozen(kw_only=True)
class DataFlow:
    """A way that data may take through a workflow, one of the shortest.

    Attributes:
        path: The nodes from the first to the last.
        effects: What the registry says of the first and the last node's effects.
        place: The JSON path of the last node in the workflow.
        rule: The rule of the policy that denies it, such as `flows.deny[0]`; empty if none does.
    """

    path: tuple[PathNode, ...]
    effects: tuple[tuple[Effect, ...], tuple[Effect, ...]]
    place: str
    rule: str = ""

    def to_dict(self) -> dict[str, JSON]:
        """Return the data flow for `--json`."""
        data: dict[str, JSON] = {
            "from": self.path[0].node,
            "to": self.path[-1].node,
            "effects": [effect for effects in self.effects for effect in effects],
            "path": [node.to_dict() for node in self.path],
        }
        return {**data, "denied_by": self.rule} if self.rule else data

    def __str__(self) -> str:
        """Return the path of the data flow, node by node, with the key from each to the next."""
        steps = list(self.path)
        texts = [self._shown(index) for index in range(len(steps))]
        joined = [f"{text} --{step.key}--> " for text, step in zip(texts, steps, strict=True)]
        joined[-1] = texts[-1]
        hidden = len(steps) - 2 * _ENDS
        if hidden > 1:
            joined[_ENDS : _ENDS + hidden] = [f"... {hidden} more nodes ... --> "]
        return "".join(joined)

    def _shown(self, index: int) -> str:
        step = self.path[index]
        if not step.type:
            return step.node
        if 0 < index < len(self.path) - 1:
            return f"{step.node} ({step.type}: {step.param})"
        effects = ", ".join(effect.replace("_", " ") for effect in self.effects[0 if index == 0 else 1])
        return f"{step.node} ({step.type}: {effects})" if effects else f"{step.node} ({step.type})"


@attrs.frozen(kw_only=True)
class FoundFlows:
    """The data flows that were found.

    Attributes:
        flows: One for each first and last node; those that the policy denies stand first.
        more: Whether there are more.
    """

    flows: tuple[DataFlow, ...] = ()
    more: bool = False

    @property
    def problems(self) -> tuple[Problem, ...]:
        """A problem for each data flow: an error if it is denied, else a warning."""
        step = f"Break the flow, or change the policy; `pflow config path` shows where {POLICY_FILE} is"
        found = [
            Problem(
                message=f"{flow.rule} of {POLICY_FILE} denies this data flow: {flow}",
                path=flow.place,
                suggestion=step,
            )
            if flow.rule
            else Problem(message=f"Data flow: {flow}", path=flow.place, severity="warning")
            for flow in self.flows
        ]
        if self.more:
            message = f"There are more data flows; these are the first {len(found)}"
            found.append(Problem(message=message, path="$", severity="warning"))
        return tuple(found)


def find_flows(
    checked: Checked, policy: FlowPolicy, given: Iterable[str] = (), *, every: bool = False
) -> FoundFlows:
    """Find the data flows through a workflow that the policy denies.

    Args:
        checked: The workflow.
        policy: Which flows are denied.
        given: The names of the inputs of a run.
        every: Find also those that no rule is about, from untrusted outputs to nodes that are destructive or
            send data.
    """
    search = FlowSearch(NestedMovement(checked, given), policy)
    found = search.run(search.denied)
    if every and not found.more:
        others = search.run(search.unruled, MOST_FLOWS - len(found.flows))
        found = FoundFlows(flows=(*found.flows, *others.flows), more=others.more)
    return found


class FlowSearch:
    """Searches for data flows, breadth first from each node that one may begin at.

    A node from which no end can be reached is looked at once, however many beginnings lead to it. With the
    limit on what is found, that makes the search proportional to the size of the workflow.

    Args:
        movement: How data moves through the workflow.
        policy: Which flows are denied and allowed.

    Attributes:
        denied: For the number of each node where a denied flow may begin, the nodes where it ends, as bits.
        unruled: The same for flows from untrusted outputs to harmful nodes that no rule is about.
        steps: How many nodes it has looked at.
    """

    def __init__(self, movement: DataMovement | NestedMovement, policy: FlowPolicy) -> None:
        self._movement = movement
        self._policy = policy
        self._dead: dict[int, int] = {}
        self._known: dict[str, int] = {}
        denied, allowed = self._ruled(policy.deny), self._ruled(policy.allow)
        self.denied = {place: ends & ~allowed.get(place, 0) for place, ends in denied.items()}
        harmful = self._matching("destructive") | self._matching("sends_data")
        self.unruled = {
            place: harmful & ~denied.get(place, 0) & ~allowed.get(place, 0)
            for place in places_in(self._matching("untrusted_output"))
        }
        self.steps = 0

    def _matching(self, word: str) -> int:
        """Return the nodes that a word of the policy stands for."""
        nodes = self._movement.nodes
        if word == INPUTS:
            return 1 << len(nodes)
        if word not in self._known:
            places = (place for place, it in enumerate(nodes) if matches(word, it.types, it.effects))
            self._known[word] = bits_of(places)
        return self._known[word]

    def _ruled(self, rules: Iterable[FlowRule]) -> dict[int, int]:
        ruled: dict[int, int] = {}
        for rule in rules:
            ends = self._matching(rule.end)
            for place in places_in(self._matching(rule.begin)):
                ruled[place] = ruled.get(place, 0) | ends
        return ruled

    def run(self, wanted: Mapping[int, int], most: int = MOST_FLOWS) -> FoundFlows:
        """Search for one of the shortest paths between each pair of nodes."""
        flows: list[DataFlow] = []
        steps = 0
        for begin in sorted(wanted):
            for path in self._paths(begin, wanted[begin]):
                if len(flows) == most or steps > MOST_STEPS:
                    return FoundFlows(flows=tuple(flows), more=True)
                flows.append(self._flow(path))
                steps += len(path)
        return FoundFlows(flows=tuple(flows))

    def _paths(self, begin: int, ends: int) -> Iterator[list[int]]:
        """Yield a shortest path to each of the ends that are reached, nearest first."""
        before: dict[int, int] = {}
        seen = self._dead.get(ends, 0)
        layer = [] if seen >> begin & 1 else [begin]
        reached = False
        while layer:
            following = []
            for current in layer:
                self.steps += 1
                fresh = self._movement.readers(current) & ~seen
                seen |= fresh
                following += (found := list(places_in(fresh)))
                before.update(dict.fromkeys(found, current))
            for end in (place for place in following if ends >> place & 1):
                reached = True
                yield _path(before, begin, end)
            layer = following
        if not reached:
            # It may itself be an end that others lead to.
            self._dead[ends] = seen | 1 << begin & ~ends

    def _flow(self, places: list[int]) -> DataFlow:
        links = [self._movement.link(one, other) for one, other in pairwise(places)]
        params, keys = ["", *(param for _, param in links)], [*(key for key, _ in links), ""]
        nodes = self._movement.nodes
        begin = nodes[places[0]] if places[0] < len(nodes) else None
        end = nodes[places[-1]]
        return DataFlow(
            path=tuple(
                PathNode(
                    node=self._movement.ids[place],
                    type=next(iter(nodes[place].types), "") if place < len(nodes) else "",
                    param=param,
                    key=key,
                )
                for place, param, key in zip(places, params, keys, strict=True)
            ),
            effects=(begin.effects if begin else (), end.effects),
            place=end.place,
            rule=next((rule.path for rule in self._policy.deny if self._is_about(rule, places)), ""),
        )

    def _is_about(self, rule: FlowRule, places: list[int]) -> bool:
        """Return whether a rule is about a flow that takes such a path and is not allowed."""
        ends = self.denied.get(places[0], 0) & self._matching(rule.end)
        return bool(self._matching(rule.begin) >> places[0] & 1 and ends >> places[-1] & 1)


def _path(before: Mapping[int, int], begin: int, end: int) -> list[int]:
    path = [end, before[end]]
    while path[-1] != begin:
        path.append(before[path[-1]])
    return path[::-1]
