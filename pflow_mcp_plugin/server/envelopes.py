"""The two envelopes in which served tools answer, the same as those of the command line, and their schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject

SCHEMA = 1
"""The version of both envelopes."""

_DEEPEST = 120
"""Levels of nesting that are answered: the SDK refuses to send about twice as many."""
_LARGEST = 10**4_000
"""Python refuses to convert larger numbers, of more than 4,300 digits, to decimal."""

_ERROR: JSONObject = {
    "type": "object",
    "description": "Why it failed; absent on success",
    "properties": {
        "type": {"type": "string"},
        "message": {"type": "string"},
        "details": {"type": "object"},
        "suggestions": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["type", "message", "details", "suggestions"],
}


def success(data: object, **beside: object) -> dict[str, Any]:
    """Return the envelope of an answer, with further keys beside `data`."""
    return {"schema": SCHEMA, "success": True, "data": data, **beside}


def failure(error: PflowError, **beside: object) -> dict[str, Any]:
    """Return the envelope of a failure, with further keys beside `error`."""
    return {"schema": SCHEMA, "success": False, "error": error.to_dict(), **beside}


def output_schema(data: JSONObject, **beside: JSONObject) -> dict[str, Any]:
    """Return the JSON Schema of both envelopes of a tool.

    Args:
        data: The schema of `data`.
        beside: The schemas of further keys, which may be absent.
    """
    return {
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA},
            "success": {"type": "boolean"},
            "data": data,
            "error": _ERROR,
            **beside,
        },
        "required": ["schema", "success"],
    }


def encoded(envelope: JSONObject) -> tuple[Any, str]:
    """Return an envelope as JSON can represent it, and its JSON text.

    Nodes may have written any objects, which become strings; what is nested too deeply becomes `...`.
    """
    try:
        text = json.dumps(envelope, ensure_ascii=False, allow_nan=False)
        brackets = text.count("{") + text.count("[")
        if (brackets <= _DEEPEST or not _is_deep(envelope)) and (text.isascii() or text.encode()):
            return envelope, text
    except (TypeError, ValueError, RecursionError):
        pass
    plain = _plain(envelope, ())
    return plain, json.dumps(plain, ensure_ascii=False)


def _is_deep(value: object) -> bool:
    """Return whether a value is nested deeper than is answered."""
    left = [(value, 0)]
    while left:
        item, depth = left.pop()
        if isinstance(item, Mapping | list | tuple):
            if depth >= _DEEPEST:
                return True
            left += ((inner, depth + 1) for inner in (item.values() if isinstance(item, Mapping) else item))
    return False


def _plain(value: object, above: tuple[int, ...]) -> Any:
    """Return a value as JSON can represent it; `above` holds the ids of the values that enclose it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if id(value) in above or len(above) >= _DEEPEST:
            return "..."
        within = (*above, id(value))
        if isinstance(value, Mapping):
            return {_text(key): _plain(item, within) for key, item in value.items()}
        return [_plain(item, within) for item in value]
    if isinstance(value, int) and abs(value) < _LARGEST:
        return value
    return value if isinstance(value, float) and math.isfinite(value) else _text(value)


def _text(value: object) -> str:
    """Return a string that UTF-8 can encode."""
    if isinstance(value, int) and not isinstance(value, bool):
        return hex(value) if abs(value) >= _LARGEST else str(value)
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - the object is a node's own: its `__str__` may raise anything
        text = f"<{type(value).__name__}>"
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
