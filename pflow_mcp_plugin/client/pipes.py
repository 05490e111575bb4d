"""asyncio protocols over a server's pipes: reading with a tail kept, writing with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import IO

_TAIL = 64 * 1024
"""Bytes of stderr that are kept."""


class TailReader(asyncio.Protocol):
    """Drains a pipe for ever and keeps its last 64 KiB."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Keep the end of what came."""
        self._kept += data
        if len(self._kept) > 2 * _TAIL:
            del self._kept[:-_TAIL]

    def connection_lost(self, exc: Exception | None) -> None:
        """The pipe is at its end."""
        self.closed.set()

    @property
    def text(self) -> str:
        """What is kept, decoded."""
        return bytes(self._kept[-_TAIL:]).decode("utf-8", "replace")


class ChunkReader(asyncio.Protocol):
    """Hands every chunk to `on_data` and the end to `on_end`."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._on_end()


class PipeWriter(asyncio.BaseProtocol):
    """Writes whole messages; waits, within a deadline, while the other side does not read."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.lost = False

    async def connect(self, pipe: IO[bytes]) -> None:
        """Take over the write end of a pipe."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_write_pipe(lambda: self, pipe)

    def pause_writing(self) -> None:
        """The buffer is full."""
        self._room.clear()

    def resume_writing(self) -> None:
        """The buffer has room again."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side closed the pipe."""
        self.lost = True
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Write one message.

        Raises:
            BrokenPipeError: The other side is gone.
            TimeoutError: It did not take the message in time.
        """
        if self.lost or self._transport is None:
            raise BrokenPipeError
        self._transport.write(data)
        if not self._room.is_set():
            async with asyncio.timeout(self._seconds):
                await self._room.wait()
        if self.lost:
            raise BrokenPipeError

    async def close(self, seconds: float) -> None:
        """Close the pipe, waiting a little for what is still to be written."""
        if self._transport is None or self.lost:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._room.wait()
        self._transport.abort()


async def read_pipe(protocol: asyncio.Protocol, pipe: IO[bytes]) -> asyncio.ReadTransport:
    """Have a protocol read a pipe."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    return transport
