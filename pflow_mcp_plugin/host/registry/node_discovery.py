"""Finds the nodes that a task in words needs, each with a confidence and a reason."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin.contract import Discovery, Entry, Match
from pflow_mcp_plugin.host.matching.confidence import RIVALS, NodeConfidence
from pflow_mcp_plugin.host.matching.model_ranking import ModelRanking
from pflow_mcp_plugin.host.matching.task_fit import TaskFit
from pflow_mcp_plugin.host.matching.task_words import clause_texts, words
from pflow_mcp_plugin.host.registry.discovery import (
    ClauseNodes,
    Found,
    FoundNode,
    described,
    discover,
    discover_by_clause,
)
from pflow_mcp_plugin.host.registry.node_index import Index, NodeRow

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.registry.semantic_search import SemanticSearch


@attrs.frozen(eq=False)
class NodeDiscovery:
    """Discovers nodes by their words, by meaning with the extra `[semantic]`, and by a model if chosen.

    Attributes:
        index: The index of all nodes.
        find: Returns the entry of a node type, None if it is gone.
        setting: Returns one of the user's settings.
        semantic: The search by meaning; None without the extra.
    """

    index: Index
    find: Callable[[str], Entry | None]
    setting: Callable[[str], str | None]
    semantic: SemanticSearch | None

    def whole(self, task: str, limit: int) -> Discovery[FoundNode]:
        """Return the nodes that a task needs, best first.

        Args:
            task: The task in words.
            limit: How many nodes to return at most.
        """
        ranking = ModelRanking("nodes", self.setting)
        candidates = min(ranking.candidates(limit), sys.maxsize)
        first = self._found(task, max(candidates, RIVALS))
        rows = {row.node: row for row in first.rows}
        offered = {name: row.description for name, row in islice(rows.items(), candidates)}
        order = ranking.rank(task, offered, limit, first.ranked_by)
        confidence = self._confidence(task, first)
        found = ((rows[name], self.find(name)) for name in order.names)
        known = ((row, entry) for row, entry in found if entry is not None)
        matches = [_match(row, entry, confidence, first.wordless) for row, entry in known]
        note = "; ".join(filter(None, (first.note, order.note)))
        return Discovery(matches=matches, ranked_by=order.ranked_by, note=note)

    def by_clause(self, task: str, most: int, limit: int) -> list[ClauseNodes]:
        """Return the nodes that fit each clause of a task by their words.

        Args:
            task: The task in words.
            most: How many clauses to read; a longer task is cut.
            limit: How many nodes to return at most for a clause.
        """
        texts = clause_texts(task)[:most]
        fit = TaskFit("\n".join(texts), self.index.size(), self.index.frequency)
        found = []
        for number, rows in enumerate(discover_by_clause(self.index, list(map(words, texts)), limit)):
            known = ((row, entry) for row in rows if (entry := self.find(row.node)))
            fits = ((row, entry, fit.clause(number, described(entry))) for row, entry in known)
            matches = [
                Match(item=FoundNode(row=row, entry=entry), confidence=one.degree, reason=one.reason)
                for row, entry, one in fits
            ]
            found.append(ClauseNodes(text=texts[number], matches=matches))
        return found

    def _found(self, task: str, limit: int) -> Found:
        if self.semantic is None:
            return Found(rows=discover(self.index, task, limit))
        return self.semantic.discover(self.index, task, limit)

    def _confidence(self, task: str, first: Found) -> NodeConfidence:
        """Return the judge of nodes, which compares each with the best by words."""
        best = first.rows if first.by_words is None else first.by_words
        rivals = (self.find(row.node) for row in islice(best, RIVALS))
        fit = TaskFit(task, self.index.size(), self.index.frequency)
        return NodeConfidence(fit, [described(entry) for entry in rivals if entry is not None])


def _match(row: NodeRow, entry: Entry, confidence: NodeConfidence, wordless: str) -> Match[FoundNode]:
    sure, reason = confidence.judge(described(entry))
    return Match(item=FoundNode(row=row, entry=entry), confidence=sure, reason=reason or wordless)
