"""A library of saved workflows as any host offers it, and what a host finds for a task in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import PflowError
from pflow_mcp_plugin.contract.validators import each, items, text, valid_name

Found = TypeVar("Found")


@attrs.frozen(kw_only=True)
class Match(Generic[Found]):
    """One item that a library of workflows, or a registry, finds for a task in words, and how well it fits.

    Attributes:
        item: What matches.
        confidence: How well, from 0 to 1.
        reason: Why, in a few words for people.
    """

    item: Found
    confidence: float = attrs.field()
    reason: str = attrs.field(default="", validator=text)

    @confidence.validator
    def _check_confidence(self, attribute: attrs.Attribute[float], value: float) -> None:
        if not 0 <= value <= 1:
            raise ValueError(f"Match.confidence must be from 0 to 1, got {value!r}")


@attrs.frozen(kw_only=True)
class Discovery(Generic[Found]):
    """What a library of saved workflows, or a registry, finds for a task in words, best first.

    Attributes:
        matches: The matches, best first.
        ranked_by: `words`, `words and embeddings`, or the name of the language model that ranked them.
        note: Why the configured model did not rank them; empty otherwise.
    """

    matches: Sequence[Match[Found]] = attrs.field(converter=items, validator=each(Match))
    ranked_by: str = attrs.field(default="words", validator=text)
    note: str = attrs.field(default="", validator=text)

    def to_list(self, to_dict: Callable[[Found], Mapping[str, JSON]]) -> list[dict[str, JSON]]:
        """Return what any host's library found, in JSON, each with `confidence` and `reason`.

        Args:
            to_dict: Returns the JSON form of an item.
        """
        return [
            {**to_dict(match.item), "confidence": round(match.confidence, 3), "reason": match.reason}
            for match in self.matches
        ]


def share_of_words(words: str, where: str) -> tuple[float, str]:
    """For a host's library: return the share of a task's words that a workflow's text contains, and which."""
    wanted = dict.fromkeys(words.lower().split())
    found = [word for word in wanted if word in where.lower()]
    return (len(found) / len(wanted) if wanted else 0.0), f"contains {', '.join(found)}" if found else ""


@attrs.frozen(kw_only=True)
class SavedWorkflow:
    """A saved workflow, as the library of any host describes it.

    Attributes:
        name: Its name in the library.
        description: Its description, possibly empty.
        version: Its version number, counted from 1.
        path: Its file.
        saved: When it was saved, as UTC time (ISO 8601); empty if the host does not know.
        inputs: Its declared inputs as in the workflow, by name.
        outputs: Its declared outputs as in the workflow, by name.
        problem: Why its file cannot be used; empty if it can.
    """

    name: str = attrs.field(validator=valid_name)
    description: str = attrs.field(default="", validator=text)
    version: int = 1
    path: Path
    saved: str = attrs.field(default="", validator=text)
    inputs: JSONObject = attrs.field(factory=dict)
    outputs: JSONObject = attrs.field(factory=dict)
    problem: str = attrs.field(default="", validator=text)

    def to_dict(self) -> dict[str, JSON]:
        """Return how any host's library describes a saved workflow in lists, as JSON."""
        return {**attrs.asdict(self, recurse=False), "path": str(self.path)}


class Library(ABC):
    """Base class of any host's library of saved workflows."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of the workflows in any host's library, sorted."""

    @abstractmethod
    def get(self, name: str, version: int | None = None) -> JSONObject:
        """Return a workflow from any host's library as JSON, by default its current version.

        Raises:
            PflowError: Kind `not_found`, with the nearest name; or its file is corrupt.
        """

    @abstractmethod
    def describe(self, name: str) -> SavedWorkflow:
        """Return how any host's library describes a saved workflow: version, file, time and more.

        Raises:
            PflowError: As for `get`.
        """

    def saved(self, pattern: str = "") -> Sequence[SavedWorkflow]:
        """Return what any host's library says of its workflows, by name; broken ones have a problem.

        Args:
            pattern: Only those whose name or description contains it, in any case.
        """
        found: list[SavedWorkflow] = []
        for name in self.names():
            try:
                saved = self.describe(name)
            except PflowError as error:
                saved = SavedWorkflow(name=name, path=Path(name), problem=error.message)
            if pattern.lower() in f"{saved.name}\n{saved.description}".lower():
                found.append(saved)
        return found

    def discover(self, task: str, limit: int = 10) -> Discovery[SavedWorkflow]:
        """Return the workflows in any host's library that do what a task asks for, best first.

        By default, those that contain words of the task, with their share as confidence.
        """
        found: list[Match[SavedWorkflow]] = []
        for saved in self.saved():
            share, reason = share_of_words(task, f"{saved.name} {saved.description}")
            if share and not saved.problem:
                found.append(Match(item=saved, confidence=share, reason=reason))
        return Discovery(matches=sorted(found, key=lambda match: -match.confidence)[:limit])

    def fingerprint(self) -> str:
        """Return a text that changes when a workflow in any host's library is saved, changed or deleted."""
        return repr([(saved.name, saved.version, saved.saved) for saved in self.saved()])

    @abstractmethod
    def save(self, name: str, workflow: JSONObject, description: str = "") -> SavedWorkflow:
        """Save a workflow in any host's library; the one it replaces is kept as an older version.

        Args:
            name: Its name in the library.
            workflow: The workflow as loaded.
            description: What it is for; the workflow's own description when left empty.

        Raises:
            PflowError: Kind `usage` if the name is invalid; or it cannot be written.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a workflow from any host's library, with all its versions.

        Raises:
            PflowError: Kind `not_found`.
        """
