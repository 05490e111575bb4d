"""asyncio protocols over a server's pipes: reading with a tail kept, writing with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import IO

from pflow_mcp_plugin.client.exchange import Undelivered

_TAIL = 64 * 1024
"""Bytes of stderr that are kept."""


class TailReader(asyncio.Protocol):
    """Drains a pipe for ever and keeps its last 64 KiB."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._seen = 0
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Keep the end of what came."""
        self._kept += data
        self._seen += len(data)
        if len(self._kept) > 2 * _TAIL:
            del self._kept[:-_TAIL]

    def connection_lost(self, exc: Exception | None) -> None:
        """The pipe is at its end."""
        self.closed.set()

    @property
    def text(self) -> str:
        """What is kept, decoded; it begins with a whole line where it has one."""
        kept = bytes(self._kept[-_TAIL:])
        if self._seen > _TAIL:
            kept = kept[kept.find(b"\n") + 1 :] or kept
        return kept.decode("utf-8", "replace")


class ChunkReader(asyncio.Protocol):
    """Hands every chunk to `on_data` and the end to `on_end`.

    Attributes:
        begun: Whether anything came.
    """

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self.begun = False

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self.begun = True
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._on_end()


class PipeWriter(asyncio.BaseProtocol):
    """Writes whole messages; waits, within a deadline, while the other side does not read.

    Attributes:
        lost: Whether the other side closed the pipe.
        unread: Whether it did so without having read a single byte; known on Linux only.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._given = 0
        self.lost = False
        self.unread = False

    @property
    def untouched(self) -> bool | None:
        """Whether the other side has read nothing yet; None where that is not known."""
        if self._transport is None or self._transport.is_closing():
            return None
        left = _bytes_left(self._transport.get_extra_info("pipe"))
        return None if left is None else left == self._taken(self._transport)

    async def connect(self, pipe: IO[bytes]) -> None:
        """Take over the write end of a pipe."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_write_pipe(lambda: self, pipe)

    def take(self, transport: asyncio.WriteTransport) -> None:
        """Write to what is connected already."""
        self._transport = transport

    def pause_writing(self) -> None:
        """The buffer is full."""
        self._room.clear()

    def resume_writing(self) -> None:
        """The buffer has room again."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side closed the pipe."""
        pipe = self._transport.get_extra_info("pipe") if self._transport is not None else None
        self.unread = pipe is not None and _bytes_left(pipe) == self._given
        self.lost = True
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Write one message.

        A message that is given up half-way, at the deadline or because the task is cancelled,
        closes the pipe: the other side must not come upon the rest of it later.

        Args:
            data: The message, with its newline.

        Raises:
            BrokenPipeError: The other side is gone; it may have got the message first.
            TimeoutError: It took nothing for too long.

        Where it is certain that the other side did not get all of it, the cause of these, and of the
        cancellation, is `Undelivered`.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise BrokenPipeError from Undelivered()
        transport.write(data)
        if transport.is_closing():  # how asyncio tells that the other side was gone
            raise BrokenPipeError from Undelivered()
        self._given += len(data)
        await self._until_taken(transport, self._given)
        if self.lost:
            raise BrokenPipeError

    async def _until_taken(self, transport: asyncio.WriteTransport, end: int) -> None:
        try:
            while not self._room.is_set():
                await self._some_taken(transport)
        except (TimeoutError, asyncio.CancelledError) as error:
            if self._taken(transport) < end - 1:  # but for the newline, a message is whole
                transport.abort()
                raise error from Undelivered()
            if isinstance(error, TimeoutError):
                return  # it is a later message that the other side does not take
            raise

    async def _some_taken(self, transport: asyncio.WriteTransport) -> None:
        """Wait for room; return after the deadline too if something was taken meanwhile."""
        taken = self._taken(transport)
        try:
            async with asyncio.timeout(self._seconds):
                await self._room.wait()
        except TimeoutError:
            if taken == self._taken(transport):
                raise

    def _taken(self, transport: asyncio.WriteTransport) -> int:
        """Return how many bytes have left for the other side."""
        return self._given - transport.get_write_buffer_size()

    async def close(self, seconds: float) -> None:
        """Close the pipe, waiting a little for what is still to be written."""
        if self._transport is None or self._transport.is_closing():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._room.wait()
        if not self._transport.is_closing():  # it may have been lost meanwhile
            self._transport.abort()


def _bytes_left(pipe: IO[bytes]) -> int | None:
    """Return how much of what was written into a pipe nobody has read, None where that is not known."""
    if sys.platform != "linux" or pipe.closed:
        return None
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


async def read_pipe(protocol: asyncio.Protocol, pipe: IO[bytes]) -> asyncio.ReadTransport:
    """Have a protocol read a pipe."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    return transport
