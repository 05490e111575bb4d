"""JSON values of tools, cut to what people read, and hashed.

Hashes are taken over canonical JSON as of RFC 8785, so that another program gets the same hash for the
same tool. What that form cannot represent is first written in another way: integers beyond 2^53 and
numbers that are not finite, as schemas of 64-bit arguments contain them, lone surrogates, and values
that are nested too deeply to be walked by recursion.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.types import Tool

_MEMBERS = 50
_LETTERS = 4_000
_CUT = "..."


def excerpt(value: object, depth: int = 8, members: int = _MEMBERS, letters: int = _LETTERS) -> JSON:
    """Return a JSON value of a tool or its answer, cut to what people read; `...` stands for the rest."""
    if isinstance(value, str):
        return value if len(value) <= letters else value[:letters] + _CUT
    if isinstance(value, Mapping | list | tuple) and depth == 0:
        return _CUT
    if isinstance(value, Mapping):
        found: dict[str, JSON] = {
            str(key)[:letters]: excerpt(each, depth - 1, members, letters)
            for key, each in itertools.islice(value.items(), members)
        }
        return {**found, _CUT: len(value) - members} if len(value) > members else found
    if isinstance(value, list | tuple):
        listed = [excerpt(each, depth - 1, members, letters) for each in value[:members]]
        return [*listed, _CUT] if len(value) > members else listed
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**400:
        return _CUT
    return value if value is None or isinstance(value, bool | int | float) else str(value)


_SAFE = 2**53 - 1
_MARK = "\0"
"""The first character of what stands for a value that RFC 8785 lacks; any other string doubles it."""


def tool_hash(tool: Tool) -> str:
    """Return the hash of a tool's JSON value in the catalog: all that its server says of it but `_meta`."""
    return _hash(
        {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema,
            "annotations": tool.annotations,
        }
    )


def manifest_hash(tools: Iterable[Tool]) -> str:
    """Return the hash of the JSON value for several tools: the sorted pairs of their names and hashes."""
    return _hash(sorted([tool.name, tool.hash or tool_hash(tool)] for tool in tools))


def canonical(value: object) -> bytes:
    """Write a JSON value of tools in the canonical form that is hashed; raises nothing for a JSON value."""
    import rfc8785  # needed by a sync, not by a lookup

    return rfc8785.dumps(cast("Any", _representable(value, 100)))


def _hash(value: object) -> str:
    from hashlib import sha256  # needed by a sync, not by a lookup

    return "sha256:" + sha256(canonical(value)).hexdigest()


def _representable(value: object, depth: int) -> object:
    if not isinstance(value, Mapping | list | tuple):
        return _scalar(value)
    if depth == 0:
        return {_MARK + "deep": list(_tokens(value))}
    if isinstance(value, Mapping):
        return {_text(str(key)): _representable(item, depth - 1) for key, item in value.items()}
    return [_representable(item, depth - 1) for item in value]


def _scalar(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # In hexadecimal: Python refuses to print an integer of many decimal digits.
        return value if -_SAFE <= value <= _SAFE else {_MARK + "integer": hex(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {_MARK + "number": repr(value)}
    return _text(str(value))


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return _MARK + value.encode("utf-8", "surrogatepass").hex()
    return _MARK + value if value.startswith(_MARK) else value


def _tokens(value: object) -> Iterator[object]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Mapping):
            yield ["object", len(item)]
            for key in sorted(item, reverse=True):
                pending += [item[key], key]
        elif isinstance(item, list | tuple):
            yield ["array", len(item)]
            pending += reversed(item)
        else:
            yield _scalar(item)
