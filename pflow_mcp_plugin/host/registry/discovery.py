"""Finds the registry's nodes that a task in words needs: a set that covers its clauses, without any model.

Each clause is a need. A node is scored for it by its own words (BM25, synonyms included), by how well
the other nodes of its family fit the task, and by its match with the task as a whole. Nodes are then
chosen one by one; a need that is already answered counts less for the next choice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from typing import TypeVar

import attrs

from pflow_mcp_plugin.contract import Discovery, Entry, Match
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.matching.model_ranking import ModelRanking
from pflow_mcp_plugin.host.matching.task_fit import RIVALS, Described, NodeConfidence, Place, TaskFit
from pflow_mcp_plugin.host.matching.task_words import clause_texts, clauses, roots, synonyms, words
from pflow_mcp_plugin.host.registry.node_index import Columns, Index, NodeRow

_Item = TypeVar("_Item")
Scores = Mapping[int, float]
"""Discovery's scores of nodes by their number in the index; higher is better."""
_DETAILS = 0.5
"""The weight of a word in the details of a node's description, for discovery's confidence."""
_COLUMNS = Columns(node=0, name=6, family=3, description=2.5, params=1)


@attrs.frozen(kw_only=True)
class FoundNode:
    """A node that discovery found for a task: its row of the index, with its score, and its entry."""

    row: NodeRow
    entry: Entry

    def to_dict(self) -> dict[str, JSON]:
        return {**self.row.to_dict(), **self.entry.to_dict()}


@attrs.frozen(kw_only=True)
class Found:
    """What discovery found for a task, before a language model reorders it: rows of the index, best first.

    `note` says why embeddings were not used although they should have been; `wordless` is the reason to give
    for a node that shares no word with the task. `by_words` are the best rows by words alone, if not `rows`.
    """

    rows: Sequence[NodeRow]
    ranked_by: str = "words"
    note: str = ""
    wordless: str = ""
    by_words: Sequence[NodeRow] | None = None


_WORTH_A_LOOK = 0.02
"""How likely a node is to be right, beside the best, at least. Of the tools that the tasks of
`benchmarks/discover.py` need, this leaves out none among 527 tools, and one in a hundred among few."""


def fitting(found: Discovery[_Item]) -> Discovery[_Item]:
    """Return what discovery found by words, the most likely first, without nodes far below the best.

    An order by a model, or by meaning, is kept: the confidence comes from words alone.
    """
    if found.ranked_by != "words" or not found.matches:
        return found
    ordered = sorted(found.matches, key=lambda match: -match.confidence)
    least = _WORTH_A_LOOK * ordered[0].confidence
    return attrs.evolve(found, matches=[match for match in ordered if match.confidence >= least])


# The weights by which nodes are scored and a set is chosen; tuned with `benchmarks/discover.py`.
_SYNONYM = 0.85  # of a match of a synonym, relative to one of the word itself
_FAMILY = 0.5  # of the best nodes of a node's family, relative to its own match
_TASK = 0.25  # of a node's match with the whole task, relative to that with the clause
_EVENNESS = 0.5  # 0 prefers the clause with the strongest matches, 1 makes all clauses equal
_ANSWERED = 0.95  # how much of a need is left once its best match is chosen
_TWIN = 0.6  # the factor for a node when one with the same description is chosen
_CANDIDATES = 60  # how many nodes are considered for each need
# Where only the best node of a clause counts, its family says more; tuned with `benchmarks/plan.py`.
_SYNONYM_ALONE, _FAMILY_ALONE = 0.8, 1.0


def discover(index: Index, task: str, limit: int) -> list[NodeRow]:
    """Discover at most `limit` nodes that a task needs by words: best first, spread over its clauses."""
    needs = [need for need in _needs(index, clauses(task), _SYNONYM, _FAMILY) if need]
    rows = index.rows_of({node for need in needs for node in need})
    taken = _spread(needs, rows, limit)
    return [rows[number]._replace(score=score) for number, score in taken.items()]


def described(entry: Entry) -> Described:
    """Describe a node for its discovery; most of its description after the first sentence is detail."""
    params = " ".join(f"{field.key} {field.description}" for field in entry.interface.params)
    return Described.of(
        entry.local_name or entry.node,
        entry.description,
        Place("family", roots(entry.family or entry.source), 0.9),
        Place("parameters", roots(params), _DETAILS),
        details=_DETAILS,
    )


