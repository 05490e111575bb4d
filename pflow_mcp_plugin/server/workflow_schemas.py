"""The JSON Schemas of a workflow's inputs and outputs, as a served tool declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pflow_mcp_plugin.contract import Field, Interface
from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON, JSONObject

_NAMES = {friendly: name for name, friendly in FRIENDLY_NAMES.items()}
_TYPES = frozenset(FRIENDLY_NAMES)
_DEEPEST = 8
"""The levels of a nested schema that a tool declares; what is deeper may be anything."""


def input_schema(interface: Interface) -> dict[str, Any]:
    """Return the schema of a workflow's inputs: the arguments of its tool."""
    return {
        "type": "object",
        "properties": {field.key: _input(field) for field in interface.params},
        "required": [field.key for field in interface.params if field.required],
        "additionalProperties": interface.open,
    }


def output_schema(interface: Interface) -> dict[str, Any]:
    """Return the schema of a workflow's outputs: the structured result of its tool."""
    return {
        "type": "object",
        "properties": {field.key: _output(field) for field in interface.outputs},
        "required": [field.key for field in interface.outputs],
        "additionalProperties": bool(interface.open_outputs),
    }


def type_words(field: Field) -> str:
    """Return the type of a workflow's input or output in words: `string`, `integer or null`, `any value`."""
    return " or ".join(_types(field)) or "any value"


def _input(field: Field) -> dict[str, Any]:
    schema = field.schema if isinstance(field.schema, Mapping) else {}
    default = {"default": schema["default"]} if "default" in schema else {}
    return {**_type(field), **_description(field), **default}


def _output(field: Field) -> dict[str, Any]:
    inside = _structure(field.schema, 1)
    inside.pop("type", None)  # the field's own type may have null in addition
    return {**_type(field), **inside, **_description(field)}


def _type(field: Field) -> dict[str, Any]:
    types = _types(field)
    if not types:
        return {}
    return {"type": types[0] if len(types) == 1 else types}


def _types(field: Field) -> list[str]:
    """Return the JSON types of a field, none if it may have any."""
    types = [_NAMES.get(name, name) for name in field.types]
    return list(dict.fromkeys(types)) if _TYPES.issuperset(types) else []


def _description(field: Field) -> dict[str, Any]:
    return {"description": field.description} if field.description else {}


def _structure(schema: JSON, depth: int) -> dict[str, Any]:
    """Return the types and members that a node's schema declares, and nothing beyond.

    References, choices and limits are left out: a tool must not reject a result because of details that
    no node checks, and a reference would not resolve inside another schema.
    """
    if not isinstance(schema, Mapping) or depth > _DEEPEST or schema.get("nullable"):
        return {}
    kept = _known_type(schema)
    if isinstance(schema.get("description"), str):
        kept["description"] = schema["description"]
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        kept["properties"] = {str(key): _structure(value, depth + 1) for key, value in properties.items()}
    required = schema.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        kept["required"] = list(dict.fromkeys(required))
    if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
        kept["items"] = _structure(schema["items"], depth + 1)
    return kept


def _known_type(schema: JSONObject) -> dict[str, Any]:
    stated = schema.get("type")
    names = stated if isinstance(stated, list) else [stated]
    known = bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)
    return {"type": stated} if known else {}
