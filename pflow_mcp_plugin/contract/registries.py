"""A registry as any host offers it to plugins: the entries of all node types, from all sources."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract.problems import PflowError, Problem, problem_of

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.entries import Entry, NodeUse, Sketch
    from pflow_mcp_plugin.contract.json_types import JSONObject
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


class NodeSource(ABC):
    """Base class of a source of entries that a plugin contributes, one entry for each of its node types.

    A source is cheap to create: it reads nothing until a method is called, and it starts no server.

    Attributes:
        name: Unique among sources; `Entry.source` of its entries.
        prefixes: Its node types start with one of these, e.g. `("mcp-",)`.
        files: The files and folders it reads, each with its purpose; `config path` shows them.
    """

    name: str
    prefixes: tuple[str, ...]
    files: Mapping[Path, str] = MappingProxyType({})

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a string that changes with the entries of this source; at most 5 ms, `stat` only."""

    @abstractmethod
    def get(self, node_type: str) -> Entry | None:
        """Look a node type, or an alias, up for a host's registry; None if this source has none.

        Raises:
            PflowError: The source cannot be read.
        """

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Yield every entry of this source; called for lists and to build the search index only.

        Raises:
            PflowError: The source cannot be read; lists then leave it out and show the message.
        """

    def sketches(self) -> Iterator[Sketch]:
        """Yield a `Sketch` of every entry of this source; by default made from the whole entries.

        Raises:
            PflowError: As for `entries`.
        """
        from pflow_mcp_plugin.contract.entries import Sketch

        return map(Sketch.of, self.entries())

    def missing(self, node_type: str) -> Problem | None:
        """Explain to a registry why this source lacks a node type, and the next step; None by default."""
        return None

    def lacking(self, text: str) -> Iterable[Problem]:
        """Name what this source of entries could offer a search once something is done; nothing by default.

        Called for a filter, words or a task that the user typed, so it takes a few ms at most.

        Args:
            text: What the user typed.
        """
        return ()

    def unmet(self, uses: Iterable[NodeUse]) -> Iterable[Problem]:
        """Return what nodes with entries of this source need and this machine lacks; nothing by default.

        Called with every check of a workflow, before anything runs, so it takes a few ms at most.

        Args:
            uses: The uses of the source's nodes in the workflow, and in those that it runs.

        Returns:
            The problems. An error stops a run that certainly reaches one of these nodes and has no edge for
            its failure; otherwise it is shown as a warning.
        """
        return ()

    def upgrade(self, node: JSONObject) -> JSONObject | None:
        """Return today's form of a workflow's node that uses an older entry of this source; None keeps it."""
        return None

    def check_use(self, use: NodeUse) -> Iterable[Problem]:
        """Yield what this source finds wrong, for a registry, with a use of its node; by default nothing.

        Called with every check of a workflow and before every run, for each node, so that nothing has run
        when a mistake is found. The host itself checks that required params are there, that no unknown ones
        are, and their types; a source checks what only it knows. What concerns an `UNKNOWN` part is left to
        the run. It takes a few ms at most.

        Args:
            use: The node, its params, and what is read of its outputs.

        Returns:
            The problems. Their paths are relative to the params: `labels[0].name`; empty for the node as a
            whole. An error stops the run.
        """
        return ()
