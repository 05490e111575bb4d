"""A stdio server for tests: it tells the JSON type of what reached it, and keeps state.

Start it with `python tests/servers/typed_server.py`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import WithJsonSchema
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

# One white pixel.
_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a4944415478da63f80f"
    "00010101005a4d6ff10000000049454e44ae426082"
)

# Declared with its type for clients, but taken as it came: the point is to see what was sent.
Text = Annotated[Any, WithJsonSchema({"type": "string"})]
Integer = Annotated[Any, WithJsonSchema({"type": "integer"})]
Number = Annotated[Any, WithJsonSchema({"type": "number"})]
Flag = Annotated[Any, WithJsonSchema({"type": "boolean"})]
Nullable = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})]
Items = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "integer"}})]
Nested = Annotated[
    Any,
    WithJsonSchema({"type": "object", "properties": {"inner": {"type": "object"}}, "required": ["inner"]}),
]


class Description(TypedDict):
    """What was received, in JSON's words."""

    type: str
    repr: str


class Place(TypedDict):
    """A structured result with a nested object."""

    name: str
    position: dict[str, float]
    tags: list[str]


def describe_value(value: Any) -> Description:
    """Return JSON's name for the type of `value`, and its Python repr."""
    names = {
        type(None): "null",
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return Description(type=names[type(value)], repr=repr(value))


def build_server() -> MCPServer[Any]:
    """Return the server with its tools."""
    server: MCPServer[Any] = MCPServer("typed", version="1.0.0")
    calls: list[None] = []

    @server.tool()
    def describe(value: Any) -> Description:
        """Tell the type of any JSON value."""
        return describe_value(value)

    @server.tool()
    def describe_each(
        text: Text,
        integer: Integer,
        number: Number,
        flag: Flag,
        nullable: Nullable,
        items: Items,
        nested: Nested,
    ) -> dict[str, Description]:
        """Tell the type of each of seven arguments."""
        return {name: describe_value(value) for name, value in sorted(locals().items())}

    @server.tool()
    def count() -> int:
        """Count the calls since this server started."""
        calls.append(None)
        return len(calls)

    @server.tool()
    def fail(message: str) -> str:
        """Fail with a message."""
        raise ToolError(message)

    @server.tool()
    def structured() -> Place:
        """Give a structured result."""
        return Place(name="Null Island", position={"lat": 0.0, "lon": 0.0}, tags=["buoy"])

    @server.tool()
    def image() -> Image:
        """Give an image of one pixel."""
        return Image(data=_PNG, format="png")

    @server.tool()
    async def slow(seconds: float, context: Context) -> str:
        """Take a while, reporting progress every tenth of a second."""
        steps = max(1, round(seconds * 10))
        for step in range(steps):
            await asyncio.sleep(seconds / steps)
            await context.report_progress(step + 1, steps)
        return f"took {seconds} s"

    return server


if __name__ == "__main__":
    build_server().run()
