"""An outline of what is inside the objects and lists of a schema, for people to read.

A schema comes from a server and may be anything: nothing here raises, and depth and number are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.schemas.schema_reader import SchemaDocument, list_of, table_of

_DEEPEST = 8
_MOST = 200
_INSIDE = frozenset({"properties", "patternProperties", "additionalProperties", "items", "prefixItems"})


@attrs.frozen(kw_only=True)
class Inner:
    """A property in the outline of a schema, inside an object or list."""

    # Or `[]` for the items of a list, `[0]` for the first of a tuple; `*` for the values of any other keys,
    # `/.../` for those of keys that match a pattern.
    name: str
    depth: int  # levels below the value, from 1
    type: str
    required: bool
    limits: tuple[str, ...]
    description: str


def outline(root: JSON, schema: JSON) -> Iterator[Inner]:
    """Yield the outline of a schema, in its order; at most 200 properties, 8 levels deep."""
    yield from islice(_inside(SchemaDocument(root), schema, 1), _MOST)


def limits(document: SchemaDocument, schema: JSON) -> Iterator[str]:
    """Yield what an outline says of a property besides its type: `one of 1, 2`, `at least 3`."""
    listed = choices(document, schema)
    if listed:
        shown = ", ".join(json.dumps(value, ensure_ascii=False) for value in listed)
        yield f"one of {shown}" if len(listed) > 1 else f"always {shown}"
    resolved = document.resolve(schema)
    for key, words in BOUNDS.items():
        bound = resolved.get(key) if isinstance(resolved, dict) else None
        if isinstance(bound, int | float | str) and not isinstance(bound, bool):
            yield words.format(bound)


def choices(document: SchemaDocument, schema: JSON) -> list[JSON]:
    """Return the values that a schema allows besides null, for its outline; empty if it lists none."""
    found: list[JSON] = []
    waiting = [schema]
    for _ in range(_MOST):
        if not waiting:
            return found
        member = document.resolve(waiting.pop(0))
        if isinstance(member, dict) and ("const" in member or isinstance(member.get("enum"), list)):
            listed = [member["const"]] if "const" in member else member["enum"]
            found += [value for value in listed if value is not None and value not in found]
        elif document.friendly(member) != "None":
            alternatives = _alternatives(member, "anyOf", "oneOf")
            if not alternatives:
                return []
            waiting = [*alternatives, *waiting]
    return []


def _alternatives(schema: JSON, *words: str) -> list[JSON]:
    return [member for word in words for member in list_of(table_of(schema).get(word))]


BOUNDS: Mapping[str, str] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "{} characters or more",
    "maxLength": "{} characters or fewer",
    "minItems": "{} items or more",
    "maxItems": "{} items or fewer",
    "minProperties": "{} keys or more",
    "maxProperties": "{} keys or fewer",
    "pattern": "a string that matches {}",
}
"""The words for the bounds of a value, by keyword."""


def _inside(document: SchemaDocument, schema: JSON, depth: int) -> Iterator[Inner]:
    if depth > _DEEPEST:
        return
    for shape in _shapes(document, schema):
        needed = list_of(shape.get("required"))
        found = [(name, it, name in needed) for name, it in table_of(shape.get("properties")).items()]
        patterns = table_of(shape.get("patternProperties"))
        found += [(f"/{pattern}/", it, False) for pattern, it in patterns.items()]
        others, items = shape.get("additionalProperties"), shape.get("items")
        if isinstance(others, dict) and others:
            found.append(("*", others, False))
        tuple_items = items if isinstance(items, list) else list_of(shape.get("prefixItems"))
        found += [(f"[{index}]", it, False) for index, it in enumerate(tuple_items)]
        if isinstance(items, dict) and (any(_shapes(document, items)) or any(limits(document, items))):
            found.append(("[]", items, False))
        for name, inner, is_required in found:
            described = (table_of(it).get("description") for it in (inner, document.resolve(inner)))
            yield Inner(
                name=name,
                depth=depth,
                type=document.friendly(inner),
                required=is_required,
                limits=tuple(limits(document, inner)),
                description=next((text for text in described if isinstance(text, str)), ""),
            )
            yield from _inside(document, inner, depth + 1)


def _shapes(document: SchemaDocument, schema: JSON) -> Iterator[dict[str, JSON]]:
    waiting, seen = [schema], set[int]()
    for _ in range(_MOST):
        member = document.resolve(waiting.pop(0)) if waiting else None
        if isinstance(member, dict) and id(member) not in seen:
            seen.add(id(member))
            if member.keys() & _INSIDE:
                yield member
            waiting = [*_alternatives(member, "anyOf", "oneOf", "allOf"), *waiting]


# A value that shows what a schema requires, and nothing else.

_LONGEST = 200
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_PLAIN: Mapping[str, Any] = {"str": "...", "int": 1, "float": 1.0, "bool": True, "list": [], "dict": {}}


def sample(root: JSON, schema: JSON) -> JSON:
    """Return a sample value that fits a schema; "..." for text, at most 200 values in all."""
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

    def _members(self, whole: JSONObject, depth: int) -> JSON:
        known, others = table_of(whole.get("properties")), whole.get("additionalProperties", True)
        names = dict.fromkeys(it for it in list_of(whole.get("required")) if isinstance(it, str))
        return {name: self.of(known.get(name, others), depth + 1) for name in [*names][: max(self._left, 0)]}

    def _whole(self, schema: JSONObject, kind: str) -> JSONObject:
        """Return a schema with its parts and first alternative of this type, for a sample in an outline."""
        whole, left = dict(schema), 20
        parts = self._parts(schema, kind)
        while parts and left:
            part, left = parts.pop(0), left - 1
            parts += self._parts(part, kind)
            required = [*list_of(whole.get("required")), *list_of(part.get("required"))]
            properties = {**table_of(whole.get("properties")), **table_of(part.get("properties"))}
            whole |= {**part, "required": required, "properties": properties}
        return whole

    def _parts(self, schema: JSONObject, kind: str) -> list[JSONObject]:
        found = [self._document.resolve(it) for it in list_of(schema.get("allOf"))]
        found += [schema[word] for word in ("if", "then") if word in schema and "then" in schema]
        for word in ("anyOf", "oneOf"):
            members = [self._document.resolve(it) for it in list_of(schema.get(word))]
            fitting = (it for it in members if kind in self._document.friendly(it).split(" | "))
            found += [next(fitting, members[0])] if members else []
        return [part for part in found if isinstance(part, dict)]

    def _items(self, schema: JSONObject, depth: int) -> JSON:
        items, least = schema.get("items", True), schema.get("minItems")
        first = items if isinstance(items, list) else list_of(schema.get("prefixItems"))
        count = min(least, max(self._left, 0)) if isinstance(least, int) and least > 0 else 0
        made = [self.of(first[place] if place < len(first) else items, depth + 1) for place in range(count)]
        wanted = schema.get("minContains", 1) if "contains" in schema else 0
        count = wanted if isinstance(wanted, int) and wanted < self._left else 0
        made += [self.of(schema["contains"], depth + 1) for _ in range(count)]
        return made


def _stated(schema: JSONObject) -> JSON:
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
    least, most, pattern = (schema.get(word) for word in ("minLength", "maxLength", "pattern"))
    text = str(_PLAIN["str"])
    if isinstance(pattern, str):
        from pflow_mcp_plugin.schemas.schema_reduction import shortest_match

        text = shortest_match(pattern) or text
    text = text.ljust(min(least, _LONGEST), ".") if isinstance(least, int) else text
    return text[:most] if isinstance(most, int) and most >= 0 else text


def _number(schema: JSONObject, plain: JSON) -> JSON:
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
