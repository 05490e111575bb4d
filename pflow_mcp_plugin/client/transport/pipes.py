"""asyncio protocols for the pipes of a process, and lines from chunks of bytes in linear time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import IO

import attrs

from pflow_mcp_plugin.client.request_failures import Undelivered
from pflow_mcp_plugin.processes.system_calls import unread_bytes

_TAIL = 64 * 1024
"""Bytes that are kept of the tail of a drained pipe."""


class TailReader(asyncio.Protocol):
    """The asyncio protocol for a pipe of which only the tail is kept, the last 64 KiB."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._seen = 0
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Keep the tail of the data."""
        self._kept += data
        self._seen += len(data)
        if len(self._kept) > 2 * _TAIL:
            del self._kept[:-_TAIL]

    def connection_lost(self, exc: Exception | None) -> None:
        """Record the end of the pipe."""
        self.closed.set()

    @property
    def text(self) -> str:
        """The tail, decoded; from its first complete line, if it has one."""
        kept = bytes(self._kept[-_TAIL:])
        if self._seen > _TAIL:
            kept = kept[kept.find(b"\n") + 1 :] or kept
        return kept.decode("utf-8", "replace")


class ChunkReader(asyncio.Protocol):
    """Passes every chunk read from a pipe to `on_data`, and calls `on_end` at its end."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self.begun = False

    def data_received(self, data: bytes) -> None:
        """Pass a chunk read from the pipe to `on_data`."""
        self.begun = True
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the pipe to `on_end`."""
        self._on_end()


class PipeWriter(asyncio.BaseProtocol):
    """Writes complete messages to a pipe; waits, within a deadline, while the process does not read."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._given = 0
        self.lost = False  # whether the process closed the pipe
        self.unread = False  # whether it did so before reading a single byte; known on Linux only

    @property
    def untouched(self) -> bool | None:
        """Whether nothing has been read from the pipe yet; None if unknown."""
        if self._transport is None or self._transport.is_closing():
            return None
        left = unread_bytes(self._transport.get_extra_info("pipe"))
        return None if left is None else left == self._taken(self._transport)

    async def connect(self, pipe: IO[bytes]) -> None:
        """Take over the write end of a pipe."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_write_pipe(lambda: self, pipe)

    def take(self, transport: asyncio.WriteTransport) -> None:
        """Write to a connected transport instead of a pipe."""
        self._transport = transport

    def pause_writing(self) -> None:
        """Make writes wait, because the pipe and its buffer are full."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let writes to the pipe continue, because its buffer has room again."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the reading end of the pipe was closed, and whether anything had been read."""
        pipe = self._transport.get_extra_info("pipe") if self._transport is not None else None
        self.unread = pipe is not None and unread_bytes(pipe) == self._given
        self.lost = True
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Write one message to the pipe, waiting while it is full.

        If a message is abandoned half-way, at the deadline or because the task is cancelled, the pipe
        is closed: the reader must not receive the rest of it later.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise BrokenPipeError from Undelivered()
        transport.write(data)
        if transport.is_closing():  # how asyncio reports that the reader was gone
            raise BrokenPipeError from Undelivered()
        self._given += len(data)
        await self._until_taken(transport, self._given)
        if self.lost:
            raise BrokenPipeError

    async def _until_taken(self, transport: asyncio.WriteTransport, end: int) -> None:
        try:
            while not self._room.is_set():
                before = self._taken(transport)
                try:
                    async with asyncio.timeout(self._seconds):
                        await self._room.wait()
                except TimeoutError:
                    if before == self._taken(transport):  # the process has read nothing meanwhile
                        raise
        except (TimeoutError, asyncio.CancelledError) as error:
            if self._taken(transport) < end - 1:  # a message is complete even without its newline
                transport.abort()
                raise error from Undelivered()
            if isinstance(error, TimeoutError):
                return  # the reader took this message; a later one blocks
            raise

    def _taken(self, transport: asyncio.WriteTransport) -> int:
        """Return how many bytes have been written to the pipe."""
        return self._given - transport.get_write_buffer_size()

    async def close(self, seconds: float) -> None:
        """Close the pipe, waiting up to `seconds` for buffered data to be written."""
        if self._transport is None or self._transport.is_closing():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._room.wait()
        if not self._transport.is_closing():  # it may have been lost meanwhile
            self._transport.abort()


async def read_pipe(protocol: asyncio.Protocol, pipe: IO[bytes]) -> asyncio.ReadTransport:
    """Connect a protocol to the read end of a pipe."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    return transport


@attrs.define(slots=False)
class LineTooLong(Exception):
    """A line reached its cap before its newline."""

    size: int


class LineBuffer:
    """Splits a byte stream into lines, examining each byte once.

    A line in several chunks grows in one buffer, which becomes the line: joining a list of chunks
    would need twice the memory.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._begun = BytesIO()

    @property
    def pending(self) -> int:
        """The number of bytes of the line whose newline is still missing."""
        return self._begun.tell()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that a chunk of bytes completes, without their newlines."""
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
