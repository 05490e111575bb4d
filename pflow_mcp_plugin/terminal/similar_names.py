"""Known names similar to an unknown one, for suggestions such as `Did you mean ...?`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MOST = 3
_FAR_BEHIND = 0.3
"""How much less similar than the closest name another name may be to be suggested too."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return `Did you mean ...?` with the known names similar to an unknown one, else `otherwise`."""
    close = closest(name, known, cutoff)
    return f"Did you mean {' or '.join(close)}?" if close else otherwise


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return at most three known names for an unknown one: those that begin with it, else similar ones."""
    from difflib import SequenceMatcher, get_close_matches

    names = list(known)
    begun = [it for it in names if name and it.startswith(name) and not it.removeprefix(name)[:1].isalnum()]
    if begun:
        return sorted(begun, key=len)[:_MOST]
    close = get_close_matches(name, names, _MOST, cutoff)
    likeness = [SequenceMatcher(None, name, it).ratio() for it in close]
    return [it for it, like in zip(close, likeness, strict=True) if like > likeness[0] - _FAR_BEHIND]


def first_meant(step: str) -> str:
    """Return the first similar name in a suggestion such as `Did you mean a or b?`; empty if none."""
    found = re.fullmatch(r"Did you mean (\S+?)(?: or .*)?\?", step)
    return found[1] if found else ""
