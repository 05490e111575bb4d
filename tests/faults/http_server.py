"""A scriptable HTTP server that speaks enough of MCP to be connected to, and a proxy; loopback only.

A script sees each request before the server does, and may answer it as badly as it likes.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

PROTOCOL = "2025-11-25"


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    came: float = field(default_factory=time.monotonic)

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message in it, empty if there is none."""
        message: dict[str, Any] = json.loads(self.body) if self.body else {}
        return message

    @property
    def rpc(self) -> str:
        """The JSON-RPC method."""
        return str(self.message.get("method", ""))


class Reply:
    """The way back to the client.

    Attributes:
        streamed: Whether an event stream was begun, which only the end of the connection ends.
    """

    def __init__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.writer = writer
        self.streamed = False

    async def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def status(self, code: int, body: bytes = b"", **headers: str) -> None:
        """Answer with a status; header names are written with underscores."""
        fields = {"content-length": str(len(body))}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        await self.raw(_head(code, fields) + body)

    async def json(self, message: object, code: int = 200, **headers: str) -> None:
        """Answer with JSON."""
        await self.status(code, json.dumps(message).encode(), content_type="application/json", **headers)

    async def result(self, result: object, **headers: str) -> None:
        """Answer the JSON-RPC request."""
        await self.json({"jsonrpc": "2.0", "id": self.request.message["id"], "result": result}, **headers)

    async def error(self, error: int, message: str, code: int = 200) -> None:
        """Answer the JSON-RPC request with an error."""
        content = {"code": error, "message": message}
        await self.json({"jsonrpc": "2.0", "id": self.request.message["id"], "error": content}, code)

    async def text(self, text: str) -> None:
        """Answer a call of a tool."""
        await self.result({"content": [{"type": "text", "text": text}]})

    async def events(self, *events: str) -> None:
        """Begin an event stream that has no end of its own."""
        self.streamed = True
        fields = {"content-type": "text/event-stream", "connection": "close"}
        await self.raw(_head(200, fields) + "".join(f"{event}\n\n" for event in events).encode())

    def answer_event(self, text: str, request_id: int) -> str:
        """Return the event that answers a call of a tool, also where it comes on another stream."""
        result = {"content": [{"type": "text", "text": text}]}
        message = {"jsonrpc": "2.0", "id": request_id, "result": result}
        return f"data: {json.dumps(message)}"

    def close(self) -> None:
        """Hang up."""
        self.writer.close()

    def reset(self) -> None:
        """Hang up in the rudest way."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Request, Reply], Awaitable[object]]
"""Answers a request; returns True if it did, else the server answers."""
Fault = Callable[[Request, Reply], Awaitable[object]]
"""Answers a request, whatever it is."""


async def well(request: Request, reply: Reply) -> bool:
    """Leave every request to the server."""
    return False


def when(chosen: Callable[[Request], object], fault: Fault, otherwise: Script = well) -> Script:
    """Let chosen requests meet the fault, and all else another script; by itself all goes well."""

    async def script(request: Request, reply: Reply) -> object:
        if not chosen(request):
            return await otherwise(request, reply)
        await fault(request, reply)
        return True

    return script


def always(fault: Fault) -> Script:
    """Let every request meet the fault."""
    return when(lambda _: True, fault)


def on(rpc: str, fault: Fault) -> Script:
    """Let requests of a JSON-RPC method meet the fault, and all else go well."""
    return when(lambda request: request.rpc == rpc, fault)


def on_call(fault: Fault) -> Script:
    """Let calls of tools meet the fault, and all else go well."""
    return on("tools/call", fault)


def with_status(code: int, body: bytes = b"", **headers: str) -> Fault:
    """Answer with a status."""

    async def fault(request: Request, reply: Reply) -> None:
        await reply.status(code, body, **headers)

    return fault


def trickling(beginning: bytes, piece: bytes = b" ") -> Fault:
    """Begin an answer that goes on, a piece at a time, until the client hangs up."""

    async def fault(request: Request, reply: Reply) -> None:
        await reply.raw(beginning)
        while True:
            await reply.raw(piece)
            await asyncio.sleep(0.05)

    return fault


class LoopbackServer:
    """Something that listens on loopback, in a thread of its own; a context manager.

    Attributes:
        host: The address where it listens.
        port: The port.
        connections: How many have come.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self.connections = 0
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="loopback server")

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._until_stopped())
        finally:
            self._loop.close()

    async def _until_stopped(self) -> None:
        self._stop = asyncio.Event()
        self._loop.set_exception_handler(lambda *_: None)  # a refused TLS handshake is what was wanted
        server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)  # what is aborted is closed a turn later

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        self._tasks.add(task)
        self._writers.append(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self.serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        raise AssertionError("the subclass does")


class FaultServer(LoopbackServer):
    """An MCP server over streamable HTTP with one tool, `act`, unless its script will have it otherwise.

    Attributes:
        requests: What came, in order.
        session: The id of its session, empty if it has none.
    """

    def __init__(
        self, script: Script, tls: ssl.SSLContext | None = None, session: str = "", **place: Any
    ) -> None:
        super().__init__(tls, **place)
        self.requests: list[Request] = []
        self.session = session
        self._script = script

    def url(self, host: str = "127.0.0.1", path: str = "/mcp") -> str:
        """Return its address, by any name of this machine."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def count(self, rpc: str) -> int:
        """Return how often a JSON-RPC method was asked for."""
        return len(self.times(rpc))

    def times(self, rpc: str) -> list[float]:
        """Return when it was."""
        return [request.came for request in self.requests if request.rpc == rpc]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until one side hangs up."""
        while not writer.is_closing():
            request = await read_request(reader)
            self.requests.append(request)
            reply = Reply(request, writer)
            if not await self._script(request, reply):
                await self._answer(request, reply)
            if reply.streamed and request.method == "GET":
                return

    async def _answer(self, request: Request, reply: Reply) -> None:
        if request.method != "POST":
            await reply.status(200 if request.method == "DELETE" else 405)
        elif "id" not in request.message:
            await reply.status(202)
        elif request.rpc == "initialize":
            await reply.result(handshake(), **({"mcp_session_id": self.session} if self.session else {}))
        elif request.rpc == "tools/list":
            await reply.result({"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
        elif request.rpc == "tools/call":
            await reply.text("done")
        else:
            await reply.error(-32601, f"no {request.rpc} here", 400)


class Proxy(LoopbackServer):
    """An HTTP proxy that leads every way to one port of this machine.

    Attributes:
        asked: The first line of every request.
    """

    def __init__(self, target: int, target_host: str = "127.0.0.1") -> None:
        super().__init__()
        self.asked: list[str] = []
        self._target = (target_host, target)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Open a tunnel, or pass a request on."""
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        self.asked.append(line.decode())
        method, target, version = line.split(b" ")
        there, back = await asyncio.open_connection(*self._target)
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            path = b"/" + target.split(b"/", 3)[3]
            back.write(b" ".join([method, path, version]) + b"\r\n" + rest)
        try:
            await asyncio.wait(
                [asyncio.ensure_future(_pump(reader, back)), asyncio.ensure_future(_pump(there, writer))],
                return_when=asyncio.ALL_COMPLETED,
            )
        finally:
            back.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Read one request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body)


def handshake() -> dict[str, Any]:
    """Return the result of `initialize`."""
    return {
        "protocolVersion": PROTOCOL,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "faulty", "version": "1"},
    }


def _head(code: int, fields: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {code} Whatever", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode()
