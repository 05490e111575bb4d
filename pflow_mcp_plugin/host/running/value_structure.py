"""The structure of a value: type and sample at every path, with paths as templates spell them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pflow_mcp_plugin.contract import ValuePath
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.interruption import end_if_interrupted
from pflow_mcp_plugin.host.workflow.json_text import json_in

_PLAIN = re.compile(r"[\w-]+")
_DEPTH = 20
"""Levels of a value's structure that are examined."""
_SAMPLE = 100
"""Items of a list whose structure is examined."""
_LONGEST = 100
"""Characters of a sample."""
_NAMES = {"NoneType": "None", "tuple": "list"}


class _Place(NamedTuple):
    """A path inside a value, the type there, and the value; None in place of a container."""

    path: str
    type: str
    value: object


def structure(value: object) -> list[tuple[str, str]]:
    """Return the structure of an object: its paths, each with its type, outermost first.

    Every path can be used in a template. Of a list, only items with a new shape are included, each at its
    own index: `[0]`, and `[3]` if that is the next one with another shape.
    """
    return [(path.removeprefix("."), kind) for path, kind, _ in _shape(value, _DEPTH) if path]


def sampled(value: object, excerpt: Callable[[object], JSON]) -> list[ValuePath]:
    """Return the structure of an object with a sample of the value at each path.

    Args:
        value: The object.
        excerpt: Returns a value as JSON of bounded size, secrets redacted.
    """
    return [
        ValuePath(path=path.removeprefix("."), type=kind, sample=_shortened(excerpt(found)))
        for path, kind, found in _shape(value, _DEPTH)
        if path
    ]


def _shortened(sample: JSON) -> JSON:
    if isinstance(sample, str) and len(sample) > _LONGEST:
        return f"{sample[:_LONGEST]}..."
    return sample


def _shape(value: object, depth: int) -> list[_Place]:
    kind = type(value).__name__
    own = None if isinstance(value, dict | list | tuple) else value
    found = [_Place("", _NAMES.get(kind, kind), own)]
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


def _members(value: dict[object, object], depth: int) -> Iterator[_Place]:
    for key, item in value.items():
        step = _step(key)
        if step:
            yield from (place._replace(path=f"{step}{place.path}") for place in _shape(item, depth))


def _items(value: Sequence[object], depth: int) -> Iterator[_Place]:
    shown: list[set[tuple[str, str]]] = []
    for index, item in enumerate(value[:_SAMPLE]):
        shape = _shape(item, depth)
        kinds = {(place.path, place.type) for place in shape}
        if not any(known.issuperset(kinds) for known in shown):
            shown.append(kinds)
            yield from (place._replace(path=f"[{index}]{place.path}") for place in shape)


def _step(key: object) -> str:
    """Return a key as a template spells it; empty if no template can."""
    if not isinstance(key, str) or "{" in key or "}" in key:
        return ""
    if _PLAIN.fullmatch(key):
        return f".{key}"
    quote = "'" if '"' in key else '"'
    return "" if quote in key else f"[{quote}{key}{quote}]"
