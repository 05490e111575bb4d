"""What a value is made of: the type at every path, as templates spell paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = re.compile(r"[\w-]+")
_DEPTH = 20
"""What lies deeper is not looked at."""
_SAMPLE = 100
"""So many items of a list are looked at."""
_NAMES = {"NoneType": "None"}


def structure(value: Any, path: str = "") -> list[tuple[str, str]]:
    """Return the paths in a value, each with its type, outermost first.

    All items of a list share the path `[0]`; where they differ, their types are joined with `|`.
    """
    types: dict[str, dict[str, None]] = {}
    for found, kind in _walk(value, path):
        types.setdefault(found, {})[kind] = None
    return [(found, " | ".join(kinds)) for found, kinds in types.items() if found]


def _walk(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    kind = type(value).__name__
    yield path, _NAMES.get(kind, kind)
    if depth == _DEPTH:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, _below(path, str(key)), depth + 1)
    elif isinstance(value, list):
        for item in value[:_SAMPLE]:
            yield from _walk(item, f"{path}[0]", depth + 1)


def _below(path: str, key: str) -> str:
    if not _PLAIN.fullmatch(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key
