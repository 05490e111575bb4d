"""The differences between two versions of a tool, as lines for people.

What differs comes from a server that may try to hide it: characters that cannot be seen or told apart are
escaped, dangerous differences stand first where not all fit, and all lengths are bounded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.printable_text import escape, one_line
from pflow_mcp_plugin.trust.json_excerpt import excerpt
from pflow_mcp_plugin.trust.look_alikes import plain_form

if TYPE_CHECKING:
    from pflow_mcp_plugin.trust.tool_danger import Difference, Verdict

_MOST = 40
"""Differences of one tool that are shown."""
_PLACES = 6
"""Places of one text that are shown."""
_AROUND = 6
"""Words that are shown before and after such a place."""
_LONGEST_FIELD = 160
_LONGEST_TEXT = 2_000
_LONGEST_VALUE = 300
_MOST_STEPS = 5_000_000
_MOST_WORDS = 50_000
_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[A-Za-z]")
_LIKE_LATIN = re.compile(r"[\u0370-\u058f]")
"""Letters of Greek, Cyrillic and Armenian, many of which look like Latin ones."""
_BLANK = "\u2800"
"""A letter of Braille that looks like a space."""


def lines(tool: str, verdict: Verdict) -> Iterator[str]:
    """Yield how a tool differs, in lines for a terminal: printable and bounded.

    Args:
        tool: Its name.
        verdict: How it differs. What is dangerous is marked with `!`, and with `~` what is not.
    """
    yield f"{_cut(unmistakable(tool), _LONGEST_FIELD)}: {verdict.kind}"
    chosen = verdict.differences
    if len(chosen) > _MOST:
        chosen = tuple(sorted(chosen, key=lambda each: not each.dangerous)[:_MOST])
    for difference in chosen:
        yield from _lines(difference)
    if len(verdict.differences) > _MOST:
        yield f"  and {len(verdict.differences) - _MOST:,} more"


def unmistakable(text: str) -> str:
    """Return a text in one line, with escapes for the characters that cannot be seen or told apart."""
    if not text.isascii():
        is_latin = len(_LATIN.findall(text)) > len(_LIKE_LATIN.findall(text))
        text = _WORD.sub(lambda found: _told_apart(found[0], is_latin=is_latin), text)
        text = text.replace(_BLANK, escape(_BLANK))
    return one_line(text)


def _told_apart(word: str, *, is_latin: bool) -> str:
    """Escape the letters of a word that look like Latin ones but are not, in Latin words or among them."""
    strange = _LIKE_LATIN.findall(word)
    if not strange or not (_LATIN.search(word) or (is_latin and plain_form(word).isascii())):
        return word
    return _LIKE_LATIN.sub(lambda found: escape(found[0]), word)


def _lines(difference: Difference) -> Iterator[str]:
    mark, field = "!" if difference.dangerous else "~", _cut(unmistakable(difference.field), _LONGEST_FIELD)
    yield f"  {mark} {field}: {unmistakable(difference.what)}"
    if isinstance(difference.old, str) and isinstance(difference.new, str):
        yield from _text_lines(difference.old, difference.new)
        return
    for sign, value in (("-", difference.old), ("+", difference.new)):
        if value is not None:
            yield f"      {sign} {_shown(value)}"


def _shown(value: JSON) -> str:
    if isinstance(value, str):
        return _cut(unmistakable(" ".join(value.split())), _LONGEST_TEXT)
    return _cut(unmistakable(json.dumps(excerpt(value), ensure_ascii=False)), _LONGEST_VALUE)


def _text_lines(old: str, new: str) -> Iterator[str]:
    """Yield the places at which two texts differ, each with the words around it."""
    before, after = _words(old), _words(new)
    places = list(_places(before, after))
    if not places:
        yield "      (whitespace only)"
        return
    chosen = sorted(sorted(places, key=_weight, reverse=True)[:_PLACES])
    for start, end, first, last in chosen:
        if before:
            yield f"      - {_around(before, start, end)}"
        if after:
            yield f"      + {_around(after, first, last)}"
    if len(places) > len(chosen):
        yield f"      and {len(places) - len(chosen):,} more places"


def _weight(place: tuple[int, int, int, int]) -> tuple[int, int]:
    start, end, first, last = place
    return last - first, end - start


def _words(text: str) -> list[str]:
    return text.split(None, _MOST_WORDS)


def _around(words: Sequence[str], start: int, end: int) -> str:
    head = "... " if start > _AROUND else ""
    tail = " ..." if end + _AROUND < len(words) else ""
    left, right = " ".join(words[max(0, start - _AROUND) : start]), " ".join(words[end : end + _AROUND])
    middle = _cut(unmistakable(" ".join(words[start:end])), _LONGEST_TEXT)
    parts = (_cut(unmistakable(left), _LONGEST_VALUE), middle, _cut(unmistakable(right), _LONGEST_VALUE))
    return head + " ".join(part for part in parts if part) + tail


def _places(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where words differ: start and end in the old ones, start and end in the new ones."""
    shorter = min(len(old), len(new))
    first = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    most = shorter - first
    last = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    if not before and not after:
        return
    counts = Counter(after)
    steps = sum(counts[word] for word in before) * (min(len(before), len(after)) + 1)
    if steps > _MOST_STEPS:
        yield first, first + len(before), first, first + len(after)
        return
    for start, end, start_of_new, end_of_new in _joined(_opcodes(before, after)):
        yield start + first, end + first, start_of_new + first, end_of_new + first


def _opcodes(before: list[str], after: list[str]) -> Iterator[tuple[int, int, int, int]]:
    from difflib import SequenceMatcher  # needed by a sync that found changes only

    for tag, *place in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield place[0], place[1], place[2], place[3]


def _joined(places: Iterator[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Join places with only a few words between them."""
    held: tuple[int, int, int, int] | None = None
    for place in places:
        if held and place[0] - held[1] <= _AROUND:
            held = held[0], place[1], held[2], place[3]
            continue
        if held:
            yield held
        held = place
    if held:
        yield held


def _cut(text: str, most: int) -> str:
    """Return the start and the end of a long text, and how much was left out between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} more characters) ... {text[-half:]}"
