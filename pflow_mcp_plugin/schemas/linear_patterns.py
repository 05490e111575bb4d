r"""Decides which regular expressions Python's `re` matches in linear time, whatever the text.

`re` backtracks, so that a pattern from a server can take exponential time, and cannot be interrupted.
Only patterns that cannot backtrack far are accepted: a plain sequence of characters and classes, each
optionally repeated, without groups, alternatives or lookaround.

- If a repeat has a variable length, no item that may follow it shares a character with it: then
  backtracking fails at the next character, and no character is examined more often than the pattern
  has items.
- A pattern that does not begin with `^` is tried at every position of the text: the distance it may
  examine from there is bounded.

Also rejected are classes that mean more in JavaScript, which most servers use, than in Python: its
`\W` includes the letter é, Python's does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

_LONGEST = 200
_FAR = 32
_ASCII = "".join(map(chr, range(128)))
_OTHERS = "not ASCII"
_ITEM = re.compile(
    r"""
    (?P<atom>
        [^\\.^$*+?{}()|\[\]]
      | \.
      | \\ [dwsnrtfv!-/:-@\[-`{-~]
      | \[ \^?+ (?: \\ [dwsnrtfv!-/:-@\[-`{-~] | (?! -- | && | ~~ | \|\| ) [^\\\[\]] )+ \]
    )
    (?P<count> [*+?] | \{ [0-9]{1,4} (?: , [0-9]{0,4} )? \} )?
    (?! [*+?{] )
    """,
    re.VERBOSE,
)
_CLASS = re.compile(r"\\[dws]")
_SIGNS = {"*": (0, inf), "+": (1, inf), "?": (0, 1)}


class _Item(NamedTuple):
    """A set of characters (ASCII ones; `_OTHERS` stands for all others), and its repetition."""

    characters: frozenset[str]
    least: int
    most: float


class _NotPlain(Exception):
    """The pattern contains something other than items."""


def is_linear(pattern: str) -> bool:
    """Whether `re.search` matches a pattern in linear time; False if that is not certain."""
    if len(pattern) > _LONGEST or not pattern.isprintable():
        return False
    try:
        items = list(_items(pattern.removeprefix("^").removesuffix("$")))
        re.compile(pattern)
    except (re.error, _NotPlain):
        return False
    return _has_one_way(items) and (pattern.startswith("^") or _reach(items, pattern) <= _FAR)


def shortest_match(pattern: str) -> str:
    """Return a short text that matches a plain pattern, linear or not; empty if none is found."""
    if len(pattern) > _LONGEST:
        return ""
    try:
        items = list(_items(pattern.removeprefix("^").removesuffix("$")))
        text = "".join(_typical(item.characters) * min(item.least, _LONGEST) for item in items)
        return text if len(text) <= _LONGEST and re.search(pattern, text) else ""
    except (re.error, _NotPlain, OverflowError):
        return ""


def _typical(characters: frozenset[str]) -> str:
    plain = sorted(it for it in characters if it != _OTHERS and it.isprintable())
    return next((it for it in plain if it.isalnum()), plain[0] if plain else "é")


def _items(body: str) -> Iterator[_Item]:
    place = 0
    while place < len(body):
        found = _ITEM.match(body, place)
        if found is None:
            raise _NotPlain
        yield _Item(_characters(found["atom"]), *_bounds(found["count"] or "{1}"))
        place = found.end()


def _characters(atom: str) -> frozenset[str]:
    has_class = _CLASS.search(atom) is not None
    if has_class and atom.startswith("[^"):
        raise _NotPlain  # JavaScript's classes are smaller, so their negation matches more
    reaches_beyond = has_class or atom == "." or atom.startswith("[^") or not atom.isascii()
    return frozenset([*re.findall(atom, _ASCII), *([_OTHERS] if reaches_beyond else [])])


def _bounds(count: str) -> tuple[int, float]:
    if count in _SIGNS:
        return _SIGNS[count]
    least, comma, most = count[1:-1].partition(",")
    return int(least), float(most) if most else inf if comma else int(least)


def _has_one_way(items: Sequence[_Item]) -> bool:
    """Whether no repeat of variable length shares a character with an item that may follow it."""
    return all(
        item.least == item.most or item.characters.isdisjoint(following.characters)
        for place, item in enumerate(items)
        for following in _next(items[place + 1 :])
    )


def _next(items: Sequence[_Item]) -> Iterator[_Item]:
    for item in items:
        yield item
        if item.least:
            return


def _reach(items: Sequence[_Item], pattern: str) -> float:
    """Return how many characters may be examined from one position before the match fails."""
    *before, last = items or [_Item(frozenset(), 0, 0)]
    return sum(item.most for item in before) + (last.most if pattern.endswith("$") else last.least)