def _needs(index: Index, parts: Sequence[Iterable[str]], synonym: float, family: float) -> list[Scores]:
    """Score how well nodes meet each need of a task, one per part; `synonym` and `family` are weights."""
    matches = cache(partial(index.matches, columns=_COLUMNS))

    @cache
    def meant(word: str) -> Scores:
        # A node's best match counts, with the word or with one of its synonyms.
        best = dict(matches(word))
        for other in synonyms(word):
            for node, score in matches(other).items():
                best[node] = max(best.get(node, 0.0), score * synonym)
        return best

    def total(words: Iterable[str]) -> Scores:
        scores: dict[int, float] = {}
        for word in words:
            for node, score in meant(word).items():
                scores[node] = scores.get(node, 0.0) + score
        return scores

    whole = total(dict.fromkeys(word for part in parts for word in part))
    families = index.families()
    best: dict[str, list[float]] = {}
    for node, score in whole.items():
        best.setdefault(families[node], []).append(score)
    # How well each family fits the task: the mean of its best three.
    company = {name: sum(nlargest(3, scores)) / 3 for name, scores in best.items()}
    needs: list[Scores] = []
    for part in parts:
        scores = {
            node: score + family * company[families[node]] + _TASK * whole[node]
            for node, score in total(part).items()
        }
        needs.append(dict(nlargest(_CANDIDATES, scores.items(), key=itemgetter(1))))
    return needs


def _spread(needs: Sequence[Scores], rows: Mapping[int, NodeRow], limit: int) -> dict[int, float]:
    # The higher the evenness, the less a clause with high scores crowds out the others.
    tops = [max(need.values()) or 1.0 for need in needs]
    left = [1 / top**_EVENNESS for top in tops]
    worth = dict.fromkeys(rows, 1.0)
    taken: dict[int, float] = {}
    while worth and len(taken) < limit:
        gains = {
            # What a node adds to the need that it answers best.
            node: worth[node]
            * max(rest * need.get(node, 0.0) for need, rest in zip(needs, left, strict=True))
            for node in worth
        }
        chosen = max(gains, key=lambda node: (gains[node], -node))
        taken[chosen] = gains[chosen]
        del worth[chosen]
        for number, need in enumerate(needs):
            left[number] *= 1 - (1 - _ANSWERED) * need.get(chosen, 0.0) / tops[number]
        description = rows[chosen].description
        for node in worth:
            # The same description, as for a node of a second such server.
            if description and rows[node].description == description:
                worth[node] *= _TWIN
    return taken


@attrs.frozen(eq=False)
class NodeDiscovery:
    """Discovers nodes by their words, by meaning with the extra `[semantic]`, and by a model if chosen."""

    index: Index
    find: Callable[[str], Entry | None]
    setting: Callable[[str], str | None]
    semantic: Callable[[Index, str, int], Found] | None

    def whole(self, task: str, limit: int) -> Discovery[FoundNode]:
        ranking = ModelRanking("nodes", self.setting)
        candidates = min(ranking.candidates(limit), sys.maxsize)
        most = max(candidates, RIVALS)
        if self.semantic is None:
            first = Found(rows=discover(self.index, task, most))
        else:
            first = self.semantic(self.index, task, most)
        rows = {row.node: row for row in first.rows}
        offered = {name: row.description for name, row in islice(rows.items(), candidates)}
        names, ranked_by, note = ranking.rank(task, offered, limit, first.ranked_by)
        # Each node is compared with the best by words.
        best = first.rows if first.by_words is None else first.by_words
        rivals = (self.find(row.node) for row in islice(best, RIVALS))
        fit = TaskFit(task, self.index.size(), self.index.frequency)
        confidence = NodeConfidence(fit, [described(entry) for entry in rivals if entry is not None])
        matches = []
        for name in names:
            if (entry := self.find(name)) is not None:
                sure, reason = confidence.judge(described(entry))
                found = FoundNode(row=rows[name], entry=entry)
                matches.append(Match(item=found, confidence=sure, reason=reason or first.wordless))
        notes = "; ".join(filter(None, (first.note, note)))
        return Discovery(matches=matches, ranked_by=ranked_by, note=notes)

    def by_clause(self, task: str, most: int, limit: int) -> list[tuple[str, list[Match[FoundNode]]]]:
        """Return what discovery finds for each clause: its text, and nodes with confidences for it alone."""
        texts = clause_texts(task)[:most]
        fit = TaskFit("\n".join(texts), self.index.size(), self.index.frequency)
        needs = _needs(self.index, [words(text) for text in texts], _SYNONYM_ALONE, _FAMILY_ALONE)
        best = [nlargest(limit, need.items(), key=itemgetter(1)) for need in needs]
        rows = self.index.rows_of({node for need in best for node, _ in need})
        found = []
        for number, need in enumerate(best):
            matches = []
            for node, score in need:
                if entry := self.find(rows[node].node):
                    one = fit.clause(number, described(entry))
                    item = FoundNode(row=rows[node]._replace(score=score), entry=entry)
                    matches.append(Match(item=item, confidence=one.degree, reason=one.reason))
            found.append((texts[number], matches))
        return found
