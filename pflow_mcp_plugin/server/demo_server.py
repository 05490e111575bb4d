"""The bundled demo server: pure Python, over stdio, without further dependencies.

Start it with `python -m pflow_mcp_plugin.server.demo_server`. Its tools show what workflows work with:
typed arguments, structured results, read-only hints, and state that lasts as long as the server.
"""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

if __name__ == "__main__":
    gc.disable()  # until everything is loaded: it stays, and collections slow the start by a sixth

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field, SkipValidation, WithJsonSchema

_READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


class Count(TypedDict):
    """The structured result of the demo server's tool `word_count`."""

    words: int
    characters: int
    lines: int


class Value(TypedDict):
    """Any JSON value in a structured result of the demo server, so that it keeps its type."""

    value: Any


AnyValue = Annotated[
    str, SkipValidation, WithJsonSchema({"title": "Value"}), Field(description="Any JSON value")
]
"""A parameter that takes any JSON value as it is.

The SDK reads text for any other parameter as JSON, so that the text `[1, 2]` would come back as a list. It
leaves parameters annotated as `str` alone.
"""


def build_server() -> MCPServer[Any]:
    """Return the demo server with its six tools."""
    server: MCPServer[Any] = MCPServer("pflow-demo", instructions="Small tools to try workflows with.")
    memory: dict[str, Any] = {}

    @server.tool(annotations=_READ_ONLY)
    def add(
        a: Annotated[int, Field(description="The first number")],
        b: Annotated[int, Field(description="The second number")],
    ) -> int:
        """Add two whole numbers."""
        return a + b

    @server.tool(annotations=_READ_ONLY)
    def echo(value: AnyValue) -> Value:
        """Return the value that was sent, with its type unchanged."""
        return Value(value=value)

    @server.tool(annotations=_READ_ONLY)
    def word_count(text: Annotated[str, Field(description="The text to count in")]) -> Count:
        """Count words, characters and lines."""
        return Count(words=len(text.split()), characters=len(text), lines=len(text.splitlines()))

    @server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    def now() -> str:
        """Return the current time in UTC, as ISO 8601."""
        return datetime.now(UTC).isoformat(timespec="seconds")

    @server.tool(annotations=_WRITES)
    def remember(
        key: Annotated[str, Field(description="The name to remember it under")],
        value: AnyValue,
    ) -> str:
        """Keep a value for as long as this server runs."""
        memory[key] = value
        return f"Remembered {key}"

    @server.tool(annotations=_READ_ONLY)
    def recall(key: Annotated[str, Field(description="The name it was remembered under")]) -> Value:
        """Return a value that was remembered."""
        if key not in memory:
            known = ", ".join(sorted(memory)) or "nothing yet"
            message = f"Nothing is remembered under {key!r}; remembered so far: {known}"
            raise ToolError(message)  # the SDK hides the message of any other exception
        return Value(value=memory[key])

    return server


def main() -> None:
    """Serve the demo server over stdio; only garbage that calls leave behind is collected."""
    server = build_server()
    gc.freeze()
    gc.enable()
    server.run()
    gc.freeze()  # a last collection over everything loaded would delay the exit


if __name__ == "__main__":
    main()
