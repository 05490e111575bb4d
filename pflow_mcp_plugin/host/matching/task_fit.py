"""How well something fits a task in words, and how likely it is right: for nodes and saved workflows.

A fit is a degree from 0 to 1 and the words behind it. The confidence is the share of nodes, or workflows, of
this degree that are right. A node is likely to be needed if it fits a part of the task well and no other fits
as well. Among few nodes a middling fit is often the best one there and still not right, so the shares differ
with their number. They were measured with `python -m benchmarks.discover`, on tasks for which the right tools
are known; of the nodes found with 0.95 or more, at least 95 % were right. A saved workflow must do the whole
task, however many others nearly do, so only its own fit counts.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import itemgetter

import attrs

from pflow_mcp_plugin.contract import Match, SavedWorkflow
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.matching.task_words import clauses, root, roots, split_name, synonyms, words
from pflow_mcp_plugin.schemas.schema_reader import list_of, table_of

_SYNONYM = 0.8
"""The strength of a synonym, relative to the word itself."""
_UNKNOWN = 0.5
"""The weight, relative to a rare word, of a word that occurs nowhere; often it is a name or a value."""
_DOUBT = 0.4
"""The share of the doubt that remains after each matching word."""
_UNSURE = 0.15
"""The doubt that remains if the matching words describe something that does more than the task."""
_INCOMPLETE = 0.94
"""The highest degree if any word of the task does not match, however long the task is."""
_REASONS = 6
"""The most words that a reason names."""
RIVALS = 10
"""With how many of the best candidates a node is compared."""
_LEAD = 0.1
"""From this lead over the best rival on, the rival is no reason for doubt."""
_DOUBT_PER_LEAD = 3.0
"""How much of the fit is lost for each 1 that the lead is shorter."""
_MOST_DOUBT = 0.9
"""How much of the fit a rival can take away at most."""
_FEW, _MANY = 50, 500
"""The numbers of nodes for which the shares were measured; in between they are interpolated."""
_MEASURED = (
    (0.000, 0.002, 0.01),
    (0.035, 0.006, 0.03),
    (0.100, 0.010, 0.19),
    (0.200, 0.030, 0.22),
    (0.300, 0.060, 0.27),
    (0.400, 0.100, 0.46),
    (0.500, 0.220, 0.65),
    (0.600, 0.370, 0.75),
    (0.700, 0.580, 0.92),
    (0.800, 0.850, 0.96),
    (0.900, 0.960, 0.97),
    (1.000, 0.970, 0.98),
)
"""Evidence, and the share of the nodes with it that were right: among few nodes, and among many."""
_MEASURED_WORKFLOWS = (
    (0.00, 0.00),
    (0.40, 0.04),
    (0.55, 0.20),
    (0.65, 0.30),
    (0.75, 0.65),
    (0.85, 0.80),
    (0.93, 0.88),
    (0.95, 0.95),
    (1.00, 1.00),
)
"""The degree to which a workflow fits a task, and the share of such workflows that were right."""
_LEAST = 0.1
"""The least degree of fit of a workflow that is worth a look."""
_SENTENCE = re.compile(r"[.!?](?:\s|$)|\n\s*\n|[\u3002\uff01\uff1f]")


@attrs.frozen
class Place:
    """A part of something that may fit a task, in which the task's words may occur.

    `label` is what reasons call it, and `weight` the strength of a match in it, from 0 to 1.
    """

    label: str
    roots: frozenset[str]
    weight: float = 1.0


@attrs.frozen(kw_only=True)
class Described:
    """The words of something that may fit a task, by its parts, the most telling part first.

    `gist` has the roots of its short description; a task of exactly these words fits it best.
    """

    places: tuple[Place, ...]
    gist: frozenset[str]
    roots: frozenset[str] = attrs.field(init=False)

    @roots.default
    def _all_roots(self) -> frozenset[str]:
        return frozenset().union(*(place.roots for place in self.places))

    @classmethod
    def of(cls, name: str, description: str, *others: Place, details: float = 1.0) -> Described:
        """Describe something that may fit a task by its name, its description and other parts.

        `details` is the weight of the description after its first sentence.
        """
        short, *rest = _SENTENCE.split(description.strip(), maxsplit=1)
        further = " ".join(rest)
        gist = _asked(short)
        return cls(
            places=(
                Place("name", roots(name)),
                Place("description", roots(short) | gist),
                Place("description", roots(further) | _asked(further), details),
                *others,
            ),
            gist=gist or _asked(split_name(name)),
        )


@attrs.frozen
class _Form:
    word: str
    root: str
    strength: float


@attrs.frozen
class _Hit:
    word: str
    found: str
    place: Place
    strength: float


@attrs.frozen
class Fit:
    """How well something fits a task, from 0 to 1, and the words that match."""

    degree: float
    reason: str


class TaskFit:
    """Judges how well each of `size` things fits a task; `frequency` says how many of them contain a word."""

    def __init__(self, task: str, size: int, frequency: Callable[[str], int]) -> None:
        self._clauses = clauses(task)
        self._words = list(dict.fromkeys(word for part in self._clauses for word in part))
        self.size = size
        self._frequency = cache(frequency)
        self._forms: dict[str, list[_Form]] = {}
        self._weights: dict[str, float] = {}
        for word in self._words:
            others = [_Form(it, root(it), _SYNONYM) for it in synonyms(word)]
            forms = self._forms[word] = [_Form(word, root(word), 1.0), *others]
            # The rarer a word's meanings are, the more it says.
            frequent = max(self._frequency(form.word) for form in forms)
            self._weights[word] = self._rarity(frequent) if frequent else _UNKNOWN * self._rarity(0)

    def whole(self, described: Described) -> Fit:
        return self._fit(self._words, described)

    def clause(self, number: int, described: Described) -> Fit:
        return self._fit(self._clauses[number], described)

    def parts(self, described: Described) -> list[Fit]:
        """Return how well something fits the whole task, and each of its clauses if there are several."""
        several = self._clauses if len(self._clauses) > 1 else []
        return [self._fit(wanted, described) for wanted in (self._words, *several)]

    def _fit(self, wanted: Sequence[str], described: Described) -> Fit:
        hits: list[_Hit] = []
        for word in wanted:
            # The strongest occurrence of the word or of a synonym counts.
            found = [
                _Hit(word, form.word, place, form.strength * place.weight)
                for form in self._forms[word]
                if form.root in described.roots
                for place in described.places
                if form.root in place.roots
            ]
            hits += [max(found, key=lambda hit: hit.strength)] if found else []
        if not hits:
            return Fit(0.0, "")
        total = sum(self._weights[word] for word in wanted)
        answered = sum(self._weights[hit.word] * hit.strength for hit in hits) / total
        certain = min(1 - _UNSURE, 1 - _DOUBT ** sum(self._telling(hit) for hit in hits))
        said = {root(part) for hit in hits for part in (hit.word, hit.found)}
        asked = len(said & described.gist) / len(described.gist) if described.gist else 0.0
        most = 1.0 if len(hits) == len(wanted) else _INCOMPLETE
        degree = min(most, answered * (certain + (1 - certain) * asked))
        return Fit(round(degree, 3), self._reason(hits))

    def _rarity(self, frequency: int) -> float:
        return math.log(1 + self.size / (frequency + 1))

    def _telling(self, hit: _Hit) -> float:
        """Return how much a matching word says about the fit, from 0 to 1: little if it is common."""
        return hit.strength * math.sqrt(self._weights[hit.word] / (self._rarity(0) or 1.0))

    def _reason(self, hits: Sequence[_Hit]) -> str:
        """Return the reason for a fit, the words by the part they are in: `"price", "stock" in its name`."""
        telling = sorted(hits, key=self._telling, reverse=True)[:_REASONS]
        literal: dict[str, list[str]] = {}
        for hit in telling:
            if hit.found == hit.word:
                literal.setdefault(hit.place.label, []).append(f'"{hit.word}"')
        parts = [f"{', '.join(found)} in its {label}" for label, found in literal.items()]
        parts += [
            f'"{hit.found}" in its {hit.place.label} as a synonym of "{hit.word}"'
            for hit in telling
            if hit.found != hit.word
        ]
        return "; ".join(parts)


def _asked(text: str) -> frozenset[str]:
    return frozenset(map(root, words(text)))


class NodeConfidence:
    """Turns a node's fit to a task into the confidence that it is right, given its best rivals' fits."""

    def __init__(self, fit: TaskFit, rivals: Iterable[Described]) -> None:
        self._fit = fit
        self._rivals = [(rival.gist, [part.degree for part in fit.parts(rival)]) for rival in rivals]

    def judge(self, described: Described) -> tuple[float, str]:
        # A node with the same description is an equal, such as one of a second such server.
        rivals = [degrees for gist, degrees in self._rivals if gist != described.gist]
        best = [max(degrees, default=0.0) for degrees in zip(*rivals, strict=True)]
        parts = self._fit.parts(described)
        beside = zip(parts, best or [0.0] * len(parts), strict=True)
        part, rival = max(beside, key=lambda pair: (_evidence(*pair), pair[0].degree))
        if not part.reason:
            return 0.0, ""
        among_few, among_many = _interpolated(_MEASURED, _evidence(part, rival))
        crowd = math.log(max(_FEW, min(_MANY, self._fit.size)) / _FEW) / math.log(_MANY / _FEW)
        reason = part.reason
        if part.degree <= rival:
            reason += "; another fits this better" if part.degree < rival else "; another fits this as well"
        return round(among_few + crowd * (among_many - among_few), 3), reason


def _evidence(part: Fit, rival: float) -> float:
    doubt = _DOUBT_PER_LEAD * (_LEAD - (part.degree - rival))
    return part.degree * (1 - min(_MOST_DOUBT, max(0.0, doubt)))


def workflow_confidence(degree: float) -> float:
    """Return the confidence that a workflow is right if it fits a task, as a whole, to this degree."""
    (share,) = _interpolated(_MEASURED_WORKFLOWS, degree)
    return round(share, 3)


def _interpolated(table: Sequence[tuple[float, ...]], value: float) -> list[float]:
    """Look up a degree of fit in the first column of a table; return the others, interpolated."""
    above = min(bisect_right(table, value, key=itemgetter(0)), len(table) - 1)
    (low, *least), (high, *most) = table[above - 1], table[above]
    way = (value - low) / (high - low)
    return [start + way * (end - start) for start, end in zip(least, most, strict=True)]


def match_workflows(
    task: str, workflows: Iterable[tuple[SavedWorkflow, JSONObject]]
) -> list[Match[SavedWorkflow]]:
    """Return how well each of some workflows fits a task as a whole: those that fit, best first."""
    described = [(saved, _described(saved, workflow)) for saved, workflow in workflows if not saved.problem]
    common = Counter(found for _, item in described for found in item.roots)
    fit = TaskFit(task, len(described), lambda word: common[root(word)])
    fits = ((saved, fit.whole(item)) for saved, item in described)
    matches = [
        Match(item=saved, confidence=workflow_confidence(found.degree), reason=found.reason)
        for saved, found in fits
        if found.degree >= _LEAST
    ]
    return sorted(matches, key=lambda match: (-match.confidence, match.item.name))


def _described(saved: SavedWorkflow, workflow: JSONObject) -> Described:
    texts = [
        text
        for node in map(table_of, list_of(workflow.get("nodes")))
        for key in ("id", "type", "purpose")
        if isinstance(text := node.get(key), str)
    ]
    return Described.of(
        saved.name,
        saved.description,
        Place("inputs", roots(_fields(saved.inputs)), 0.8),
        Place("outputs", roots(_fields(saved.outputs)), 0.8),
        Place("nodes", roots(" ".join(texts)), 0.7),
    )


def _fields(declared: JSONObject) -> str:
    texts = (table_of(field).get("description") for field in declared.values())
    return " ".join([*declared, *(text for text in texts if isinstance(text, str))])
