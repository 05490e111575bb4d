"""JSON of any value, as it is printed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.foreign_code import end_if_interrupted

_DEEPEST = 200
"""Levels of nesting that are printed."""
_LARGEST = 10**4_000
"""Python refuses to convert larger numbers, of more than 4,300 digits, to decimal."""


def to_json(value: object, *, strict: bool = False) -> str:
    """Return a value of the output as JSON; what JSON cannot represent is written as strings.

    Circular references, and values nested deeper than 200 levels, are written as `...`.

    Args:
        value: Any value; it may hold objects of plugins and nodes.
        strict: Raise what an object raises that cannot be read; otherwise its class is written.
    """
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except BaseException as error:
        end_if_interrupted(error)
        if strict and not isinstance(error, TypeError | ValueError | RecursionError):
            raise
        return json.dumps(_jsonable(value, (), strict=strict), ensure_ascii=False, indent=2)


def _jsonable(value: object, above: tuple[int, ...], *, strict: bool) -> JSON:
    """Return a value as JSON can represent it; `above` holds the ids of the values that enclose it."""
    try:
        return _represented(value, above, strict=strict)
    except BaseException as error:
        end_if_interrupted(error)
        if strict:
            raise
        return f"<{type(value).__name__}>"


def _represented(value: object, above: tuple[int, ...], *, strict: bool) -> JSON:
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if id(value) in above or len(above) == _DEEPEST:
            return "..."
        within = (*above, id(value))
        if isinstance(value, Mapping):
            return {_text(key): _jsonable(item, within, strict=strict) for key, item in value.items()}
        return [_jsonable(item, within, strict=strict) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int) and abs(value) < _LARGEST:
        return value
    return value if value is None or isinstance(value, str) else _text(value)


def _text(value: object) -> str:
    return hex(value) if isinstance(value, int) and abs(value) >= _LARGEST else str(value)
