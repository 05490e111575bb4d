"""The properties inside the objects and lists of a schema, for people to read.

A schema comes from a server and may be anything: nothing here raises, and depth and number are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.schemas.schema_document import SchemaDocument

_DEEPEST = 8
_MOST = 200


@attrs.frozen(kw_only=True)
class Inner:
    """A property inside a value that a schema describes.

    Attributes:
        name: Its name; `[]` for the items of a list.
        depth: How many levels below the value it is, from 1.
        type: Its friendly type.
        required: Whether its object is invalid without it.
        description: What the schema says about it.
    """

    name: str
    depth: int
    type: str
    required: bool
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


def _inside(document: SchemaDocument, schema: JSON, depth: int) -> Iterator[Inner]:
    if depth > _DEEPEST:
        return
    for shape in _shapes(document, schema):
        listed = shape.get("required")
        needed = listed if isinstance(listed, list) else []
        properties = shape.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            yield from _named(document, name, inner, depth, required=name in needed)
        items = shape.get("items")
        if isinstance(items, dict) and any(_shapes(document, items)):
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
        description=next((text for text in texts if isinstance(text, str)), ""),
    )
    yield from _inside(document, schema, depth + 1)


def _shapes(document: SchemaDocument, schema: JSON) -> Iterator[dict[str, JSON]]:
    """Yield the schema, and its alternatives, that describe an object with properties or a list of such."""
    resolved = document.resolve(schema)
    if not isinstance(resolved, dict):
        return
    if isinstance(resolved.get("properties"), dict) or isinstance(resolved.get("items"), dict):
        yield resolved
    for word in ("anyOf", "oneOf", "allOf"):
        alternatives = resolved.get(word)
        for each in alternatives if isinstance(alternatives, list) else ():
            found = document.resolve(each)
            if isinstance(found, dict) and ("properties" in found or "items" in found):
                yield found
