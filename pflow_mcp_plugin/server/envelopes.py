"""The two envelopes in which served tools answer, the same as those of the command line, and their schema."""

from __future__ import annotations

from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject

SCHEMA = 1
"""The version of both envelopes."""

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


def plain(value: object) -> Any:
    """Return a value of an envelope as JSON can represent it: nodes may have written any objects."""
    return value
