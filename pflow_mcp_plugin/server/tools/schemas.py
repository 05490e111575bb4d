"""Parts of the tools' schemas, and claims that several make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pflow_mcp_plugin.contract import Discovery
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.server.envelopes import output_schema, success
from pflow_mcp_plugin.server.served_tool import Claims

ANY_OBJECT: JSONObject = {"type": "object"}
TEXT: JSONObject = {"type": "string"}
NUMBER: JSONObject = {"type": "number"}

MOST_CHARACTERS = 20_000
"""Characters that an argument may have where its schema does not say more."""
MOST_NAMES = 1_000
"""Items that an argument which is a list may have."""

RUN_BESIDE: Mapping[str, JSONObject] = {
    "trace_path": {"type": "string", "description": "The trace of the run, for trace_read"},
    "checkpoint": {
        "type": "object",
        "description": "On failure: what each node had written, by node id; shortened and redacted",
    },
}
"""What the envelopes of a run have beside `data` or `error`."""

LOCAL_READING = Claims(read_only=True, destructive=False, idempotent=True, open_world=False)
"""The claims of a tool that reads what is on this machine."""


def object_of(properties: JSONObject, *required: str) -> dict[str, Any]:
    """Return the schema of an object with these properties, and perhaps others."""
    return {"type": "object", "properties": properties, "required": list(required)}


def list_of(items: JSONObject) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def arguments_schema(properties: JSONObject, *required: str) -> dict[str, Any]:
    """Return the schema of a tool's arguments, which accepts no others, and no endless ones."""
    bounded = {name: _bounded(schema) for name, schema in properties.items()}
    return {**object_of(bounded, *required), "additionalProperties": False}


def _bounded(schema: Any) -> JSONObject:
    if schema["type"] == "array":
        return {"maxItems": MOST_NAMES, **schema, "items": _bounded(schema["items"])}
    return {"maxLength": MOST_CHARACTERS, **schema} if schema["type"] == "string" else schema


_Found = TypeVar("_Found")

DISCOVERING = Claims(read_only=True, destructive=False, idempotent=True, open_world=True)
"""The claims of such a tool: a language model that the user has configured may rank."""


def discovery_answer(found: Discovery[_Found], to_dict: Callable[[_Found], Mapping[str, JSON]]) -> JSONObject:
    """Return the envelope of what was found.

    Args:
        found: What the host found.
        to_dict: Returns the JSON form of an item.
    """
    return success({"matches": found.to_list(to_dict), "ranked_by": found.ranked_by, "note": found.note})


def discovery_schema(properties: JSONObject, *required: str) -> dict[str, Any]:
    """Return the schema of both envelopes of such a tool.

    Args:
        properties: The schemas of an item's properties, by name.
        required: The properties that every item has.
    """
    match = object_of(
        {**properties, "confidence": {**NUMBER, "minimum": 0, "maximum": 1}, "reason": TEXT},
        *required,
        "confidence",
        "reason",
    )
    return output_schema(
        object_of({"matches": list_of(match), "ranked_by": TEXT, "note": TEXT}, "matches", "ranked_by")
    )
