"""Finds data flows through a checked workflow, such as from a web page to a node that sends messages.

Data is taken to move as in a run, and where a run may do several things, all of them are assumed: every
node that may have run before another may have written what that one reads, and every output of a node may
contain what the node was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import attrs

from pflow_mcp_plugin.contract import Entry, Problem
from pflow_mcp_plugin.contract.entries import Effect
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.flow_policy import INPUTS, POLICY_FILE, FlowPolicy, FlowRule, matches
from pflow_mcp_plugin.host.workflow.constructs import Path
from pflow_mcp_plugin.host.workflow.document_reader import MOST_NODES
from pflow_mcp_plugin.host.workflow.graph import bits_of, places_in
from pflow_mcp_plugin.host.workflow.reference_check import effective_entry
from pflow_mcp_plugin.host.workflow.templates import lone, named, parse_path
from pflow_mcp_plugin.host.workflow.workflow_check import Checked
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument
from pflow_mcp_plugin.host.workflow.workflow_reads import (
    expression_params,
    expression_reads,
    own_type,
    param_expressions,
    root_names,
)

WHOLE = "*"
"""Stands for the key where data moves as a whole, or under a key known only at run time."""
_OUTPUTS = "outputs"
"""Stands for the parameter that takes the data that leaves a workflow."""
MOST_FLOWS = 100
"""The most data flows that are listed; nobody reads more, and each takes a search."""
MOST_STEPS = 10_000
"""After this many nodes, in all paths together, no further data flow is listed."""
_ENDS = 8
"""The number of nodes shown at each end of a long path."""


@attrs.frozen
class Read:
    """A place where a data flow enters a node: the parameter that takes it, and the path that it reads.

    `root` is a key at the root of the shared store or, if it `may_be_node`, a node's id. `key` is the name
    after that, empty if the root is read as a whole.
    """

    param: str
    root: str
    key: str = ""
    may_be_node: bool = True


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MovingNode:
    """A node on data flows, or the place where they leave a workflow.

    `place` is the JSON path of the node, or of the one in the outermost workflow that runs it. `types` are
    its type in the registry, if it is known, and as the workflow spells it; without types no policy can name
    it. With `reads_all` it may read every key at the root of the shared store. `writes` are the keys at the
    root that it may write, with `writes_any` others too.
    """

    spec: NodeSpec
    place: str
    types: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    reads: tuple[Read, ...] = ()
    reads_all: bool = False
    writes: frozenset[str] = frozenset()
    writes_any: bool = False


def _moving(
    document: WorkflowDocument, spec: NodeSpec, entries: Mapping[str, Entry | None], place: str
) -> MovingNode:
    entry = effective_entry(spec, entries)
    says_nothing = entry is None or (
        entry.interface.open and not entry.interface.reads and not entry.interface.params
    )
    writes = set(root_names(document, spec.id, entry).values())
    if not document.namespaced:  # every node may fail
        writes.add(document.mapping(spec.id).outputs.get("error", "error"))
    # Outsiders do not keep to a schema.
    writes_undeclared = entry is None or (
        not spec.constructs.repeats
        and (entry.interface.open_outputs is not False or "untrusted_output" in entry.effects)
    )
    return MovingNode(
        spec=spec,
        place=place or spec.path,
        types=tuple(dict.fromkeys((entry.node, spec.type))) if entry else (spec.type,),
        effects=entry.effects if entry else (),
        reads=tuple(_reads(document, spec, entry, careful=says_nothing)),
        reads_all=says_nothing,
        writes=frozenset(writes),
        writes_any=not document.namespaced and writes_undeclared,
    )


def _reads(
    document: WorkflowDocument, spec: NodeSpec, entry: Entry | None, *, careful: bool
) -> Iterator[Read]:
    """Yield where data flows into a node; `careful` if it may read from the store what its params contain."""
    for place in spec.constructs.templates:
        yield from (_read(place.name, reference.path) for reference in named(place.value))
    # Names that only the node sees hide others of the same name, and come from its constructs.
    own = spec.constructs.names
    given = [
        _read(str(key), reference.path)
        for key, value in spec.params.items()
        if key not in expression_params(entry)
        for reference in named(value)
    ]
    if own_type(entry) == "transform":  # other expressions are conditions: they decide which nodes run
        everything = (*document.inputs, *(node.id for node in document.nodes))
        found = expression_reads(param_expressions(spec, entry), everything)
        given += (_read(param, path) for param, path in found)
    yield from (read for read in given if read.root not in own)
    mapped, natural = document.mapping(spec.id).inputs, entry.interface.reads if entry else ()
    open_keys = {key for key in (*mapped, *natural) if careful or not _is_set(document, spec, key)}
    for key, source in mapped.items():
        if key in open_keys and source not in own:
            path = parse_path(source) or (source,)
            yield Read(key, source, may_be_node=False)
            if str(path[0]) not in own:
                yield _read(key, path)
    for key in natural:
        if key in open_keys and key not in mapped and key not in own:
            # A hidden parameter has no name to show.
            param = key if entry and key in entry.interface.inputs else WHOLE
            yield Read(param, key, may_be_node=False)
            if not spec.constructs.repeats:
                yield Read(param, spec.id, param)  # in a loop: what it wrote itself when it last ran
    if careful and not spec.constructs.repeats:
        yield Read(WHOLE, spec.id)  # likewise


def _read(param: str, path: Path) -> Read:
    return Read(param, str(path[0]), str(path[1]) if len(path) > 1 else "")


def _is_set(document: WorkflowDocument, spec: NodeSpec, key: str) -> bool:
    # No data flows in by the key of a param that is set in every run.
    if key not in spec.params:
        return False
    reference = lone(spec.params[key])
    declared = document.inputs.get(reference.root) if reference and len(reference.path) == 1 else None
    return declared is None or declared.required


class _Level:
    """One of several nested workflows that data flows through; sets of its nodes are the bits of integers.

    A node's number in it is its place, as in a `NodeSet`; the inputs count as a node after the last. `first`
    is the number of its first node among the nodes of all. `own` is the number of the node in the workflow
    `around` that runs it, and `exit` that of the place where data moves out of it. `leaving` are the nodes
    whose data may move out. `inside` are the workflows that its nodes run, by the node's number.
    """

    around: _Level | None = None
    own = exit = leaving = 0

    def __init__(self, checked: Checked, given: Iterable[str], first: int, place: str) -> None:
        document = checked.document
        # If two nodes have the same id, the first counts.
        specs = {node.id: node for node in reversed(document.nodes)}
        self.ids = tuple(checked.graph.positions)
        self.nodes = [_moving(document, specs[node_id], checked.entries, place) for node_id in self.ids]
        self.inputs = frozenset(document.inputs) | frozenset(() if document.namespaced else given)
        self.first = first
        self.inside: dict[int, _Level] = {}
        self._graph = checked.graph
        self._naming: dict[str, int] = {}
        self._reading: dict[str, int] = {}
        self._reading_all = bits_of(number for number, node in enumerate(self.nodes) if node.reads_all)
        self._reading_any = self._reading_all
        for number, node in enumerate(self.nodes):
            bit = 1 << number
            self._reading_any |= bit if node.reads else 0
            for read in node.reads:
                self._reading[read.root] = self._reading.get(read.root, 0) | bit
                if read.may_be_node:
                    self._naming[read.root] = self._naming.get(read.root, 0) | bit

    def readers(self, number: int) -> int:
        is_input = number == len(self.nodes)
        reading = 0 if is_input else self._naming.get(self.ids[number], 0)
        for key in self.inputs if is_input else self.nodes[number].writes:
            reading |= self._reading.get(key, 0) | self._reading_all
        if is_input:
            return reading & self._graph.reachable.bits
        if self.nodes[number].writes_any:
            reading |= self._reading_any
        return reading & self._graph.after(self.ids[number]).bits

    def link(self, source: int, target: int) -> tuple[str, str]:
        reads = self.nodes[target].reads
        is_input = source == len(self.nodes)
        keys = self.inputs if is_input else self.nodes[source].writes
        for read in reads:
            if not is_input and read.may_be_node and read.root == self.ids[source]:
                return read.key or WHOLE, read.param
            if read.root in keys:
                return read.root, read.param
        # An undeclared key, or a node that does not say what it reads.
        shown = next((read for read in reads if read.param != WHOLE), None)
        return (shown.root, shown.param) if shown else (min(keys, default=WHOLE), WHOLE)


class DataMovement:
    """How data flows from node to node, through a workflow and those that it runs.

    Nodes are numbered in order, and the inputs of a run count as a node after the last. A node that runs a
    workflow stands for the data that moves into that workflow. The data that moves out of it is a node of its
    own after those inside, with the same id.

    Errors in the workflow do no harm. `given` names the inputs of a run beyond the declared ones.
    """

    def __init__(self, checked: Checked, given: Iterable[str] = ()) -> None:
        self.ids: list[str] = []
        self.nodes: list[MovingNode] = []
        self._levels: list[_Level] = []
        called = (checked.called.get(node.entry_key) for node in checked.document.nodes)
        size = len(checked.document.nodes) + sum(each.size for each in called if each)
        self._whole = size <= MOST_NODES  # a larger one is refused as such
        self._top = self._add(checked, given, "", "")
        self.ids.append(INPUTS)

    def _add(self, checked: Checked, given: Iterable[str], above: str, place: str) -> _Level:
        """Add the nodes of a workflow, and of the workflows that it runs, to those that data flows through.

        `above` has the ids of the nodes that run it, each with a slash. `place` is the JSON path that its
        nodes get, empty for their own.
        """
        level = _Level(checked, given, len(self.nodes), place)
        self.ids += [f"{above}{node_id}" for node_id in level.ids]
        self.nodes += level.nodes
        self._levels += [level] * len(level.nodes)
        for number, node in enumerate(level.nodes):
            called = checked.called.get(node.spec.entry_key)
            if called and called.checked and self._whole:
                inside = self._add(called.checked, node.spec.params, f"{above}{node.spec.id}/", node.place)
                inside.around, inside.own, inside.exit = level, number, len(self.nodes)
                inside.leaving = _leaving(called.checked.document, inside, level, node)
                level.inside[number] = inside
                self.ids.append(f"{above}{node.spec.id}")
                self.nodes.append(MovingNode(spec=node.spec, place=node.place))
                self._levels.append(inside)
        return level

    def readers(self, place: int) -> int:
        """Return the nodes to which data may flow from a node, or from the inputs, in one step."""
        if place == len(self.nodes):
            return self._top.readers(len(self._top.nodes))
        level, number = self._levels[place], place - self._levels[place].first
        if place == level.exit and level.around:
            level, number = level.around, level.own
        elif number in level.inside:  # data moves into that workflow, as its inputs
            level = level.inside[number]
            number = len(level.nodes)
        leaves = level.leaving >> number & 1
        return level.readers(number) << level.first | (1 << level.exit if leaves else 0)

    def link(self, source: int, target: int) -> tuple[str, str]:
        """Return by which key data flows on to one of the `readers`, and the parameter that it flows into."""
        into = self._levels[target]
        if target == into.exit and into.around:
            return WHOLE, _OUTPUTS
        level = self._levels[source] if source < len(self.nodes) else None
        if level and level.around and source == level.exit:
            number = level.own
        else:
            number = source - into.first if level is into else len(into.nodes)
        return into.link(number, target - into.first)


def _leaving(document: WorkflowDocument, inner: _Level, outer: _Level, node: MovingNode) -> int:
    """Return the nodes of a workflow, as bits, whose data may flow on from the node that runs it."""
    # Any node inside may have raised the error, or written what is read as a whole.
    shows_error = "error" in node.writes or node.writes_any
    for read in (read for other in outer.nodes for read in other.reads if read.may_be_node):
        shows_error |= read.root == node.spec.id and read.key in ("", "error", WHOLE)
    if not document.outputs or shows_error:
        return (1 << len(inner.nodes) + 1) - 1
    roots = {part.root for output in document.outputs.values() for part in named(output.source)}
    leaving = 0 if roots.isdisjoint(inner.inputs) else 1 << len(inner.nodes)
    for number, part in enumerate(inner.nodes):
        if inner.ids[number] in roots or part.writes_any or not roots.isdisjoint(part.writes):
            leaving |= 1 << number
    return leaving


@attrs.frozen(kw_only=True)
class PathNode:
    """A node that data moves through on its way, or `inputs`, which have no type.

    `param` takes the data, except at the first node; the data moves on by `key`, except at the last.
    """

    node: str
    type: str = ""
    param: str = ""
    key: str = ""


@attrs.frozen(kw_only=True)
class DataFlow:
    """A data flow found in a workflow: a shortest way from one node to another.

    `effects` are those of its first and its last node, and `place` is the JSON path of the last. `rule` is
    the rule of the policy that denies it, such as `flows.deny[0]`, or empty.
    """

    path: tuple[PathNode, ...]
    effects: tuple[tuple[Effect, ...], tuple[Effect, ...]]
    place: str
    rule: str = ""

    def to_dict(self) -> dict[str, JSON]:
        data: dict[str, JSON] = {
            "from": self.path[0].node,
            "to": self.path[-1].node,
            "effects": [effect for effects in self.effects for effect in effects],
            "path": [
                {name: value for name, value in attrs.asdict(node).items() if value} for node in self.path
            ],
        }
        return {**data, "denied_by": self.rule} if self.rule else data

    def __str__(self) -> str:
        # At both ends a node's effects say what makes the flow dangerous; in between, its param takes the
        # data.
        ends = [", ".join(effect.replace("_", " ") for effect in effects) for effects in self.effects]
        abouts = [ends[0], *(step.param for step in self.path[1:-1]), ends[1]]
        joined = []
        for step, about in zip(self.path, abouts, strict=True):
            kind = ": ".join(filter(None, (step.type, about)))
            shown = f"{step.node} ({kind})" if step.type else step.node
            joined.append(f"{shown} --{step.key}--> " if step is not self.path[-1] else shown)
        hidden = len(joined) - 2 * _ENDS
        if hidden > 1:
            joined[_ENDS : _ENDS + hidden] = [f"... {hidden} more nodes ... --> "]
        return "".join(joined)


@attrs.frozen(kw_only=True)
class FoundFlows:
    """The data flows found in a workflow, one for each pair of ends; `more` if they are not all."""

    flows: tuple[DataFlow, ...] = ()
    more: bool = False

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The data flows found in a checked workflow, as problems: errors if denied, else warnings."""
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
    """Find the data flows through a checked workflow, from node to node, that a policy denies.

    With `every`, also find those that no rule is about, from untrusted outputs to nodes that are destructive
    or send data. `given` names the inputs of a run.
    """
    search = FlowSearch(DataMovement(checked, given), policy)
    found = search.run(search.denied)
    if every and not found.more:
        others = search.run(search.unruled, MOST_FLOWS - len(found.flows))
        found = FoundFlows(flows=(*found.flows, *others.flows), more=others.more)
    return found


