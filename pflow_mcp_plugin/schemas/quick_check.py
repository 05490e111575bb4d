"""A quick check of arguments against simple schemas, which avoids loading jsonschema.

The schemas of most tools contain little more than types. Accepting valid arguments early avoids loading
jsonschema, which takes a tenth of a second, in every run without mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping

from pflow_mcp_plugin.contract import UNKNOWN
from pflow_mcp_plugin.contract.json_types import JSON, PYTHON_TYPES, JSONObject
from pflow_mcp_plugin.schemas.schema_reader import DEEPEST

_IGNORED = frozenset({"$schema", "default", "description", "examples", "format", "title"})
_UNDERSTOOD = _IGNORED | {
    *("type", "nullable", "enum", "anyOf"),
    *("properties", "required", "additionalProperties", "items"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
}
_SIZES: Mapping[type, tuple[str, str]] = {str: ("minLength", "maxLength"), list: ("minItems", "maxItems")}


def plainly_fits(schema: JSON, value: object, depth: int = DEEPEST) -> bool:
    """Whether arguments plainly fit a simple schema; False may also mean that it is not simple."""
    if schema is True or schema == {} or value is UNKNOWN:
        return True
    if not isinstance(schema, Mapping) or depth == 0 or not schema.keys() <= _UNDERSTOOD:
        return False
    if value is None and schema.get("nullable") is True:
        return True
    return (
        _fits_type(schema.get("type"), value)
        and _fits_bounds(schema, value)
        and _fits_choice(schema, value, depth - 1)
        and _fits_object(schema, value, depth - 1)
        and (
            not isinstance(value, list)
            or "items" not in schema
            or all(plainly_fits(schema["items"], item, depth - 1) for item in value)
        )
    )


def _fits_type(names: JSON, value: object) -> bool:
    if names is None:
        return True
    wanted = names if isinstance(names, list) else [names]
    # type(value) instead of isinstance: in Python, unlike JSON, True is an int
    return any(isinstance(name, str) and type(value) in PYTHON_TYPES.get(name, ()) for name in wanted)


def _fits_bounds(schema: JSONObject, value: object) -> bool:
    if isinstance(value, str | list):
        least, most = (schema.get(key) for key in _SIZES[type(value)])
        return _is_between(len(value), least, most)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _is_between(value, schema.get("minimum"), schema.get("maximum"))
    return True


def _is_between(number: float, least: JSON, most: JSON) -> bool:
    if not all(bound is None or type(bound) in (int, float) for bound in (least, most)):
        return False
    return (least is None or number >= least) and (most is None or number <= most)  # type: ignore[operator]


def _fits_choice(schema: JSONObject, value: object, depth: int) -> bool:
    # Only for strings: in Python, unlike JSON, 1 equals True.
    if "enum" in schema:
        choices = schema["enum"]
        if not (isinstance(value, str) and isinstance(choices, list | tuple) and value in choices):
            return False
    if "anyOf" not in schema:
        return True
    members = schema["anyOf"]
    return isinstance(members, list) and any(plainly_fits(member, value, depth) for member in members)


def _fits_object(schema: JSONObject, value: object, depth: int) -> bool:
    if not isinstance(value, dict):
        return True
    required, properties = schema.get("required", []), schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    if not (isinstance(required, list) and isinstance(properties, Mapping) and isinstance(others, bool)):
        return False
    return all(isinstance(key, str) and key in value for key in required) and all(
        plainly_fits(properties[key], item, depth) if key in properties else others
        for key, item in value.items()
    )
