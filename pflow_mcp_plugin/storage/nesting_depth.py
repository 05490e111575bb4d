"""How deep a document may be nested: what is deeper would exhaust the stack later."""

from __future__ import annotations

from collections.abc import Mapping

DEEPEST = 100
"""Levels of tables and lists in a document; a server needs five, a dotted key has one for each part."""


def is_too_deep(document: object) -> bool:
    """Whether the nesting of a document exceeds the limit."""
    level, depth = [document], 0
    while level:
        if depth > DEEPEST:
            return True
        level = [inner for value in level for inner in _members(value)]
        depth += 1
    return False


def _members(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []
