"""Names that may be meant by one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable

_FAR_BEHIND = 0.3
"""How much less similar than the closest name another one may be and still be meant."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return a suggestion: the names closest to `name`, else `otherwise`."""
    from difflib import SequenceMatcher, get_close_matches

    close = get_close_matches(name, list(known), n=3, cutoff=cutoff)
    likeness = [SequenceMatcher(None, name, it).ratio() for it in close]
    close = [it for it, like in zip(close, likeness, strict=True) if like > likeness[0] - _FAR_BEHIND]
    return f"Did you mean {' or '.join(close)}?" if close else otherwise
