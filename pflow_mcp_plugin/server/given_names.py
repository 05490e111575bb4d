"""Names that clients give, in messages: shortened, and with the nearest that exists."""

from __future__ import annotations

from collections.abc import Collection

_SHOWN = 200
_COMPARED = 80


def shown(name: str) -> str:
    """Return a name as messages show it: at most 200 characters."""
    return name if len(name) <= _SHOWN else name[:_SHOWN] + "..."


def nearest(name: str, names: Collection[str]) -> str:
    """Return the existing name that is most similar to a given one; empty if none is."""
    from difflib import get_close_matches

    lowered = {known.lower(): known for known in names}
    return next((lowered[close] for close in get_close_matches(name[:_COMPARED].lower(), lowered, 1)), "")
