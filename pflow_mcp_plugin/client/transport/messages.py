"""JSON-RPC messages, delimited by newlines: from bytes and back, for every transport that uses lines.

It provides the two stream objects that the SDK's session needs, without a task between the
session and the transport.
"""

from __future__ import annotations

import asyncio
import re
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any, Self

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.processes.shutdown import LAST_WORDS_SECONDS

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

_READ_AHEAD = 256
"""Messages that may wait in the queue before reading pauses."""
_BRACKETS = (b"{", b"[")
_IGNORED = "they are ignored (a server's log belongs on stderr)"
_NO_MESSAGES = "lines on stdout that are not messages"
_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_BEGINS = (rb"\ud", rb"\uD")
"""How escaped surrogates begin; searched first, a hundred times as fast as a pattern."""
_SUSPECT = re.compile(_HIGH + b"(?!" + _LOW + b")|(?<!" + _HIGH + b")" + _LOW + rb"|\\" + _HIGH + _LOW)
"""A possibly lone surrogate; also a pair after a backslash, which may make the first escape plain text."""
_ESCAPE = re.compile(_HIGH + _LOW + b"|(" + _HIGH + b"|" + _LOW + rb")|\\.", re.DOTALL)


class Observations:
    """What a message stream has noticed: invalid JSON, too long lines, a server that does not read."""

    def __init__(self) -> None:
        self.invalid_json: str | None = None  # the beginning of a line that looked like JSON
        self.fault = ""  # why it did not parse
        self.too_long: int | None = None  # bytes of a line that reached the cap
        self.write_timed_out = False  # the server stopped reading
        self.broken = False  # nothing more can be sent, or what is received cannot be used
        self.unfinished = 0  # bytes of an incomplete message when the server closed its stdout
        self.unmatched = 0  # replies whose id matches no waiting request
        self.is_open = False
        self.is_echo = False  # it sent back what it was sent
        self.strays = 0  # lines that are not messages
        self.first_stray = ""  # what the first of them was, if it came before the session was open

    def opened(self) -> None:
        self.is_open, self.strays = True, 0


class MessageStream:
    """Turns bytes of a transport into JSON-RPC messages for the SDK's session, and back."""

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], line_cap: float, warn: Callable[[str], None]
    ) -> None:
        self.seen = Observations()
        self.incoming = MessageQueue()
        self._write = write
        self._warn = warn
        self._lines = LineBuffer(int(line_cap * (1 << 20)))
        self._waiting: set[str | int] = set()
        self._sent = b""
        self._read_to_end = asyncio.Event()

    async def send(self, message: SessionMessage) -> None:
        from anyio import BrokenResourceError

        body = message.message
        request_id = getattr(body, "id", None)
        if request_id is not None and hasattr(body, "method"):
            self._waiting.add(request_id)
        self._sent = body.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "surrogatepass")
        try:
            await self._write(self._sent + b"\n")
        except (TimeoutError, BrokenPipeError) as error:
            self.seen.write_timed_out |= isinstance(error, TimeoutError)
            self.seen.broken = True
            if isinstance(error, BrokenPipeError):  # what a process wrote before it exited may say why
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._read_to_end.wait(), LAST_WORDS_SECONDS)
            self.incoming.end()
            raise BrokenResourceError from error

    def feed(self, data: bytes) -> None:
        """Make JSON-RPC messages of bytes; queue whole messages for the SDK's session, none after the end."""
        if self.incoming.ended:
            return
        try:
            for line in self._lines.feed(data):
                self._on_line(line)
        except LineTooLong as error:
            self.seen.too_long = error.size
            self._break_off()

    def _on_line(self, line: bytes) -> None:
        text = line.strip().removeprefix(BOM_UTF8)
        if not text:
            return
        self.seen.is_echo |= text == self._sent
        # In a flood of lines that are not JSON, the parser would be too slow.
        if self.seen.strays and text[:1] not in _BRACKETS:
            self.seen.strays += 1
            return
        try:
            value = read_json(text)
        except ValueError as error:
            self._on_unreadable(text, error)
        else:
            self._on_json(value)

    def _on_unreadable(self, line: bytes, error: ValueError) -> None:
        text = line.decode("utf-8", "replace")
        if text.encode("utf-8") != line:
            self._note_stray("bytes that are not UTF-8", text, "they become U+FFFD")
            self._on_line(text.encode())
        elif line[:1] in _BRACKETS and self._waiting:
            # The request that it should have answered is unknown, and would wait forever.
            self.seen.invalid_json = line[:2000].decode("utf-8", "replace")
            self.seen.fault = str(error)
            self._break_off()
        else:
            self._note_stray(_NO_MESSAGES, text)

    def _on_json(self, value: JSON) -> None:
        from mcp.shared.message import SessionMessage

        if isinstance(value, list):  # a batch, as protocol 2025-03-26 allowed
            for item in value:
                self._on_json(item)
            return
        message = as_message(value, self._waiting)
        if message is None:
            self.seen.unmatched += isinstance(value, dict) and ("result" in value or "error" in value)
            self._note_stray(_NO_MESSAGES, "JSON that is not JSON-RPC")
            return
        if not hasattr(message, "method"):
            reply_to: Any = message.id
            self.seen.unmatched += reply_to not in self._waiting
            self._waiting.discard(reply_to)
        self.incoming.put(SessionMessage(message))

    def _note_stray(self, what: str, line: str, fate: str = _IGNORED) -> None:
        self.seen.strays += 1
        if self.seen.strays > 1:
            return
        if self.seen.is_open:
            self._warn(f"writes {what}; {fate}")
        else:  # most servers that do this greet at each start: a sync says so, or the error of a start
            self.seen.first_stray = f"it writes {what}, such as: {line[:200]}"

    def end(self) -> None:
        self.seen.unfinished = self._lines.pending
        self.incoming.end()
        self._read_to_end.set()

    def _break_off(self) -> None:
        self.seen.broken = True
        if self.incoming.source is not None:
            self.incoming.source.close()
        self.incoming.end()


