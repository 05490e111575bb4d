"""What a host found for a task in words: matches with a confidence and a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.validators import items, text

Found = TypeVar("Found")


@attrs.frozen(kw_only=True)
class Match(Generic[Found]):
    """A match that any host found for a task: a node type or a saved workflow.

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
    """What any host found for a task in words.

    Attributes:
        matches: The matches, best first.
        ranked_by: `words`, `words and embeddings`, or the name of the language model that ranked them.
        note: Why the configured model did not rank them; empty otherwise.
    """

    matches: Sequence[Match[Found]] = attrs.field(converter=items)
    ranked_by: str = attrs.field(default="words", validator=text)
    note: str = attrs.field(default="", validator=text)

    def to_list(self, to_dict: Callable[[Found], Mapping[str, JSON]]) -> list[dict[str, JSON]]:
        """Return what any host found in JSON form: each item with its `confidence` and `reason`.

        Args:
            to_dict: Returns the JSON form of an item.
        """
        return [
            {**to_dict(match.item), "confidence": round(match.confidence, 3), "reason": match.reason}
            for match in self.matches
        ]


def share_of_words(words: str, where: str) -> tuple[float, str]:
    """Return the share of a host's search words that occur in a text, and which ones, as a reason."""
    wanted = dict.fromkeys(words.lower().split())
    found = [word for word in wanted if word in where.lower()]
    return (len(found) / len(wanted) if wanted else 0.0), f"contains {', '.join(found)}" if found else ""
