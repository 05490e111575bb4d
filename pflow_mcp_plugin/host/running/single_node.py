"""A node that runs alone: its params, which are never templates, and the structure of what it wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pflow_mcp_plugin.contract import Entry, PflowError, Problem, ValuePath
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.foreign_code import end_if_interrupted
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, json_in, typed
from pflow_mcp_plugin.host.workflow.document_reader import is_deep
from pflow_mcp_plugin.host.workflow.findings import did_you_mean, listing
from pflow_mcp_plugin.host.workflow.templates import literal

_PLAIN = re.compile(r"[\w-]+")
_DEPTH = 20
"""Levels of a value's structure that are examined."""
_SAMPLE = 100
"""Items of a list whose structure is examined."""
_LONGEST = 100
"""Characters of a sample."""
_NAMES = {"NoneType": "None", "tuple": "list"}


def typed_params(entry: Entry, given: Mapping[str, str]) -> dict[str, Any]:
    """Convert the params of a single node from strings as typed on a command line.

    Args:
        entry: The node type.
        given: The typed string of each parameter; unknown ones stay strings.
    """
    fields = entry.interface.fields
    return {name: typed(text, fields[name]) if name in fields else text for name, text in given.items()}


def checked_params(entry: Entry, given: JSONObject) -> dict[str, JSON]:
    """Return the params of a single node with `${` escaped: they are values, not templates.

    Raises:
        PflowError: Some are missing, unknown, or of the wrong type; names each.
    """
    problems = tuple(_problems(entry, given))
    if len(problems) == 1:
        steps = (problems[0].suggestion,)
        raise PflowError(problems[0].message, suggestions=steps, problems=problems, kind="usage")
    if problems:
        message = f"Node {entry.node} cannot be run with these params: {len(problems)} problems"
        raise PflowError(message, problems=problems, kind="usage")
    return {name: literal(value) for name, value in given.items()}


def _problems(entry: Entry, given: JSONObject) -> Iterator[Problem]:
    fields, shown = entry.interface.fields, [field.key for field in entry.interface.params]
    for name, value in given.items():
        if is_deep(value):
            message = f"Parameter {name} of node {entry.node} is nested too deeply"
            yield Problem(message=message, suggestion="Flatten it")
        elif name in fields:
            try:
                coerce(value, fields[name])
            except TypeMismatch as error:
                message = f"Parameter {name} of node {entry.node} must be {error.expected}, got {error.given}"
                yield Problem(message=message, suggestion=_see(entry))
        elif not entry.interface.open:
            hint = did_you_mean(name, shown, f"It takes {listing(shown)}")
            yield Problem(message=f"Node {entry.node} has no parameter {name}", suggestion=hint)
    lacking = [it.key for it in entry.interface.params if it.required and it.key not in given]
    if lacking:
        names = "parameter" if len(lacking) == 1 else "parameters"
        message = f"Node {entry.node} needs {names} {', '.join(lacking)}"
        yield Problem(message=message, suggestion=f"Give {lacking[0]}=...; {_see(entry, 'run')}")


def _see(entry: Entry, word: str = "Run") -> str:
    return f"{word}: pflow registry describe {entry.node}"


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
    """Return the structure of an object with a sample of the value at each path."""
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
