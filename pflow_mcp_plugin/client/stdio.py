"""The stdio transport: newline-delimited JSON-RPC over a server's pipes.

Ours rather than the SDK's, which hangs on one byte that is not UTF-8 and takes quadratic time on
a long line. It gives the SDK's session the two stream objects that it needs, without a task or a
queue between the session and the pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pflow_mcp_plugin.client.framing import LineBuffer, LineTooLong
from pflow_mcp_plugin.client.pipes import ChunkReader, PipeWriter, TailReader, read_pipe
from pflow_mcp_plugin.client.spawning import ServerProcess

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_READ_AHEAD = 256
"""Messages that may wait to be taken before reading pauses."""
_EXIT_GRACE = 2.0
"""Seconds a server has to exit after its stdin closed, and again after SIGTERM."""
_HUNG_GRACE = 0.1
"""The same after its stdin closed, for one that hung in a call."""
_LAST_WORDS_SECONDS = 0.3
"""How long to wait for a dying server's exit code, and for the rest of its stderr."""
_MIB = 1 << 20


class Observations:
    """What the transport noticed; failures are explained from it.

    Attributes:
        invalid_json: The beginning of a line that looked like JSON and did not parse.
        too_long: Bytes of a line that reached the cap.
        write_timed_out: Whether the server stopped reading.
        unfinished: Bytes of a message that broke off when the server closed its stdout.
        unmatched: Replies whose id nobody waits for.
        strays: Lines that are no messages.
    """

    def __init__(self) -> None:
        self.invalid_json: str | None = None
        self.too_long: int | None = None
        self.write_timed_out = False
        self.unfinished = 0
        self.unmatched = 0
        self.strays = 0


