"""A message from a client: checked before the SDK sees it, and refused with the reason if it is none.

The SDK drops a request with an invalid id, and over HTTP it repeats in its errors what was sent.
"""

from __future__ import annotations

import json

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)

from pflow_mcp_plugin.contract.json_types import JSONObject

_NO_MESSAGE = "Not a request, a notification or an answer, or nested too deeply"


def parsed(text: str | bytes) -> JSONRPCMessage:
    """Return the message in a line of stdin or in the body of a request; raises ValueError if it is none."""
    message = jsonrpc_message_adapter.validate_json(text, by_name=False)
    # What the SDK takes for a notification is a request with an invalid id, if it has an id.
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(text):
        raise ValueError(_NO_MESSAGE)
    return message


def refusal(text: bytes, otherwise: str = _NO_MESSAGE) -> JSONObject:
    """Return the answer to what is not a message, with the reason: `otherwise` if none is found."""
    code, number = INVALID_REQUEST, None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        code, reason = PARSE_ERROR, "Not a message: invalid JSON, or nested too deeply"
    else:
        fields = message if isinstance(message, dict) else {}
        number = fields.get("id")
        if not isinstance(message, dict):
            reason = "A message must be a JSON object; batches are not supported"
        elif fields.get("jsonrpc") != "2.0":
            reason = 'jsonrpc must be "2.0"'
        elif not isinstance(fields.get("params"), dict | None):
            reason = "The params must be an object"
        elif "id" in fields and type(number) not in (int, str):
            reason = "The id of a request must be a string or an integer"
        else:
            reason = otherwise
    number = number if type(number) in (int, str) else None
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": reason}}
