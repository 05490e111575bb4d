"""What a value is made of: the type at every path, as templates spell paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pflow_mcp_plugin.host.workflow.json_text import json_in

_PLAIN = re.compile(r"[\w-]+")
_DEPTH = 20
"""What lies deeper is not looked at."""
_SAMPLE = 100
"""So many items of a list are looked at."""
_NAMES = {"NoneType": "None"}

_Shape = list[tuple[str, str]]
"""The paths inside a value, each with its type, outermost first."""


def structure(value: Any) -> _Shape:
    """Return the paths in an object, each with its type, outermost first.

    Every one of them is a path that a template may take. Of a list the items that show something
    new are told, each at its own index: `[0]`, and `[3]` if that is the next of another shape.
    """
    return [(path.removeprefix("."), kind) for path, kind in _shape(value, _DEPTH) if path]


def _shape(value: Any, depth: int) -> _Shape:
    kind = type(value).__name__
    found = [("", _NAMES.get(kind, kind))]
    inner = json_in(value) if isinstance(value, str) else value
    if depth == 0:
        return found
    if isinstance(inner, dict):
        found += _members(inner, depth - 1)
    elif isinstance(inner, list | tuple):
        found += _items(inner, depth - 1)
    return found


def _members(value: dict[Any, Any], depth: int) -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        step = _step(key)
        if step:
            yield from ((f"{step}{path}", kind) for path, kind in _shape(item, depth))


def _items(value: Sequence[Any], depth: int) -> Iterator[tuple[str, str]]:
    shown: list[set[tuple[str, str]]] = []
    for index, item in enumerate(value[:_SAMPLE]):
        shape = _shape(item, depth)
        if not any(known.issuperset(shape) for known in shown):
            shown.append(set(shape))
            yield from ((f"[{index}]{path}", kind) for path, kind in shape)


def _step(key: object) -> str:
    """Return how a template spells a key; empty if it cannot."""
    if not isinstance(key, str) or "{" in key or "}" in key:
        return ""
    if _PLAIN.fullmatch(key):
        return f".{key}"
    quote = "'" if '"' in key else '"'
    return "" if quote in key else f"[{quote}{key}{quote}]"
