"""A server on a Unix socket: a `MCPServer` of the SDK behind a bridge of lines.

Run as `python socket_server.py PATH [SECONDS]`: it waits SECONDS before it binds PATH. Each
connection gets a session of its own; the tools' state is shared.
"""

from __future__ import annotations

import os
import sys
import time

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

_LONGEST_LINE = 1 << 26


def build() -> MCPServer:
    server = MCPServer("socket", version="1")
    memory: dict[str, str] = {}

    @server.tool()
    def remember(key: str, value: str) -> str:
        """Keep a value."""
        memory[key] = value
        return key

    @server.tool()
    def recall(key: str) -> str:
        """Give it back."""
        return memory[key]

    @server.tool()
    def process() -> int:
        """Tell the id of this process."""
        return os.getpid()

    @server.tool()
    def repeat(text: str, times: int) -> str:
        """Give a text back, many times over."""
        return text * times

    @server.tool()
    async def grow(context: Context) -> None:
        """Have one tool more, and say so."""
        server.add_tool(process, name="twin")
        await context.notify_tools_changed()

    @server.tool()
    def vanish() -> str:
        """End without an answer."""
        os._exit(7)

    return server


async def serve(server: MCPServer, stream: SocketStream) -> None:
    """Serve one connection until the other side closes it."""
    to_server, from_peer = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    to_peer, from_server = anyio.create_memory_object_stream[SessionMessage](16)

    async def receive() -> None:
        lines = BufferedByteReceiveStream(stream)
        async with to_server:
            try:
                while True:
                    line = await lines.receive_until(b"\n", _LONGEST_LINE)
                    await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))
            except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError):
                return

    async def send() -> None:
        async with from_server:
            async for message in from_server:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.send(text.encode() + b"\n")

    low = server._lowlevel_server
    async with anyio.create_task_group() as tasks, stream:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        await low.run(from_peer, to_peer, low.create_initialization_options())
        tasks.cancel_scope.cancel()


async def main(path: str) -> None:
    server = build()
    listener = await anyio.create_unix_listener(path)
    print(f"listening on {path}", flush=True)
    await listener.serve(lambda stream: serve(server, stream))


if __name__ == "__main__":
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    anyio.run(main, sys.argv[1])
