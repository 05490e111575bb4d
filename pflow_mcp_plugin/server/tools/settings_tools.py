"""The tools for settings: save a value, read one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.redaction import mask
from pflow_mcp_plugin.server.envelopes import output_schema, success
from pflow_mcp_plugin.server.given_names import nearest, shown
from pflow_mcp_plugin.server.host_parts import settings_of
from pflow_mcp_plugin.server.served_tool import Claims, ServedRequest, ServedTool
from pflow_mcp_plugin.server.tools.schemas import LOCAL_READING, TEXT, arguments_schema, object_of


def set_value(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `settings_set`: save a value; it is not repeated."""
    key = arguments["key"]
    settings_of(request.host).set(key, arguments["value"])
    return success({"key": key, "saved": True})


def get(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `settings_get`: a value, masked unless the user's config says otherwise."""
    key, settings = arguments["key"], settings_of(request.host)
    value = settings.get(key)
    if value is None:
        close = nearest(key, list(settings.names()))
        hint = f"Did you mean {close}?" if close else "Save it with settings_set"
        raise PflowError(f"{shown(key)} is not set", kind="not_found", suggestions=(hint,))
    visible = value if request.show_secrets else mask(value)
    return success({"key": key, "value": visible, "masked": visible != value})


_FLAG: JSONObject = {"type": "boolean"}
_KEY: JSONObject = {"type": "string", "description": "The name of the setting, such as GITHUB_TOKEN"}

SET = ServedTool(
    name="settings_set",
    title="Save a setting",
    description=(
        "Save an API key, a credential or another setting; servers use it wherever their config says "
        "${KEY}. An earlier value of the same key is replaced. The answer does not repeat the value."
    ),
    input_schema=arguments_schema(
        {"key": _KEY, "value": {"type": "string", "description": "Its value"}}, "key", "value"
    ),
    output_schema=output_schema(object_of({"key": TEXT, "saved": _FLAG}, "key", "saved")),
    claims=Claims(read_only=False, destructive=True, idempotent=True, open_world=False),
    answer=set_value,
)

GET = ServedTool(
    name="settings_get",
    title="Read a setting",
    description=(
        "Say whether a setting is saved, and its value; secrets are masked as ****. You never need the value "
        "itself: refer to it as ${KEY}. If it is not set, ask the user for it or save it with settings_set."
    ),
    input_schema=arguments_schema({"key": _KEY}, "key"),
    output_schema=output_schema(
        object_of({"key": TEXT, "value": TEXT, "masked": _FLAG}, "key", "value", "masked")
    ),
    claims=LOCAL_READING,
    answer=get,
    reveals=True,
)
