"""The transports of lines: newline-delimited JSON-RPC over a server's pipes, a Unix socket or a named pipe.

Ours rather than the SDK's, which hangs on one byte that is not UTF-8 and takes quadratic time on a long
line. `messages` splits and interprets the lines; this module connects to a server and ends its process.

Named pipes need asyncio's proactor loop, which exists on Windows only. The code that they share with sockets
is tested over Unix sockets, and the opening of a named pipe with a loop that substitutes a Unix socket.
Nothing was run on Windows itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from pflow_mcp_plugin.client.request_failures import Undelivered
from pflow_mcp_plugin.client.server_process import ROLL_BACK_NOTICE, ROLL_BACK_SECONDS, runner
from pflow_mcp_plugin.client.transport.messages import MessageQueue, MessageSink, MessageStream
from pflow_mcp_plugin.processes.process_group import ProcessGroup
from pflow_mcp_plugin.processes.shutdown import EXIT_GRACE, LAST_WORDS_SECONDS, ProcessEnd, see_through
from pflow_mcp_plugin.processes.system_calls import unread_bytes
from pflow_mcp_plugin.types import Server

_CLOSE_SECONDS = 0.5
"""How long data that is still buffered may take to be written when a connection is closed."""
_TAIL = 64 * 1024
"""Bytes that are kept of the tail of a drained pipe."""


class LineTransport(ABC):
    """What the transports of lines share: an async context manager that yields the streams of a session."""

    def __init__(self, server: Server, process: ProcessGroup | None, warn: Callable[[str], None]) -> None:
        self.stderr = TailReader()
        self.finished = False  # whether the server closed its side
        self.hung = False  # whether to end the process without waiting for it to exit by itself
        self._server = server
        self._process = process
        self._warn = warn
        self._installs = process is not None and bool(runner(server))
        self._end_of = ProcessEnd(process) if process is not None else None
        self._writer = PipeWriter(server.call_timeout)
        self._messages = MessageStream(self._writer.write, server.max_line_mb, warn)
        self.seen = self._messages.seen  # what was noticed while reading and writing lines
        self._pipes: list[asyncio.ReadTransport] = []

    async def __aenter__(self) -> tuple[MessageQueue, MessageSink]:
        try:
            await self._connect()
        except BaseException:  # cancelled or unreachable: `__aexit__` is not called then
            await see_through(self._stop())
            raise
        return self._messages.incoming, MessageSink(self._messages.send)

    async def __aexit__(self, *_: object) -> None:
        await see_through(self._stop())

    @property
    def unheard(self) -> bool:
        """Whether the server closed the transport's pipe or socket before it read any of the lines."""
        return self._writer.unread

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process at the other end of the lines; None for a socket, or one we ended."""
        return self._end_of.exit_code if self._end_of is not None else None

    @property
    @abstractmethod
    def installing(self) -> bool: ...

    async def exited(self, seconds: float) -> bool:
        return self._end_of is None or await self._end_of.reached(seconds)

    @abstractmethod
    async def _connect(self) -> None: ...

    @abstractmethod
    async def _end_process(self) -> None: ...

    def _release(self) -> None:
        for transport in self._pipes:
            transport.close()
        if self._process is not None:
            self._process.release()

    async def _stop(self) -> None:
        try:
            if self.finished:
                await self.exited(LAST_WORDS_SECONDS)
            if self._end_of is not None:
                self._end_of.expect()
            self._messages.incoming.end()
            await self._end_process()
            if self._process is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.stderr.closed.wait(), LAST_WORDS_SECONDS)
        finally:
            self._release()

    def _on_end(self) -> None:
        self.finished = True
        self._messages.end()


def line_transport(
    server: Server, process: ProcessGroup | None, warn: Callable[[str], None]
) -> LineTransport:
    """Return the transport of lines for a server; it ends the process together with the connection."""
    if server.transport != "stdio":
        return SocketTransport(server, process, warn)
    assert process is not None  # noqa: S101 - the pool spawned it
    return StdioTransport(server, process, warn)


class StdioTransport(LineTransport):
    """The stdio transport of a server, over the pipes of its process."""

    def __init__(self, server: Server, process: ProcessGroup, warn: Callable[[str], None]) -> None:
        super().__init__(server, process, warn)
        self._popen = process.popen
        self._reader = ChunkReader(self._messages.feed, self._on_end)

    @property
    def installing(self) -> bool:
        """Whether the transport's pipes are unused at the server's end, as while a package runner works."""
        if not self._installs or self.finished:
            return False
        untouched = self._writer.untouched  # unknown on systems other than Linux
        return not self._reader.begun if untouched is None else untouched

    async def _connect(self) -> None:
        popen = self._popen
        assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None  # noqa: PT018, S101 - spawned with pipes
        await self._writer.connect(popen.stdin)
        self._pipes.append(await read_pipe(self.stderr, popen.stderr))
        self._pipes.append(await read_pipe(self._reader, popen.stdout))
        self._messages.incoming.source = self._pipes[-1]

    async def _end_process(self) -> None:
        installing = self.installing  # asked before the pipe is closed: then, it is unknown
        self._installs = False
        assert self._end_of is not None  # noqa: S101 - there is a process
        loop = asyncio.get_running_loop()
        notice = loop.call_later(EXIT_GRACE, self._warn, ROLL_BACK_NOTICE) if installing else None
        try:
            await self._writer.close(_CLOSE_SECONDS)
            await self._end_of.bring_about(
                0.1 if self.hung or self.seen.broken else EXIT_GRACE,  # seconds before SIGTERM
                after_sigterm=ROLL_BACK_SECONDS if installing else EXIT_GRACE,
            )
        finally:
            if notice is not None:
                notice.cancel()


class SocketTransport(LineTransport):
    """The transport over a Unix socket or a named pipe.

    The server runs already, or is started first. In that case its process is supervised like that of a stdio
    server, and a socket file that it leaves behind is removed.
    """

    def __init__(self, server: Server, process: ProcessGroup | None, warn: Callable[[str], None]) -> None:
        super().__init__(server, process, warn)
        self._socket: asyncio.Transport | None = None
        # A relative path starts at the server's working folder.
        self._path = Path(server.cwd or ".", server.path)

    @property
    def installing(self) -> bool:
        return self._installs and self._socket is None

    async def _connect(self) -> None:
        # The stdout and stderr of a started process hold no messages, but could fill up.
        popen = self._process.popen if self._process is not None else None
        for pipe in (popen.stdout, popen.stderr) if popen is not None else ():
            if pipe is not None:
                self._pipes.append(await read_pipe(self.stderr, pipe))
        protocol = partial(_SocketProtocol, self._messages.feed, self._on_end, self._writer)
        pause = 0.005
        while self._socket is None:
            try:
                self._socket = await connect(self._server, self._path, protocol)
            except (FileNotFoundError, ConnectionRefusedError):  # before it binds, and before it listens
                if self._process is None or self._process.returncode is not None:
                    await self.exited(LAST_WORDS_SECONDS)
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.1)
        self._messages.incoming.source = self._socket

    async def _end_process(self) -> None:
        await self._writer.close(_CLOSE_SECONDS)
        if self._process is None or self._end_of is None:
            return
        if self._process.popen.stdin is not None:
            self._process.popen.stdin.close()
        # A server that listens on a socket does not exit when one connection ends.
        await self._end_of.bring_about(
            0.0 if self.hung else 0.1,
            after_sigterm=ROLL_BACK_SECONDS if self.installing else EXIT_GRACE,
        )

    def _release(self) -> None:
        super()._release()
        if self._process is not None:
            # A socket file that the server left behind would keep its next start from binding it.
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(self._path.lstat().st_mode):
                    self._path.unlink()


class TailReader(asyncio.Protocol):
    """Reads stderr, the pipe beside that of the lines; keeps only the last 64 KiB."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._seen = 0
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._kept += data
        self._seen += len(data)
        if len(self._kept) > 2 * _TAIL:
            del self._kept[:-_TAIL]

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    @property
    def text(self) -> str:
        kept = bytes(self._kept[-_TAIL:])
        if self._seen > _TAIL:
            kept = kept[kept.find(b"\n") + 1 :] or kept
        return kept.decode("utf-8", "replace")