class FlowSearch:
    """The search for how data moves through a workflow, breadth first from each node where it may begin.

    A node from which no end can be reached is looked at once, however many beginnings lead to it. With the
    limit on the flows found, this keeps the search proportional to the size of the workflow. `denied` has,
    for the number of each node where a denied flow may begin, the nodes where it ends, as bits; `unruled` the
    same for flows from untrusted outputs to harmful nodes that no rule is about.
    """

    def __init__(self, movement: DataMovement, policy: FlowPolicy) -> None:
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

    def _matching(self, word: str) -> int:
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
        """Yield a shortest data flow to each of the ends that are reached, nearest first."""
        before: dict[int, int] = {}
        seen = self._dead.get(ends, 0)
        layer = [] if seen >> begin & 1 else [begin]
        reached = False
        while layer:
            following = []
            for current in layer:
                fresh = self._movement.readers(current) & ~seen
                seen |= fresh
                following += (found := list(places_in(fresh)))
                before.update(dict.fromkeys(found, current))
            for end in (place for place in following if ends >> place & 1):
                reached = True
                path = [end, before[end]]
                while path[-1] != begin:
                    path.append(before[path[-1]])
                yield path[::-1]
            layer = following
        if not reached:
            # The beginning may itself be an end that others lead to.
            self._dead[ends] = seen | 1 << begin & ~ends

    def _flow(self, places: list[int]) -> DataFlow:
        links = [self._movement.link(one, other) for one, other in pairwise(places)]
        params, keys = ["", *(param for _, param in links)], [*(key for key, _ in links), ""]
        nodes = self._movement.nodes
        begin = nodes[places[0]] if places[0] < len(nodes) else None
        end = nodes[places[-1]]
        ends = self.denied.get(places[0], 0)  # except those that another rule allows
        denying = (
            rule.path
            for rule in self._policy.deny
            if self._matching(rule.begin) >> places[0] & 1
            and (ends & self._matching(rule.end)) >> places[-1] & 1
        )
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
            rule=next(denying, ""),
        )
