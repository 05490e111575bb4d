"""A value that shows what a schema asks for: with everything that is required in it, and nothing else.

A schema comes from a server and may be anything: nothing here raises, and the sample is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.schemas.schema_document import SchemaDocument

_DEEPEST = 8
_MOST = 200
_PLAIN: Mapping[str, JSON] = {"str": "...", "int": 1, "float": 1.0, "bool": True, "list": [], "dict": {}}


def sample(root: JSON, schema: JSON) -> JSON:
    """Return a value of the type that a schema asks for; "..." for text, at most 200 values in all.

    Args:
        root: The whole schema, in which references are followed.
        schema: The part of it that describes the value.
    """
    return _Sampler(SchemaDocument(root)).of(schema, 0)


class _Sampler:
    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._left = _MOST

    def of(self, schema: JSON, depth: int) -> JSON:
        self._left -= 1
        resolved = self._document.resolve(schema)
        if not isinstance(resolved, dict) or self._left < 0:
            return "..."
        if (stated := _stated(resolved)) is not None:
            return stated
        kinds = self._document.friendly(resolved).split(" | ")
        kind = next((it for it in kinds if it in _PLAIN), "None" if kinds == ["None"] else "str")
        chosen = self._chosen(resolved, kind)
        if depth >= _DEEPEST or kind not in ("dict", "list"):
            return _number(chosen, _PLAIN.get(kind))
        return self._members(chosen, depth) if kind == "dict" else self._items(chosen, depth)

    def _chosen(self, schema: JSONObject, kind: str) -> JSONObject:
        """Return the schema itself, or the first of its alternatives that is of this type."""
        for word in ("anyOf", "oneOf", "allOf"):
            alternatives = schema.get(word)
            for each in alternatives if isinstance(alternatives, list) else ():
                found = self._document.resolve(each)
                if isinstance(found, dict) and kind in self._document.friendly(found).split(" | "):
                    return found
        return schema

    def _members(self, schema: JSONObject, depth: int) -> JSON:
        listed, properties = schema.get("required"), schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        names = [it for it in listed if isinstance(it, str)] if isinstance(listed, list) else []
        return {name: self.of(known.get(name, True), depth + 1) for name in names[: max(self._left, 0)]}

    def _items(self, schema: JSONObject, depth: int) -> JSON:
        least = schema.get("minItems")
        items = schema.get("items")
        return [self.of(items, depth + 1)] if isinstance(least, int) and least > 0 else []


def _stated(schema: JSONObject) -> JSON:
    """Return the value that a schema itself names: its constant, default, or first choice or example."""
    for word in ("const", "default"):
        if schema.get(word) is not None:
            return schema[word]
    for word in ("enum", "examples"):
        values = schema.get(word)
        if isinstance(values, list) and values:
            first: JSON = values[0]
            return first
    return None


def _number(schema: JSONObject, plain: JSON) -> JSON:
    """Return a number that is not below the least one allowed; any other value as it is."""
    least = schema.get("minimum")
    if type(plain) in (int, float) and isinstance(least, int | float):
        return least if least > 1 else plain
    return plain
