"""The answer of the tools that find something for a task in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pflow_mcp_plugin.contract import Discovery
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.server.envelopes import output_schema, success
from pflow_mcp_plugin.server.served_tool import Claims
from pflow_mcp_plugin.server.tools.schemas import NUMBER, TEXT, list_of, object_of

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
