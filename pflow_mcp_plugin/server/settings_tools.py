"""The `settings_set` and `settings_get` tools that pflow serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.config.project_file import ProjectFile, variables
from pflow_mcp_plugin.contract import Host, PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.secret_detection import mask
from pflow_mcp_plugin.server.envelopes import (
    FLAG,
    LOCAL_READING,
    TEXT,
    answer_schema,
    arguments_schema,
    success,
)
from pflow_mcp_plugin.server.served_tool import Claims, ServedRequest, ServedTool, nearest, settings_of, shown


def set_value(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `settings_set`: save a setting; the answer does not repeat its value."""
    key = arguments["key"]
    _require_changeable(request.host, key)
    settings_of(request.host).set(key, arguments["value"])
    return success({"key": key, "saved": True})


def _require_changeable(host: Host, key: str) -> None:
    """Refuse to set keys that decide more than a value for a server: those are for the user to set."""
    stored = settings_of(host).names().get(key, "file")
    starts = _started_with(host, key)
    if key.upper().startswith("PFLOW_"):
        why = "keys that begin with PFLOW_ are settings of pflow itself"
    elif stored != "file":
        why = (
            "its value comes from a command" if stored == "command" else f"its value is kept in the {stored}"
        )
    elif starts:
        why = f"it decides what is started or reached for server {starts}"
    else:
        return
    step = f"Ask the user to set it: pflow settings set {key} -"
    raise PflowError(f"{shown(key)} cannot be set here: {why}", kind="validation", suggestions=(step,))


def _started_with(host: Host, key: str) -> str:
    """Return the name of a server launched with a setting, which `settings_set` then refuses; else empty.

    It may be one of any approved project. A server whose config has mistakes is read as it is written: it may
    be corrected later.
    """
    from pflow_mcp_plugin.config.expansion import launch_names
    from pflow_mcp_plugin.discovery.servers import servers

    projects = ProjectFile(host.paths).approved_folders()
    for paths in (host.paths, *(attrs.evolve(host.paths, project=folder) for folder in projects)):
        store = servers(paths).store
        for name in store.names():
            try:
                names = launch_names(store.get(name))
            except PflowError:
                names = set(variables(store.table(name)))
            if key in names:
                return name
    return ""


def get(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `settings_get` with a value, masked unless the user marked it as plain, or shows all."""
    key, settings = arguments["key"], settings_of(request.host)
    value = settings.get(key)
    if value is None:
        hint = nearest(key, list(settings.names()), "Save it with settings_set")
        steps = (hint, f"Ask the user to set it: pflow settings set {shown(key)} -")
        raise PflowError(f"{shown(key)} is not set", kind="not_found", suggestions=steps)
    visible = value if request.show_secrets or key in settings.plain() else mask(value)
    return success({"key": key, "value": visible, "masked": visible != value})


_KEY: JSONObject = {**TEXT, "description": "The name of the setting, such as GITHUB_TOKEN"}

SET = ServedTool(
    name="settings_set",
    title="Save a setting",
    description=(
        "Save an API key, a credential or another setting; servers use it wherever their config says "
        "${KEY}. An earlier value of the same key is replaced. The answer does not repeat the value. Keys "
        "that decide what is started, and those of pflow itself, are for the user to set."
    ),
    input_schema=arguments_schema({"key": _KEY, "value": {**TEXT, "description": "Its value"}}),
    output_schema=answer_schema({"key": TEXT, "saved": FLAG}),
    claims=Claims(read_only=False, destructive=True, idempotent=True, open_world=False),
    answer=set_value,
)

GET = ServedTool(
    name="settings_get",
    title="Read a setting",
    description=(
        "Say whether a setting is saved, and its value, masked as **** unless the user marked it as plain. "
        "You never need a secret itself: refer to it as ${KEY}. If it is not set, ask the user or save "
        "it with settings_set."
    ),
    input_schema=arguments_schema({"key": _KEY}),
    output_schema=answer_schema({"key": TEXT, "value": TEXT, "masked": FLAG}),
    claims=LOCAL_READING,
    answer=get,
    reveals=True,
)