class StdioTransport:
    """An async context manager that yields the read and the write stream of a session.

    Args:
        process: The server.
        line_cap: MiB that one message may have.
        write_seconds: How long the server may refuse to read.
        warn: Told, once, that the server writes lines that are no messages.

    Attributes:
        seen: What was noticed on the way.
        stderr: What the server says there.
        finished: Whether the server closed its stdout.
        hung: Whether there is no point in waiting for it to end by itself.
        exit_code: How the server ended by itself, None if it did not.
    """

    def __init__(
        self, process: ServerProcess, *, line_cap: float, write_seconds: float, warn: Callable[[str], None]
    ) -> None:
        self.process = process
        self.seen = Observations()
        self.stderr = TailReader()
        self._warn = warn
        self._lines = LineBuffer(int(line_cap * _MIB))
        self._writer = PipeWriter(write_seconds)
        self._incoming = MessageQueue()
        self._waiting: set[str | int] = set()
        self._transports: list[asyncio.ReadTransport] = []
        self._closing = False
        self.finished = False
        self.hung = False
        self.exit_code: int | None = None

    async def __aenter__(self) -> tuple[MessageQueue, MessageSink]:
        try:
            await self._attach()
        except BaseException:  # cancelled while the pipes were attached: the process is ours to end
            await self._end()
            raise
        return self._incoming, MessageSink(self._send)

    async def _attach(self) -> None:
        popen = self.process.popen
        assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None  # noqa: PT018, S101 - spawned with pipes
        await self._writer.connect(popen.stdin)
        self._transports.append(await read_pipe(self.stderr, popen.stderr))
        self._transports.append(await read_pipe(ChunkReader(self._on_data, self._on_end), popen.stdout))
        self._incoming.throttle(self._transports[-1])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        """End the server: close its stdin, wait, SIGTERM to its group, SIGKILL."""
        if self.finished:
            await self.exited(_LAST_WORDS_SECONDS)
        self.exit_code = self.process.returncode
        self._closing = True
        self._incoming.end()
        await asyncio.shield(asyncio.ensure_future(self._stop()))

    async def _stop(self) -> None:
        try:
            await self._writer.close(0.5)
            if not await self.exited(_HUNG_GRACE if self.hung else _EXIT_GRACE):
                self.process.signal_group(signal.SIGTERM)
                await self.exited(_EXIT_GRACE)
            self.process.signal_group(signal.SIGKILL)
            await self.exited(_EXIT_GRACE)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stderr.closed.wait(), _LAST_WORDS_SECONDS)
            for transport in self._transports:
                transport.close()
        finally:
            self.process.release()

    async def exited(self, seconds: float) -> bool:
        """Wait for the server's process to end; whether it did, and if unasked, how."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        pause = 0.001
        while self.process.returncode is None:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        if not self._closing:
            self.exit_code = self.process.returncode
        return True

    async def _send(self, message: SessionMessage) -> None:
        from anyio import BrokenResourceError

        body = message.message
        request_id = getattr(body, "id", None)
        if request_id is not None and hasattr(body, "method"):
            self._waiting.add(request_id)
        data = (
            body.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "surrogatepass") + b"\n"
        )
        try:
            await self._writer.write(data)
        except TimeoutError as error:
            self.seen.write_timed_out = True
            self._incoming.end()
            raise BrokenResourceError from error
        except BrokenPipeError as error:
            raise BrokenResourceError from error

    def _on_data(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self._on_line(line)
        except LineTooLong as error:
            self.seen.too_long = error.size
            self._break_off()

    def _on_line(self, line: bytes) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        text = line.strip()
        if not text:
            return
        try:
            message = jsonrpc_message_adapter.validate_json(text, by_name=False)
        except ValueError:
            self._on_stray(text)
            return
        self._match(message)
        self._incoming.put(SessionMessage(message))

    def _on_stray(self, line: bytes) -> None:
        """A line that is no message: one that looks like JSON and is not ends the connection."""
        if not _is_utf8(line):
            self._note_stray("bytes that are not UTF-8")
            replaced = line.decode("utf-8", "replace").encode()
            if _is_message(replaced):
                self._on_line(replaced)
            return
        if line[:1] in (b"{", b"[") and not _is_json(line) and self._waiting:
            self.seen.invalid_json = line[:200].decode("utf-8", "replace")
            self._break_off()
            return
        self._note_stray("lines on stdout that are no messages")

    def _note_stray(self, what: str) -> None:
        self.seen.strays += 1
        if self.seen.strays == 1:
            self._warn(f"writes {what}; they are ignored (a server's log belongs on stderr)")

    def _match(self, message: object) -> None:
        if hasattr(message, "method"):
            return
        reply_to = getattr(message, "id", None)
        if reply_to in self._waiting:
            self._waiting.discard(reply_to)
        else:
            self.seen.unmatched += 1

    def _on_end(self) -> None:
        self.finished = True
        self.seen.unfinished = self._lines.pending
        self._incoming.end()

    def _break_off(self) -> None:
        self._transports[-1].close()
        self._incoming.end()


class MessageQueue:
    """The read stream: messages in order, then the end. Reading pauses while many wait."""

    def __init__(self) -> None:
        self._messages: deque[SessionMessage] = deque()
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._source: asyncio.ReadTransport | None = None
        self._paused = False

    def throttle(self, source: asyncio.ReadTransport) -> None:
        """Name the transport to pause."""
        self._source = source

    def put(self, message: SessionMessage) -> None:
        """Add a message; dropped after the end."""
        if self._ended:
            return
        self._messages.append(message)
        self._wake()
        if len(self._messages) >= _READ_AHEAD and self._source is not None and not self._paused:
            self._paused = True
            self._source.pause_reading()

    def end(self) -> None:
        """No more will come; what waits can still be taken."""
        self._ended = True
        self._wake()

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: There is no more.
        """
        while not self._messages:
            if self._ended:
                from anyio import EndOfStream

                raise EndOfStream
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        message = self._messages.popleft()
        if self._paused and len(self._messages) < _READ_AHEAD // 2:
            self._resume()
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
        """Take no more."""
        self.end()
        self._messages.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _resume(self) -> None:
        self._paused = False
        if self._source is not None and not self._source.is_closing():
            with contextlib.suppress(RuntimeError):
                self._source.resume_reading()


class MessageSink:
    """The write stream: each message goes straight to the pipe."""

    def __init__(self, send: Callable[[SessionMessage], object]) -> None:
        self._send = send

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message."""
        await self._send(item)  # type: ignore[misc]

    async def aclose(self) -> None:
        """Nothing to do: the transport closes the pipe when it ends the server."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(line: bytes) -> bool:
    import json

    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _is_message(line: bytes) -> bool:
    from mcp_types import jsonrpc_message_adapter

    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return False
    return True
