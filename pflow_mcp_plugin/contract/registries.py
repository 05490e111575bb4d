"""A registry as any host offers it to plugins: the entries of all node types, from all sources."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract.problems import PflowError, Problem, problem_of

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.entries import Entry
    from pflow_mcp_plugin.contract.libraries import Discovery


class Registry(ABC):
    """Base class of any host's registry: every node type that is known, from all sources."""

    @abstractmethod
    def get(self, node_type: str) -> Entry:
        """Return the entry of a node type or alias from any host's registry.

        Raises:
            PflowError: Kind `not_found`, with the nearest names and what provides the node.
        """

    @abstractmethod
    def entries(self, pattern: str = "") -> Iterator[Entry]:
        """Yield the entries in any host's registry by name, only those whose name contains `pattern`."""

    def fingerprint(self) -> str:
        """Return a text that changes with the entries of any host's registry; by default, it reads them."""
        return repr([(entry.node, entry.fingerprint, entry.purity) for entry in self.entries()])

    def find(self, node_type: str) -> Entry | None:
        """Return the entry of a node type or alias from any host's registry, None if it does not exist."""
        try:
            return self.get(node_type)
        except PflowError as error:
            if error.kind != "not_found":  # for example, a source that cannot be read
                raise
            return None

    def describe(self, node_types: Iterable[str]) -> list[Entry]:
        """Return the entries of several node types or aliases from any host's registry, in this order.

        Raises:
            PflowError: Kind `not_found`: names every unknown one as `get` does, with a problem for each;
                `details["entries"]` has the JSON form of the entries of the others.
        """
        known: list[Entry] = []
        unknown: list[PflowError] = []
        wanted = list(dict.fromkeys(node_types))
        for node_type in wanted:
            try:
                known.append(self.get(node_type))
            except PflowError as error:
                if error.kind != "not_found":
                    raise
                unknown.append(error)
        if not unknown:
            return known
        first, is_single = unknown[0], len(unknown) == 1
        if len(wanted) == 1:
            raise first
        problems = tuple(map(problem_of, unknown))
        raise PflowError(
            first.message if is_single else f"{len(unknown)} node types are unknown",
            details={"entries": [entry.to_dict() for entry in known]},
            suggestions=first.suggestions if is_single else (),
            problems=problems,
            kind="not_found",
        )

    def search(self, words: str, limit: int = 20) -> Sequence[tuple[Entry, float]]:
        """Return the entries in any host's registry that match, best first, each with its score.

        By default, the score is the share of the words that occur in the name or the description.
        """
        from pflow_mcp_plugin.contract.libraries import share_of_words

        scored = ((it, share_of_words(words, f"{it.node} {it.description}")[0]) for it in self.entries())
        found = [(entry, score) for entry, score in scored if score]
        return sorted(found, key=lambda pair: (-pair[1], pair[0].node))[:limit]

    def count(self, words: str) -> int:
        """Return how many entries `search` would find in any host's registry without a limit.

        By default, it searches without one.
        """
        return len(self.search(words, sys.maxsize))

    def discover(self, task: str, limit: int = 10) -> Discovery[Entry]:
        """Return the entries in any host's registry that a task in words needs, each complete.

        By default, those of `search`, with the share of the words that they contain as confidence.
        """
        from pflow_mcp_plugin.contract.libraries import Discovery, Match, share_of_words

        entries = (entry for entry, _ in self.search(task, limit))
        ranked = ((entry, share_of_words(task, f"{entry.node} {entry.description}")) for entry in entries)
        return Discovery(
            matches=[Match(item=entry, confidence=share, reason=reason) for entry, (share, reason) in ranked]
        )

    def withhold_code(self, reason: Problem) -> None:
        """Withhold the entries, from any source, of nodes that run programs or code of a workflow's choice.

        From then on, until the process ends, their entries are `withheld`, so that nothing that uses them
        runs, and lists and searches leave them out.

        Args:
            reason: Why, and what to do.

        Raises:
            PflowError: Kind `usage`: the host cannot; by default always.
        """
        raise PflowError("This pflow cannot withhold nodes that run code", kind="usage")