@attrs.define(slots=False)
class LineTooLong(Exception):
    """A JSON-RPC message reached its cap before its newline."""

    size: int


class LineBuffer:
    """Assembles JSON-RPC messages, which newlines end, from chunks of bytes; each byte is examined once.

    A line in several chunks grows in one buffer, which becomes the line: joining a list of chunks
    would need twice the memory.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._begun = BytesIO()

    @property
    def pending(self) -> int:
        return self._begun.tell()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._check(end)
            line = end
            if self.pending:
                begun, self._begun = self._begun, BytesIO()
                begun.write(end)
                line = begun.getvalue()
            yield line
        if rest:
            self._check(rest)
            self._begun.write(rest)

    def _check(self, more: bytes) -> None:
        size = self.pending + len(more)
        if size > self._cap:
            self._begun = BytesIO()  # frees the memory, which may be large
            raise LineTooLong(size)


class MessageQueue(AbstractAsyncContextManager["MessageQueue"]):
    """The read stream of JSON-RPC messages: in order, then the end; reading pauses while many are queued."""

    def __init__(self) -> None:
        self._messages: deque[SessionMessage] = deque()
        self.ended = False
        self._received = 0
        self._room = asyncio.Event()
        self._room.set()
        self._waiter: asyncio.Future[None] | None = None
        self.source: asyncio.ReadTransport | None = None  # paused while many messages are queued
        self._paused = False

    def put(self, message: SessionMessage) -> None:
        if self.ended:
            return
        self._messages.append(message)
        self._wake()
        if len(self._messages) >= _READ_AHEAD and not self._paused:
            self._paused = True
            self._room.clear()
            if self.source is not None:
                self.source.pause_reading()

    async def room(self) -> None:
        """Wait until the message queue takes more: for a source that cannot be paused."""
        await self._room.wait()

    def end(self) -> None:
        self.ended = True
        self._room.set()
        self._wake()

    async def receive(self) -> SessionMessage:
        self._received += 1
        if self._received % 32 == 0:
            # During a flood other tasks get their turn, and the session can be closed: anyio cancels a task
            # only while it waits, and for this one there is always a message.
            await asyncio.sleep(0)
        while not self._messages:
            if self.ended:
                from anyio import EndOfStream

                raise EndOfStream
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        message = self._messages.popleft()
        if self._paused and len(self._messages) < _READ_AHEAD // 2:
            self._paused = False
            self._room.set()
            if self.source is not None:
                self.source.resume_reading()
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self.end()
        self._messages.clear()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class MessageSink(AbstractAsyncContextManager["MessageSink"]):
    """Where the SDK's session writes messages for a transport, which sends each at once, without a queue."""

    def __init__(self, send: Callable[[SessionMessage], Any]) -> None:
        self.send = send
        """Sends one message; returns once it is written."""

    async def aclose(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


def read_json(text: bytes) -> JSON:
    """Return the value of a JSON-RPC message's text; lone surrogates in it become U+FFFD."""
    from pydantic_core import from_json

    try:
        value: JSON = from_json(text)
    except ValueError:
        whole = replace_lone_surrogates(text)
        if whole is text:
            raise
        value = from_json(whole)
    return value


def as_message(value: JSON, waiting: Container[str | int]) -> JSONRPCMessage | None:
    """Return parsed JSON as the JSON-RPC message that the session reads, None if it is not one.

    It takes a parsed value because the SDK's adapter would parse JSON again for each kind of message
    that it tries.
    """
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
    from pydantic import ValidationError

    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        reply_to = value.get("id") if isinstance(value, dict) and "method" not in value else None
        if type(reply_to) not in (int, float, str) or reply_to not in waiting:
            return None
        fault = ErrorData(code=PARSE_ERROR, message="Failed to parse an answer: it is not a JSON-RPC message")
        same = int(reply_to) if isinstance(reply_to, float) else reply_to  # 1.0 is the same id
        return JSONRPCError(jsonrpc="2.0", id=same, error=fault)


def replace_lone_surrogates(data: bytes) -> bytes:
    """Return a message's JSON with each lone surrogate's escape replaced; the same object if it has none."""
    if not any(begins in data for begins in _BEGINS) or _SUSPECT.search(data) is None:
        return data
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], data)
