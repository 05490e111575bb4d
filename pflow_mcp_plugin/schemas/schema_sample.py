"""A value that shows what a schema asks for: with everything that is required in it, and nothing else.

A schema comes from a server and may be anything: nothing here raises, and the sample is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.schemas.schema_document import SchemaDocument

_DEEPEST = 8
_MOST = 200
_LONGEST = 200
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_PLAIN: Mapping[str, Any] = {"str": "...", "int": 1, "float": 1.0, "bool": True, "list": [], "dict": {}}


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
        whole = self._whole(resolved, kind)
        if (stated := _stated(whole)) is not None:
            return stated
        if kind == "str":
            return _text(whole)
        if depth >= _DEEPEST or kind not in ("dict", "list"):
            return _number(whole, _PLAIN.get(kind))
        return self._members(whole, depth) if kind == "dict" else self._items(whole, depth)

    def _whole(self, schema: JSONObject, kind: str) -> JSONObject:
        """Return a schema together with all that it consists of, and its first alternative of this type."""
        whole, left = dict(schema), 20
        parts = self._parts(schema, kind)
        while parts and left:
            part, left = parts.pop(0), left - 1
            parts += self._parts(part, kind)
            required = [*_list(whole.get("required")), *_list(part.get("required"))]
            properties = {**_table(whole.get("properties")), **_table(part.get("properties"))}
            whole |= {**part, "required": required, "properties": properties}
        return whole

    def _parts(self, schema: JSONObject, kind: str) -> list[JSONObject]:
        found = [self._document.resolve(it) for it in _list(schema.get("allOf"))]
        found += [schema[word] for word in ("if", "then") if word in schema and "then" in schema]
        for word in ("anyOf", "oneOf"):
            members = [self._document.resolve(it) for it in _list(schema.get(word))]
            fitting = (it for it in members if kind in self._document.friendly(it).split(" | "))
            found += [next(fitting, members[0])] if members else []
        return [part for part in found if isinstance(part, dict)]

    def _members(self, schema: JSONObject, depth: int) -> JSON:
        known, others = _table(schema.get("properties")), schema.get("additionalProperties", True)
        names = dict.fromkeys(it for it in _list(schema.get("required")) if isinstance(it, str))
        return {name: self.of(known.get(name, others), depth + 1) for name in [*names][: max(self._left, 0)]}

    def _items(self, schema: JSONObject, depth: int) -> JSON:
        items, least = schema.get("items", True), schema.get("minItems")
        first = items if isinstance(items, list) else _list(schema.get("prefixItems"))
        count = min(least, max(self._left, 0)) if isinstance(least, int) and least > 0 else 0
        made = [self.of(first[place] if place < len(first) else items, depth + 1) for place in range(count)]
        wanted = schema.get("minContains", 1) if "contains" in schema else 0
        count = wanted if isinstance(wanted, int) and wanted < self._left else 0
        made += [self.of(schema["contains"], depth + 1) for _ in range(count)]
        return made


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


def _text(schema: JSONObject) -> str:
    """Return a text that has the length, and matches the pattern, that a schema asks for, if that is easy."""
    least, most, pattern = (schema.get(word) for word in ("minLength", "maxLength", "pattern"))
    text = str(_PLAIN["str"])
    if isinstance(pattern, str):
        from pflow_mcp_plugin.schemas.linear_patterns import shortest_match

        text = shortest_match(pattern) or text
    text = text.ljust(min(least, _LONGEST), ".") if isinstance(least, int) else text
    return text[:most] if isinstance(most, int) and most >= 0 else text


def _number(schema: JSONObject, plain: JSON) -> JSON:
    """Return a number within the bounds of a schema that is easy to read; any other value as it is."""
    if not isinstance(plain, int | float) or isinstance(plain, bool):
        return plain
    least, above, most, below = (_bound(schema.get(word)) for word in _BOUNDS)
    step = _bound(schema.get("multipleOf")) or 0
    step = step if step > 0 else 1 if isinstance(plain, int) else 0
    floors = [it for it in (least, above) if it is not None]
    ceilings = [it for it in (most, below) if it is not None]
    middles = [(low + high) / 2 for low in floors for high in ceilings]
    near = [*(it + more for it in floors for more in (0, step, 1)), *middles]
    near += [it - more for it in ceilings for more in (0, step, 1)]
    for candidate in (plain, *near):
        number = type(plain)(-(-candidate // step) * step if step else candidate)
        above_floor = all(it < number or (it == number and it != above) for it in floors)
        if above_floor and all(it > number or (it == number and it != below) for it in ceilings):
            return number
    return plain


def _bound(value: JSON) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _table(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
