"""Which of the removed tools came back under another name."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping

import attrs

from pflow_mcp_plugin.trust import text_changes
from pflow_mcp_plugin.types import Tool

_BITS = 1_024
_WORDS = 600
_LIKENESS = 0.6


@attrs.frozen(kw_only=True)
class _Traits:
    """What a tool is recognised by: sets of words and arguments, as bits of a number."""

    text: int
    arguments: int
    name: int


def renamed(removed: Iterable[Tool], added: Iterable[Tool]) -> Iterator[tuple[Tool, Tool]]:
    """Yield each removed tool with the added one that seems to be the same, the most similar pairs first."""
    gone = [(tool, _traits(tool)) for tool in removed]
    came = [(tool, _traits(tool)) for tool in added]
    alike = [
        (likeness, a, b)
        for a, (_, one) in enumerate(gone)
        for b, (_, other) in enumerate(came)
        if (likeness := _likeness(one, other)) >= _LIKENESS
    ]
    used: tuple[set[int], set[int]] = set(), set()
    for _, a, b in sorted(alike, key=lambda it: (-it[0], it[1], it[2])):
        if a not in used[0] and b not in used[1]:
            used[0].add(a)
            used[1].add(b)
            yield gone[a][0], came[b][0]


def _likeness(one: _Traits, other: _Traits) -> float:
    """Return how alike two tools are, from 0 to 1: their text counts most, then arguments, then the name."""
    alike = total = 0.0
    for weight, mine, theirs in (
        (6, one.text, other.text),
        (3, one.arguments, other.arguments),
        (1, one.name, other.name),
    ):
        either = mine | theirs
        if either:
            total += weight
            alike += weight * (mine & theirs).bit_count() / either.bit_count()
    return alike / total if total else 0


def _traits(tool: Tool) -> _Traits:
    words = text_changes.words(tool.description[:20_000])[:_WORDS]
    known = tool.input_schema.get("properties") if isinstance(tool.input_schema, Mapping) else None
    arguments = [str(name) for name in known][:_WORDS] if isinstance(known, Mapping) else []
    return _Traits(
        text=_bits([*words, *(" ".join(pair) for pair in itertools.pairwise(words))]),
        arguments=_bits(arguments),
        name=_bits(text_changes.words(text_changes.spelled(tool.name[:200]))),
    )


def _bits(words: Iterable[str]) -> int:
    found = 0
    for word in words:
        found |= 1 << zlib.crc32(word.encode("utf-8", "surrogatepass")) % _BITS
    return found
