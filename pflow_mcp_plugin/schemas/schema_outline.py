"""The properties inside the objects and lists of a schema, for people to read.

A schema comes from a server and may be anything: nothing here raises, and depth and number are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.schemas.schema_document import SchemaDocument

_DEEPEST = 8
_MOST = 200
_INSIDE = frozenset({"properties", "patternProperties", "additionalProperties", "items", "prefixItems"})


@attrs.frozen(kw_only=True)
class Inner:
    """A property inside a value that a schema describes.

    Attributes:
        name: Its name; `[]` for the items of a list, `[0]` for the first of a tuple; `*` for the values of
            any other keys, `/.../` for those of keys that match a pattern.
        depth: How many levels below the value it is, from 1.
        type: Its friendly type.
        required: Whether its object is invalid without it.
        limits: Which values it may have, in words.
        description: What the schema says about it.
    """

    name: str
    depth: int
    type: str
    required: bool
    limits: tuple[str, ...]
    description: str


def outline(root: JSON, schema: JSON) -> Iterator[Inner]:
    """Yield what is inside a value, in the order of the schema; at most 200 properties, 8 levels deep.

    Args:
        root: The whole schema, in which references are followed.
        schema: The part of it that describes the value.
    """
    left = _MOST
    for inner in _inside(SchemaDocument(root), schema, 1):
        if not left:
            return
        left -= 1
        yield inner


def limits(document: SchemaDocument, schema: JSON) -> Iterator[str]:
    """Yield what an outline says of a value beside its type: `one of 1, 2`, `at least 3`."""
    listed = choices(document, schema)
    if listed:
        yield ("one of " if len(listed) > 1 else "always ") + ", ".join(map(_shown, listed))
    resolved = document.resolve(schema)
    for key, words in BOUNDS.items():
        bound = resolved.get(key) if isinstance(resolved, dict) else None
        if isinstance(bound, int | float | str) and not isinstance(bound, bool):
            yield words.format(bound)


def choices(document: SchemaDocument, schema: JSON) -> list[JSON]:
    """Return the values that a schema lists, for an outline; empty if it allows others.

    Null is part of the type and not repeated here.
    """
    found: list[JSON] = []
    waiting = [schema]
    for _ in range(_MOST):
        if not waiting:
            return found
        member = document.resolve(waiting.pop(0))
        listed = _listed(member)
        if listed is not None:
            found += [value for value in listed if value is not None and value not in found]
        elif document.friendly(member) != "None":
            alternatives = _alternatives(member, "anyOf", "oneOf")
            if not alternatives:
                return []
            waiting = [*alternatives, *waiting]
    return []


def _listed(schema: JSON) -> list[JSON] | None:
    if not isinstance(schema, dict):
        return None
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else None


def _alternatives(schema: JSON, *words: str) -> list[JSON]:
    lists = [schema.get(word) for word in words] if isinstance(schema, dict) else []
    return [member for found in lists if isinstance(found, list) for member in found]


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


def _shown(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _inside(document: SchemaDocument, schema: JSON, depth: int) -> Iterator[Inner]:
    if depth > _DEEPEST:
        return
    for shape in _shapes(document, schema):
        listed = shape.get("required")
        needed = listed if isinstance(listed, list) else []
        for name, inner in _table(shape.get("properties")).items():
            yield from _named(document, name, inner, depth, required=name in needed)
        for pattern, inner in _table(shape.get("patternProperties")).items():
            yield from _named(document, f"/{pattern}/", inner, depth, required=False)
        others, items = shape.get("additionalProperties"), shape.get("items")
        if isinstance(others, dict) and others:
            yield from _named(document, "*", others, depth, required=False)
        tuple_items = items if isinstance(items, list) else shape.get("prefixItems")
        for index, inner in enumerate(tuple_items if isinstance(tuple_items, list) else ()):
            yield from _named(document, f"[{index}]", inner, depth, required=False)
        if isinstance(items, dict) and (any(_shapes(document, items)) or any(limits(document, items))):
            yield from _named(document, "[]", items, depth, required=False)


def _named(
    document: SchemaDocument, name: str, schema: JSON, depth: int, *, required: bool
) -> Iterator[Inner]:
    resolved = document.resolve(schema)
    texts = [it.get("description") for it in (schema, resolved) if isinstance(it, dict)]
    yield Inner(
        name=name,
        depth=depth,
        type=document.friendly(schema),
        required=required,
        limits=tuple(limits(document, schema)),
        description=next((text for text in texts if isinstance(text, str)), ""),
    )
    yield from _inside(document, schema, depth + 1)


def _shapes(document: SchemaDocument, schema: JSON) -> Iterator[dict[str, JSON]]:
    """Yield the schema, and what it is composed of, where it says something about the inside of values."""
    waiting, seen = [schema], set[int]()
    for _ in range(_MOST):
        member = document.resolve(waiting.pop(0)) if waiting else None
        if isinstance(member, dict) and id(member) not in seen:
            seen.add(id(member))
            if member.keys() & _INSIDE:
                yield member
            waiting = [*_alternatives(member, "anyOf", "oneOf", "allOf"), *waiting]


def _table(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, dict) else {}