class ChunkReader(asyncio.Protocol):
    """The reading side of a transport of lines: passes chunks to `on_data`, and calls `on_end` at the end."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self.begun = False

    def data_received(self, data: bytes) -> None:
        self.begun = True
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


class PipeWriter(asyncio.BaseProtocol):
    """The writing side of a transport of lines: whole messages, waiting while the server does not read."""

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
        """Whether the server has read nothing from the transport's pipe yet; None if unknown."""
        if self._transport is None or self._transport.is_closing():
            return None
        left = unread_bytes(self._transport.get_extra_info("pipe"))
        return None if left is None else left == self._taken(self._transport)

    async def connect(self, pipe: IO[bytes]) -> None:
        await asyncio.get_running_loop().connect_write_pipe(lambda: self, pipe)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - both kinds of connection take bytes
        self._transport = transport

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        pipe = self._transport.get_extra_info("pipe") if self._transport is not None else None
        self.unread = pipe is not None and unread_bytes(pipe) == self._given
        self.lost = True
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Write one message to the server's pipe, waiting while it is full.

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
        return self._given - transport.get_write_buffer_size()

    async def close(self, seconds: float) -> None:
        """Close the pipe that lines are written to, after at most `seconds` for what it has not yet taken."""
        if self._transport is None or self._transport.is_closing():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._room.wait()
        if not self._transport.is_closing():  # it may have been lost meanwhile
            self._transport.abort()


async def read_pipe(protocol: asyncio.Protocol, pipe: IO[bytes]) -> asyncio.ReadTransport:
    """Return the asyncio transport by which a protocol gets the bytes of lines from a server's pipe."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    return transport


class _SocketProtocol(ChunkReader):
    """asyncio's protocol for a server's socket: reads as for a pipe, and passes the rest on to a writer."""

    def __init__(
        self, on_data: Callable[[bytes], None], on_end: Callable[[], None], writer: PipeWriter
    ) -> None:
        super().__init__(on_data, on_end)
        self._writer = writer
        self.connection_made = writer.connection_made  # type: ignore[method-assign]
        self.pause_writing = writer.pause_writing  # type: ignore[method-assign]
        self.resume_writing = writer.resume_writing  # type: ignore[method-assign]

    def connection_lost(self, exc: Exception | None) -> None:
        self._writer.connection_lost(exc)
        super().connection_lost(exc)


async def connect(server: Server, path: Path, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
    """Connect to a server's Unix socket or Windows named pipe."""
    loop: Any = asyncio.get_running_loop()
    connected: asyncio.Transport
    if server.transport == "pipe":
        connected, _ = await loop.create_pipe_connection(protocol, server.path)
    else:
        connected, _ = await loop.create_unix_connection(protocol, str(path))
    return connected
