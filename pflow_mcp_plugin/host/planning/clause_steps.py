"""The steps of a task, without a model: for each clause the node that its words fit best."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from pflow_mcp_plugin.contract import Entry, Match
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.matching.task_words import clause_texts, stem
from pflow_mcp_plugin.host.planning.own_nodes_asked import MODEL, SOURCE, asked_nodes, asks_for_text_only
from pflow_mcp_plugin.host.planning.task_literals import Literal, literals, place
from pflow_mcp_plugin.host.registry.discovery import ClauseNodes, FoundNode
from pflow_mcp_plugin.host.registry.node_index import NodeRow
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry

_LEAST = 0.05
"""The least confidence of a node in its clause, tuned with `benchmarks/plan.py`; below, nothing fits."""
_BOTH = 0.3
"""The least confidence of a node beside an own one that its clause asks for too, as in "post a summary"."""
_SURE = 0.5
"""The confidence from which a node does what an own one would do too, and that of an own one asked for."""
_FAR = 3
"""The first node of a clause gives way to one that is this many times as sure."""
_CLAUSES = 50
"""The clauses of a task that are read."""
_SEQUENCE = r"(?:afterwards|and|but|finally|first|firstly|last|lastly|later|next|plus|second|secondly|then)"
_LEADING = re.compile(rf"\A(?:{_SEQUENCE}\s+)+", re.IGNORECASE)
_NO_STEP = re.compile(rf"(?:\W*{_SEQUENCE}\b)+\W*", re.IGNORECASE)
"""A clause that only says when something happens."""
_BEFORE = re.compile(r"before\b", re.IGNORECASE)
_FIRST = re.compile(
    r"(?:and|but)\s+first\b|(?:(?:and|but)\s+)?(?:beforehand\b|before\s+that\b|\w+\s+first\s+(?:wh|how))",
    re.IGNORECASE,
)


@attrs.frozen(kw_only=True)
class Step:
    """A step of a plan: a node, and the clause of the task that it is for.

    Attributes:
        match: The node; its confidence is that in the clause.
        clause: The clause as written.
        given: The values that stand in the clause, by parameter.
    """

    match: Match[FoundNode]
    clause: str
    given: Mapping[str, JSON] = attrs.field(factory=dict)

    @property
    def entry(self) -> Entry:
        """The entry of the step's node."""
        return self.match.item.entry

    @property
    def is_own(self) -> bool:
        """Whether the step's node is one of the host's own."""
        return self.entry.source == SOURCE


@attrs.frozen(kw_only=True)
class Steps:
    """The steps of a task.

    Attributes:
        steps: The steps, in the order of the task.
        left_out: The clauses that no node fits.
        unread: How many further clauses the task has, which are not read.
        considered: The nodes that fit any clause, best first, each as it fits its best clause.
    """

    steps: Sequence[Step]
    left_out: Sequence[str]
    unread: int
    considered: Sequence[Match[FoundNode]]


def steps_of(task: str, registry: NodeRegistry) -> Steps:
    """Return the steps of a task; a clause that an earlier step does too adds none.

    Args:
        task: The task in words.
        registry: The node types that there are.
    """
    steps: list[Step] = []
    left_out: list[str] = []
    values: list[Literal] = []
    clauses = registry.discovered_by_clause(task, _CLAUSES)
    for clause in _in_order([clause for clause in clauses if not _NO_STEP.fullmatch(clause.text)]):
        text = _LEADING.sub("", clause.text)
        values += literals(text)
        chosen = list(_chosen(clause, values, registry))
        for match in chosen:
            step, values = _step(match, text, values)
            _add(steps, step)
        if chosen:
            values = []  # those of a clause that nothing fits belong to the next step
        else:
            left_out.append(text)
    if steps and values:
        last, _ = _step(steps[-1].match, steps[-1].clause, values)
        steps[-1] = attrs.evolve(last, given={**last.given, **steps[-1].given})
    unread = len(clause_texts(task)) - len(clauses)
    return Steps(steps=steps, left_out=left_out, unread=unread, considered=_considered(clauses))


def _considered(clauses: Iterable[ClauseNodes]) -> list[Match[FoundNode]]:
    best: dict[str, Match[FoundNode]] = {}
    for match in (match for clause in clauses for match in clause.matches):
        node = match.item.entry.node
        if node not in best or match.confidence > best[node].confidence:
            best[node] = match
    return sorted(best.values(), key=lambda match: -match.confidence)


