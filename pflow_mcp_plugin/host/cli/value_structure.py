"""The structure of a value: the type at every path, with paths as templates spell them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pflow_mcp_plugin.host.interruption import end_if_interrupted
from pflow_mcp_plugin.host.workflow.json_text import json_in

_PLAIN = re.compile(r"[\w-]+")
_DEPTH = 20
"""Levels of a value's structure that are examined."""
_SAMPLE = 100
"""Items of a list whose structure is examined."""
_NAMES = {"NoneType": "None"}

_Shape = list[tuple[str, str]]
"""The paths inside a value, each with its type, outermost first."""


def structure(value: object) -> _Shape:
    """Return the structure of an object: its paths, each with its type, outermost first.

    Every path can be used in a template. Of a list, only items with a new shape are included, each at its
    own index: `[0]`, and `[3]` if that is the next one with another shape.
    """
    return [(path.removeprefix("."), kind) for path, kind in _shape(value, _DEPTH) if path]


def _shape(value: object, depth: int) -> _Shape:
    kind = type(value).__name__
    found = [("", _NAMES.get(kind, kind))]
    inner = json_in(value) if isinstance(value, str) else value
    if depth == 0:
        return found
    try:
        if isinstance(inner, dict):
            found += _members(inner, depth - 1)
        elif isinstance(inner, list | tuple):
            found += _items(inner, depth - 1)
    except BaseException as error:  # noqa: BLE001 - a node's own object may raise anything when it is read
        end_if_interrupted(error)
    return found


def _members(value: dict[object, object], depth: int) -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        step = _step(key)
        if step:
            yield from ((f"{step}{path}", kind) for path, kind in _shape(item, depth))


def _items(value: Sequence[object], depth: int) -> Iterator[tuple[str, str]]:
    shown: list[set[tuple[str, str]]] = []
    for index, item in enumerate(value[:_SAMPLE]):
        shape = _shape(item, depth)
        if not any(known.issuperset(shape) for known in shown):
            shown.append(set(shape))
            yield from ((f"[{index}]{path}", kind) for path, kind in shape)


def _step(key: object) -> str:
    """Return a key as a template spells it; empty if no template can."""
    if not isinstance(key, str) or "{" in key or "}" in key:
        return ""
    if _PLAIN.fullmatch(key):
        return f".{key}"
    quote = "'" if '"' in key else '"'
    return "" if quote in key else f"[{quote}{key}{quote}]"
