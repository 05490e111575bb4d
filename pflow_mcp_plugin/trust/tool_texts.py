"""Every text of a tool, with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.types import Tool

_VALUES = frozenset({"default", "const", "enum", "examples", "example", "pattern"})
"""Keywords of JSON Schema whose content is data: an empty string, a separator, a key that is pressed."""
_LONGEST = 200


class Text(NamedTuple):
    """A text of a tool.

    Attributes:
        where: Its place: `description`, `inputSchema.properties.path.title`...
        text: The text itself.
        kind: A `name`, `prose` for readers, or a `value` that is sent to the server.
    """

    where: str
    text: str
    kind: str


def texts(tool: Tool) -> Iterator[Text]:
    """Yield every text of a tool: names, title, description, and what its schemas hold."""
    yield Text("name", tool.name, "name")
    yield Text("title", tool.title, "prose")
    yield Text("description", tool.description, "prose")
    for key, value in tool.annotations.items():
        if isinstance(value, str):
            yield Text(f"annotations.{key}", value, "prose")
    yield from schema_texts("inputSchema", tool.input_schema)
    yield from schema_texts("outputSchema", tool.output_schema)


def schema_texts(name: str, schema: JSON) -> Iterator[Text]:
    """Yield the names, texts and values in a JSON Schema, however deep."""
    waiting: list[tuple[str, JSON, str]] = [(name, schema, "prose")]
    while waiting:
        where, part, kind = waiting.pop()
        if isinstance(part, str):
            yield Text(where, part, kind)
        elif isinstance(part, list):
            waiting += ((where, item, kind) for item in reversed(part))
        elif isinstance(part, dict):
            named = where.endswith((".properties", ".$defs", ".definitions", ".patternProperties"))
            for key, value in reversed(part.items()):
                below = kind if named or key not in _VALUES else "value"
                waiting.append((_inside(where, key), value, below))
            yield from (Text(_inside(where, key), key, "name") for key in part)


def _inside(where: str, key: str) -> str:
    """Return the place of a member; of what is nested deep, that of its surroundings."""
    return f"{where}.{key[:_LONGEST]}" if len(where) < _LONGEST else where