def _in_order(clauses: Sequence[ClauseNodes]) -> list[ClauseNodes]:
    """Return clauses in the order in which they happen: "before you do this, do that" swaps two."""
    ordered: list[ClauseNodes] = []
    for clause in clauses:
        goes_first = _FIRST.match(clause.text) or (ordered and _BEFORE.match(ordered[-1].text))
        ordered.insert(len(ordered) - 1 if goes_first and ordered else len(ordered), clause)
    return ordered


def _chosen(
    clause: ClauseNodes, values: Sequence[Literal], registry: NodeRegistry
) -> Iterator[Match[FoundNode]]:
    """Yield the nodes that do a clause, in the order in which they run."""
    asked = asked_nodes(clause.text, values)
    best = _best([it for it in clause.matches if it.item.entry.source != SOURCE])
    if best is not None:
        asked = {own: word for own, word in asked.items() if not _does(best, own, word)}
    own = [match for name, word in asked.items() if (match := _own(name, word, clause, registry))]
    yield from own
    if best is not None and (not own or ([*asked] == [MODEL] and _is_beside_model(best, clause.text))):
        yield best


def _best(matches: Sequence[Match[FoundNode]]) -> Match[FoundNode] | None:
    """Return the node that fits a clause best, None if none does.

    The first is preferred for the other nodes of its family, unless its own words say far too little.
    """
    surest = max(matches, key=lambda match: match.confidence, default=None)
    if surest is None or surest.confidence < _LEAST:
        return None
    is_far = surest.confidence >= _BOTH and matches[0].confidence < surest.confidence / _FAR
    best = surest if is_far else matches[0]
    return best if best.confidence >= _LEAST else None


def _is_beside_model(best: Match[FoundNode], clause: str) -> bool:
    """Return whether a clause asks for a node beside the language model, as "post a summary"."""
    return best.confidence >= _BOTH and not asks_for_text_only(clause)


def _does(best: Match[FoundNode], own: str, word: str) -> bool:
    """Return whether a node surely does what a clause asks one of the host's own nodes for."""
    does_it = own != MODEL or stem(word.lower()) in _stem_words(best.reason)
    return does_it and best.confidence >= _SURE


def _stem_words(text: str) -> set[str]:
    """Return the words of a text without their endings."""
    return {stem(word) for word in re.findall(r"\w+", text.lower())}


def _own(name: str, word: str, clause: ClauseNodes, registry: NodeRegistry) -> Match[FoundNode] | None:
    """Return one of the host's own nodes as a match, None if it has been replaced."""
    entry = registry.find(name)
    if entry is None or entry.source != SOURCE:
        return None
    found = (it.confidence for it in clause.matches if it.item.entry.node == entry.node)
    return match_of(entry, max([_SURE, *found]), f'"{word}" asks for it')


def match_of(entry: Entry, confidence: float, reason: str = "") -> Match[FoundNode]:
    """Return a node that a step needs although discovery has not found it.

    Args:
        entry: Its entry.
        confidence: How well it fits.
        reason: Why.
    """
    row = NodeRow(entry.node, entry.source, entry.description, {})
    return Match(item=FoundNode(row=row, entry=entry), confidence=confidence, reason=reason)


def _step(match: Match[FoundNode], clause: str, values: Iterable[Literal]) -> tuple[Step, list[Literal]]:
    """Return a step with the literals that are obviously meant for it, and the other literals."""
    step = Step(match=match, clause=clause)
    # A language model is told the whole clause, and a reserved key is no param.
    is_told = step.is_own and step.entry.node == MODEL
    fields = [] if is_told else [it for it in step.entry.interface.params if not is_reserved(it.key)]
    given: dict[str, JSON] = {}
    others: list[Literal] = []
    for value in values:
        placed = place(value, [it for it in fields if it.key not in given])
        if placed:
            given[placed[0].key] = placed[1]
        else:
            others.append(value)
    return attrs.evolve(step, given=given), others


def _add(steps: list[Step], step: Step) -> None:
    """Add a step, unless one of the same node does it with the same values."""
    if not step.is_own:
        for number, earlier in enumerate(steps):
            same = earlier.entry.node == step.entry.node
            if same and all(earlier.given.get(key, value) == value for key, value in step.given.items()):
                steps[number] = _merged(earlier, step)
                return
    steps.append(step)


def _merged(earlier: Step, step: Step) -> Step:
    """Return one step for two clauses of a task."""
    surer = max(earlier, step, key=lambda one: one.match.confidence)
    clause = f"{earlier.clause}; {step.clause}"
    return attrs.evolve(earlier, match=surer.match, clause=clause, given={**earlier.given, **step.given})
