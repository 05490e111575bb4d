"""Which words of a text may be exchanged, added or dropped without changing what it says.

Everything here allows; no word makes a text suspicious. A word that is in none of these lists may only be
corrected. The lists are English: in other languages fewer corrections are recognised.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_OPTIONAL = (
    "a an the this that these those which it its is are be been being was were am do does did will of for in "
    "on at and you your also please simply just easily quickly given specified provided specific particular "
    "various certain corresponding respective here e g eg ie i s has have had"
)
_INSTEAD = (
    "get fetch retrieve obtain return",
    "show display",
    "find search lookup",
    "create make",
    "update modify edit",
    "directory folder",
    "argument parameter param arg",
    "information info detail",
    "configuration config",
    "documentation doc",
    "repository repo",
    "application app",
    "database db",
    "identifier id",
    "maximum max",
    "minimum min",
    "number num",
    "specification spec",
    "image img",
    "message msg",
    "administrator admin",
    "environment env",
    "variable var",
    "library lib",
    "package pkg",
    "use utilize",
    "using via with",
    "required necessary mandatory",
    "begin start",
    "whether if",
    "one 1",
    "two 2",
    "three 3",
    "four 4",
    "five 5",
    "ten 10",
)
_EXACT = frozenset(
    [
        "not",
        "no",
        "nor",
        "never",
        "none",
        "any",
        "all",
        "every",
        "each",
        "only",
        "some",
        "both",
        "either",
        "neither",
        "most",
        "least",
        "more",
        "less",
        "without",
        "with",
        "unless",
        "except",
        "until",
        "before",
        "after",
        "first",
        "last",
        "next",
        "may",
        "might",
        "can",
        "could",
        "must",
        "should",
        "shall",
        "would",
        "cannot",
        "if",
        "when",
        "while",
        "then",
        "than",
        "to",
        "from",
        "into",
        "onto",
        "or",
        "but",
        "by",
        "up",
        "down",
        "in",
        "out",
        "on",
        "off",
        "over",
        "under",
        "true",
        "false",
        "yes",
    ]
)
"""Words that are never taken for a misspelling or another form of each other."""
_VOWELS = frozenset("aeiouy")
_ALIKE = (frozenset("sz"), frozenset("cs"))
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_SHORTEST = 5
"""Letters of the shortest word in which one letter may be corrected."""

OPTIONAL = frozenset(_OPTIONAL.split())
_LONG_OPTIONAL = frozenset(word for word in OPTIONAL if len(word) >= _SHORTEST)
_GROUPS = {word: number for number, group in enumerate(_INSTEAD) for word in group.split()}


def folded(word: str) -> str:
    """Return a word without case and accents."""
    if word.isascii():
        return word.lower()
    plain = "".join(
        each for each in unicodedata.normalize("NFKD", word.casefold()) if unicodedata.category(each) != "Mn"
    )
    return plain if plain.isascii() else unicodedata.normalize("NFC", word.casefold())


def is_same_word(one: str, other: str) -> bool:
    """Whether two folded words are the same: another form, a usual equivalent, or one of them misspelled."""
    if one == other:
        return True
    if _group(one) is not None and _group(one) == _group(other):
        return True
    if not (one.isalpha() and other.isalpha()) or (one in _EXACT and other in _EXACT):
        return False
    if one in _EXACT or other in _EXACT:
        return min(len(one), len(other)) >= _SHORTEST and is_misspelled(one, other)
    return bool(_bases(one) & _bases(other)) or is_misspelled(one, other)


def is_joined(parts: Sequence[str], word: str) -> bool:
    """Whether a folded word is two others written as one."""
    return len(parts) == 2 and "".join(parts) == word and not any(part in _EXACT for part in parts)


def is_optional(word: str) -> bool:
    """Whether a folded word may come and go, even if it is misspelled."""
    return word in OPTIONAL or any(is_misspelled(word, each) for each in _LONG_OPTIONAL)


def is_misspelled(one: str, other: str) -> bool:
    """Whether one of two words is the other with a single mistake: swapped, missing or doubled letters.

    A wrong letter counts as a mistake only where it sounds alike (another vowel, s for z or c), since one
    other letter makes another word too often: `remote`, `remove`. The first letter must be right.
    """
    if one[:1] != other[:1] or abs(len(one) - len(other)) > 1 or not (one + other).isascii():
        return False
    start = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    if start is None:
        start = min(len(one), len(other))
    if len(one) == len(other):
        return _is_wrong_order(one, other, start) or _is_wrong_letter(one, other, start)
    long, short = (one, other) if len(one) > len(other) else (other, one)
    if long[start + 1 :] != short[start:] or long[start] not in _LETTERS:
        return False
    return len(short) >= _SHORTEST - 1 or long[start] == long[start - 1]


def _is_wrong_order(one: str, other: str, start: int) -> bool:
    swapped = one[start : start + 2]
    return swapped[::-1] == other[start : start + 2] and one[start + 2 :] == other[start + 2 :]


def _is_wrong_letter(one: str, other: str, start: int) -> bool:
    if one[start + 1 :] != other[start + 1 :] or len(one) < _SHORTEST:
        return False
    letters = {one[start], other[start]}
    return letters <= _VOWELS or any(letters <= alike for alike in _ALIKE)


def _group(word: str) -> int | None:
    found = _GROUPS.get(word)
    return (
        found
        if found is not None
        else next((_GROUPS[base] for base in sorted(_bases(word)) if base in _GROUPS), None)
    )


def _bases(word: str) -> frozenset[str]:
    """Return what a word may be a form of: itself, without `s`, `es`, `ed`, `ing`."""
    found = {word}
    if word in _EXACT:
        return frozenset(found)
    for ending, instead in (
        ("ies", "y"),
        ("es", ""),
        ("s", ""),
        ("ed", ""),
        ("ed", "e"),
        ("ing", ""),
        ("ing", "e"),
    ):
        base = word.removesuffix(ending)
        if base != word and len(base) + len(instead) >= 3 and not (ending == "s" and base.endswith("s")):
            found.add(base + instead)
            if ending in ("ed", "ing") and len(base) > 3 and base[-1] == base[-2] and not instead:
                found.add(base[:-1])
    return frozenset(found - _EXACT)
