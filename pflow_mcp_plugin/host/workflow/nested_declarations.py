"""Declarations of the values inside a value, for template paths that continue into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow.coercion import type_name, type_of
from pflow_mcp_plugin.host.workflow.templates import has_template

_EMPTY = frozenset({"int", "float", "bool", "None"})
"""Types of values without members; a string is not one, as it may hold JSON."""
_HOPS = 32
"""References that are followed; a schema may refer to itself."""
_COMPOSED = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
"""A declaration whose schema has one of these may have more than its own `properties`."""
_DEFINITIONS = ("$defs", "definitions")


@attrs.frozen(kw_only=True)
class Misstep:
    """A step into a value that its declaration does not have.

    Attributes:
        step: The step.
        within: The declaration that lacks it.
        known: The names that it has; empty if the value has no members.
        certain: Whether the declaration excludes the step; else it only does not name it.
    """

    step: str
    within: Field
    known: tuple[str, ...] = ()
    certain: bool = True


def inside(field: Field, path: Sequence[str | int]) -> Field | Misstep | None:
    """Return the nested declaration at a path inside a declared value; None if it is unknown."""
    for step in path:
        found = _member(field, step)
        if not isinstance(found, Field):
            return found
        field = found
    return field


def _member(field: Field, step: str | int) -> Field | Misstep | None:
    types = {type_name(name) for name in field.types}
    if types <= _EMPTY:
        return Misstep(step=str(step), within=field)
    schema = _resolved(field.schema)
    if "str" in types or not isinstance(schema, Mapping) or any(key in schema for key in _COMPOSED):
        return None
    if isinstance(step, str):
        return _property(field, schema, step)
    return (
        None if "prefixItems" in schema else _described(f"{field.key}[{step}]", schema.get("items"), schema)
    )


def _property(field: Field, schema: JSONObject, name: str) -> Field | Misstep | None:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if not isinstance(properties, Mapping) or not properties or schema.get("patternProperties"):
        return None
    if name in properties or others:
        return _described(name, properties.get(name, others), schema)
    known = tuple(str(key) for key in properties)
    # A schema allows further properties unless it says otherwise.
    return Misstep(step=name, within=field, known=known, certain=others is False)


def _described(key: str, schema: JSON, around: JSONObject) -> Field | None:
    found = _resolved(_carrying(schema, around))
    if not isinstance(found, Mapping):
        return None
    stated = found.get("type")
    names = [name for name in (stated if isinstance(stated, list) else [stated]) if isinstance(name, str)]
    kind = "any" if found.get("nullable") else " | ".join(names) or "any"
    return Field(key=key, type=kind, schema=found)


def _resolved(schema: JSON) -> JSON:
    """Follow references to a schema's own definitions, and choices between one schema and null."""
    for _ in range(_HOPS):
        if not isinstance(schema, Mapping):
            break
        choices = schema.get("anyOf") or schema.get("oneOf")
        if "$ref" in schema:
            table, _, name = str(schema["$ref"]).removeprefix("#/").partition("/")
            definitions = schema.get(table) if table in _DEFINITIONS else None
            target = definitions.get(name) if isinstance(definitions, Mapping) else None
        elif isinstance(choices, list) and "properties" not in schema:
            some = [choice for choice in choices if choice != {"type": "null"}]
            target = some[0] if len(some) == 1 else None
        else:
            break
        if not isinstance(target, Mapping):
            break
        schema = _carrying(target, schema)
    return schema


def _carrying(schema: JSON, around: JSONObject) -> JSON:
    """Return a part of a schema with the definitions of the schema around it."""
    if not isinstance(schema, Mapping):
        return schema
    return {**{key: around[key] for key in _DEFINITIONS if key in around}, **schema}


def item_of(items: Field | None, name: str) -> Field:
    """Return the nested declaration of the items of a declared list, named `name`."""
    found = inside(items, [0]) if items else None
    return attrs.evolve(found, key=name) if isinstance(found, Field) else Field(key=name)


def item_among(items: Sequence[Any], name: str) -> Field:
    """Return a declaration for the items of a literal list, derived from them and named `name`."""
    if not items or any(isinstance(item, str) and has_template(item) for item in items):
        return Field(key=name)
    types = dict.fromkeys(map(type_of, items))
    schema: JSONObject | None = None
    if [*types] == ["dict"]:
        keys: dict[str, JSON] = {str(key): {} for item in items for key in item}
        schema = {"properties": keys, "additionalProperties": False}
    return Field(key=name, type=" | ".join(types), schema=schema)
