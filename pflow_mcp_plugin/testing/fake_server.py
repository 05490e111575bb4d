"""A fake MCP server for tests: its tools run in the test, though clients start it as a program."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

import attrs

from pflow_mcp_plugin.catalog.tool_file import tool_to_json
from pflow_mcp_plugin.exchange import ToolCall
from pflow_mcp_plugin.testing import pipe_relay
from pflow_mcp_plugin.testing.tool_answers import ToolAnswers, ToolLike

if TYPE_CHECKING:  # loading the SDK takes most of a second
    import mcp_types
    from mcp.server.lowlevel import Server

_END_SECONDS = 5


class FakeServer:
    """A fake MCP server for tests: real processes, pipes and messages; its tools are the test's functions.

    The program in `table` relays its stdin and stdout to this process, where the SDK answers. A context
    manager; every client gets a session of its own, and all share the answers.

    Args:
        tools: Its tools; see `ToolAnswers`.
        name: The name that it reports.
        version: The version that it reports.

    Attributes:
        answers: What its tools answer, and the calls that were made.
    """

    def __init__(self, tools: Iterable[ToolLike], *, name: str = "fake", version: str = "1.0.0") -> None:
        import mcp.server  # noqa: F401 - here: threads that import it at once can find it half loaded

        self.answers = ToolAnswers(tools)
        self._name = name
        self._version = version
        self._folder = Path(tempfile.mkdtemp(prefix="pflow-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / "server"))
        self._listener.listen()
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def table(self) -> dict[str, Any]:
        """The config table of the fake server, with the command that starts it."""
        return {"command": sys.executable, "args": ["-I", pipe_relay.__file__, str(self._folder / "server")]}

    def close(self) -> None:
        """End all sessions of the fake server, which cannot be started any more. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with socket.socket(socket.AF_UNIX) as last:  # wakes the thread that accepts
            last.connect(str(self._folder / "server"))
        self._threads[0].join(_END_SECONDS)
        for connection in self._connections:
            with suppress(OSError):  # its session is over
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join(_END_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, target: Any, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name=f"fake server {self._name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with self._listener:
            while True:
                connection, _ = self._listener.accept()
                if self._closed:
                    connection.close()
                    return
                self._connections.append(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        import anyio

        with (
            connection,
            connection.makefile("r", encoding="utf-8") as reader,
            connection.makefile("w", encoding="utf-8") as writer,
        ):
            try:
                anyio.run(self._session, reader, writer)
            except* OSError:
                pass  # the client went away in the middle of a message

    async def _session(self, reader: TextIO, writer: TextIO) -> None:
        import anyio
        from mcp.server.stdio import stdio_server

        server = self._sdk_server()
        async with stdio_server(anyio.wrap_file(reader), anyio.wrap_file(writer)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    def _sdk_server(self) -> Server[Any]:
        import anyio.to_thread
        import mcp_types
        from mcp.server.lowlevel import Server
        from mcp.shared.exceptions import MCPError

        async def list_tools(_: object, __: object) -> mcp_types.ListToolsResult:
            tools = [tool_to_json(attrs.evolve(tool, task_support="")) for tool in self.answers.tools]
            listed = [{key: tool[key] for key in tool if key != "hash"} for tool in tools]
            return mcp_types.ListToolsResult.model_validate({"tools": listed})

        async def call_tool(_: object, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
            call = ToolCall(server=self._name, tool=params.name, arguments=params.arguments or {})
            try:
                answer = await anyio.to_thread.run_sync(self.answers.answer, call)
            except Exception as error:  # a test's tool may raise anything; the SDK would hide its message
                raise MCPError(mcp_types.INTERNAL_ERROR, str(error)) from error
            data: dict[str, Any] = {"content": [*answer.content], "isError": answer.is_error}
            if answer.has_structured:
                data["structuredContent"] = answer.structured
            return mcp_types.CallToolResult.model_validate(
                {**data, "_meta": answer.meta} if answer.meta else data
            )

        return Server(self._name, version=self._version, on_list_tools=list_tools, on_call_tool=call_tool)
