"""A message from a client: checked before the SDK sees it, and refused with the reason if it is none.

The SDK drops a request with an invalid id, and over HTTP it repeats in its errors what was sent.
"""

from __future__ import annotations

import json
from typing import Any

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

from pflow_mcp_plugin.contract.json_types import JSONObject

_NO_MESSAGE = "Not a request, a notification or an answer"
_MOST_DIGITS = 4_300
"""Python reads no integer of more digits."""


def parsed(content: bytes) -> JSONRPCMessage:
    """Return the message in a line of stdin or in the body of a request; raises ValueError if it is none."""
    value = _read(content)
    message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    # What the SDK takes for a notification is a request with an invalid id, if it has an id.
    if isinstance(message, JSONRPCNotification) and "id" in value:
        raise ValueError(_NO_MESSAGE)
    return message


def refusal(content: bytes, otherwise: str = _NO_MESSAGE) -> JSONObject:
    """Return the answer to what is not a message, with the reason: `otherwise` if none is found."""
    code = INVALID_REQUEST
    try:
        message = _read(content)
    except ValueError as error:
        code, reason = PARSE_ERROR, f"Not a message: it cannot be read as JSON: {error}"
    else:
        fields = message if isinstance(message, dict) else {}
        if not isinstance(message, dict):
            reason = "A message must be a JSON object; batches are not supported"
        elif fields.get("jsonrpc") != "2.0":
            reason = 'jsonrpc must be "2.0"'
        elif not isinstance(fields.get("params"), dict | None):
            reason = "The params must be an object"
        elif "id" in fields and type(fields["id"]) not in (int, str):
            reason = "The id of a request must be a string or an integer"
        else:
            reason = otherwise
    return {"jsonrpc": "2.0", "id": _id(content), "error": {"code": code, "message": reason}}


def _read(content: bytes) -> Any:
    """Read a client's message as JSON; raises ValueError for NaN and numbers that Python cannot hold, too."""
    value = from_json(content, allow_inf_nan=False)
    json.dumps(value, allow_nan=False)  # 1e400 was read as infinity
    return value


def _id(content: bytes) -> int | str | None:
    """Return the id of a request, even if another part of it cannot be read; None if it has no valid one."""
    try:
        message = json.loads(content, parse_int=lambda it: int(it) if len(it) < _MOST_DIGITS else None)
    except (ValueError, RecursionError):
        return None
    number = message.get("id") if isinstance(message, dict) else None
    return number if type(number) in (int, str) else None
