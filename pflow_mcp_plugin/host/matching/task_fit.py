"""How well something fits a task in words: a confidence from 0 to 1, and the words that it rests on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import attrs

from pflow_mcp_plugin.host.matching.task_words import (
    clauses,
    shipped_thesaurus,
    split_name,
    stem,
    tokens,
    words,
)

_SYNONYM = 0.8
"""The strength of a synonym, relative to the word itself."""
_UNKNOWN = 0.5
"""The weight of a word that occurs nowhere, often a name or a value, relative to a rare one."""
_DOUBT = 0.4
"""What remains of the doubt after each matching word."""
_UNSURE = 0.1
"""The doubt that matching words leave if what they describe is more than the task."""
_REASONS = 6
"""The most words that a reason names."""
# Beyond the endings that `stem` removes: nouns and adjectives that are made of verbs.
_DERIVED = re.compile(r"(?<=\w{4})(?:(?:at)?(?:ion|or|ive)|at|ment|er|al|able|[ae]nce)$")
_SENTENCE = re.compile(r"[.!?](?:\s|$)|\n\s*\n|[\u3002\uff01\uff1f]")


@attrs.frozen
class Place:
    """A part of what is described, in which words of a task may occur.

    Attributes:
        label: What reasons call it.
        roots: The roots of its words.
        weight: The strength of a match in it, from 0 to 1.
    """

    label: str
    roots: frozenset[str]
    weight: float = 1.0


@attrs.frozen(kw_only=True)
class Described:
    """What may fit a task, as its words.

    Attributes:
        places: Its parts, the one that says most first.
        gist: The roots of what it does in short; a task that says no more and no less fits it exactly.
    """

    places: tuple[Place, ...]
    gist: frozenset[str]

    @classmethod
    def of(cls, name: str, description: str, *others: Place, details: float = 1.0) -> Described:
        """Describe something by its name, its description and other parts.

        Args:
            name: Its name.
            description: What it does, the first sentence in short.
            others: Its other parts.
            details: The weight of the description after the first sentence.
        """
        short, *rest = _SENTENCE.split(description.strip(), maxsplit=1)
        return cls(
            places=(
                Place("name", roots(name)),
                Place("description", roots(short)),
                Place("description", roots(" ".join(rest)), details),
                *others,
            ),
            gist=frozenset(map(_root, words(short) or words(split_name(name)))),
        )

    @property
    def roots(self) -> frozenset[str]:
        """The roots of all its words."""
        return frozenset().union(*(place.roots for place in self.places))


@attrs.frozen
class _Hit:
    """A word of a task that occurs in a place, perhaps as a synonym."""

    word: str
    found: str
    place: Place
    strength: float


@attrs.frozen
class Fit:
    """How well something fits a task.

    Attributes:
        confidence: From 0 to 1.
        reason: Which words it rests on; empty if there are none.
    """

    confidence: float
    reason: str


class TaskFit:
    """Judges what may fit a task.

    Args:
        task: The task in words.
        size: How many things there are.
        frequency: Returns how many of them contain a word.
    """

    def __init__(self, task: str, size: int, frequency: Callable[[str], int]) -> None:
        self._clauses = clauses(task)
        others = shipped_thesaurus().others
        self._size = size
        self._frequency = cache(frequency)
        self._meanings = {word: others(word) for part in self._clauses for word in part}
        self._weights = {word: self._weight(word) for word in self._meanings}

    def whole(self, described: Described) -> Fit:
        """Return how well something does the whole task."""
        return self._fit(list(self._meanings), described)

    def part(self, described: Described) -> Fit:
        """Return how well something does the whole task or one of its clauses, whichever it fits best."""
        fits = [self.whole(described), *(self._fit(clause, described) for clause in self._clauses)]
        return max(fits, key=lambda fit: fit.confidence)

    def _fit(self, wanted: Sequence[str], described: Described) -> Fit:
        hits = [hit for word in wanted if (hit := self._hit(word, described.places))]
        if not hits:
            return Fit(0.0, "")
        total = sum(self._weights[word] for word in wanted)
        answered = sum(self._weights[hit.word] * hit.strength for hit in hits) / total
        certain = min(1 - _UNSURE, 1 - _DOUBT ** sum(self._telling(hit) for hit in hits))
        said = {_root(part) for hit in hits for part in (hit.word, hit.found)}
        asked = len(said & described.gist) / len(described.gist) if described.gist else 0.0
        return Fit(round(answered * (certain + (1 - certain) * asked), 3), self._reason(hits))

    def _hit(self, word: str, places: Iterable[Place]) -> _Hit | None:
        """Return the strongest occurrence of a word or of a synonym."""
        forms = [(word, 1.0), *((other, _SYNONYM) for other in self._meanings[word])]
        hits = [
            _Hit(word, form, place, strength * place.weight)
            for place in places
            for form, strength in forms
            if _root(form) in place.roots
        ]
        return max(hits, key=lambda hit: hit.strength, default=None)

    def _weight(self, word: str) -> float:
        """Return the weight of a word: the rarer what it means is, the more it tells."""
        frequency = max(map(self._frequency, (word, *self._meanings[word])))
        return self._rarity(frequency) if frequency else _UNKNOWN * self._rarity(0)

    def _rarity(self, frequency: int) -> float:
        return math.log(1 + self._size / (frequency + 1))

    def _telling(self, hit: _Hit) -> float:
        """Return how much a hit tells, from 0 to 1: little for a word that much else contains."""
        return hit.strength * math.sqrt(self._weights[hit.word] / (self._rarity(0) or 1.0))

    def _reason(self, hits: Sequence[_Hit]) -> str:
        """Return the words that occur, by place: `"price", "stock" in its name`."""
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


def roots(text: str) -> frozenset[str]:
    """Return the roots of all words of a text, those that clauses of a task would ask for among them."""
    return frozenset(map(_root, (*tokens(text), *words(text), *words(split_name(text)))))


@cache
def _root(word: str) -> str:
    return stem(_DERIVED.sub("", stem(word)))
