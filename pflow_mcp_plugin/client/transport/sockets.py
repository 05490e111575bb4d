"""Unix sockets and Windows named pipes: newline-delimited JSON-RPC over one connection both ways.

The server is there already, or is started first: then its process is looked after as that of a
stdio server is, and the socket it left behind is removed with it.

Named pipes go through asyncio's proactor loop, which only Windows has. What the two kinds share
is tested over Unix sockets, and that a named pipe is opened as asyncio wants it, with a loop that
lends it a Unix socket; on Windows itself nothing was run.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from pflow_mcp_plugin.client.process.installation import ROLL_BACK_SECONDS, runner
from pflow_mcp_plugin.client.process.shutdown import EXIT_GRACE, LAST_WORDS_SECONDS, ProcessEnd, see_through
from pflow_mcp_plugin.client.process.spawning import ServerProcess
from pflow_mcp_plugin.client.transport.messages import MessageQueue, MessageSink, MessageStream, Observations
from pflow_mcp_plugin.client.transport.pipes import PipeWriter, TailReader, read_pipe
from pflow_mcp_plugin.types import Server

_SHORTEST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1
"""Seconds between two attempts to reach a server that was just started."""
_EXIT_GRACE = 0.1
"""Seconds before SIGTERM: a server that listens does not end because a connection did."""


class SocketTransport:
    """An async context manager that yields the read and the write stream of a session.

    Args:
        server: Of transport `uds` or `pipe`, with expanded values.
        process: The server's process if it was started for this connection.
        warn: Told, once, that the server sends lines that are no messages.

    Attributes:
        stderr: What a server that was started says, on stderr and on stdout.
        finished: Whether the other side closed the connection.
        hung: Whether there is no point in waiting for the process to end by itself.
    """

    def __init__(self, server: Server, process: ServerProcess | None, warn: Callable[[str], None]) -> None:
        self.stderr = TailReader()
        self.finished = False
        self.hung = False
        self._server = server
        self._process = process
        self._end_of = ProcessEnd(process) if process is not None else None
        self._writer = PipeWriter(server.call_timeout)
        self._messages = MessageStream(self._writer, server.max_line_mb, warn)
        self._drains: list[asyncio.ReadTransport] = []
        self._socket: asyncio.Transport | None = None

    @property
    def seen(self) -> Observations:
        """What was noticed on the way."""
        return self._messages.seen

    @property
    def installing(self) -> bool:
        """Whether a package runner may still be installing the server: it does not listen yet."""
        return self._process is not None and bool(runner(self._server)) and self._socket is None

    @property
    def unheard(self) -> bool:
        """Whether the server closed its stdin without having read anything."""
        return self._writer.unread

    @property
    def exit_code(self) -> int | None:
        """How the process ended by itself, None if it did not or there is none."""
        return self._end_of.exit_code if self._end_of is not None else None

    @property
    def path(self) -> Path:
        """Where the socket is; a relative path is meant from the server's working folder."""
        return Path(self._server.cwd or ".", self._server.path)

    async def __aenter__(self) -> tuple[MessageQueue, MessageSink]:
        try:
            await self._drain()
            self._socket = await self._reach()
        except BaseException:  # cancelled or out of reach: the process is ours to end
            await self._end()
            raise
        self._messages.read_from(self._socket)
        return self._messages.streams

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def exited(self, seconds: float) -> bool:
        """Wait for the process to end, and return whether it did."""
        return self._end_of is None or await self._end_of.reached(seconds)

    async def _drain(self) -> None:
        """Keep what a started server prints: nothing of it is a message, and no pipe may fill up."""
        popen = self._process.popen if self._process is not None else None
        for pipe in (popen.stdout, popen.stderr) if popen is not None else ():
            if pipe is not None:
                self._drains.append(await read_pipe(self.stderr, pipe))

    async def _reach(self) -> asyncio.Transport:
        """Connect; keep trying while a server that was started may still come up."""
        pause = _SHORTEST_PAUSE
        while True:
            try:
                return await connect(self._server, self.path, self._protocol)
            except (FileNotFoundError, ConnectionRefusedError):
                if self._process is None or self._process.returncode is not None:
                    await self._note_end()
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _protocol(self) -> SocketProtocol:
        return SocketProtocol(self._messages, self._writer, self._on_end)

    def _on_end(self) -> None:
        self.finished = True
        self._messages.end()

    async def _note_end(self) -> None:
        if self._end_of is not None:
            await self._end_of.reached(LAST_WORDS_SECONDS)

    async def _end(self) -> None:
        """Hang up, and end the server if it was started for this connection, even if cancelled."""
        await see_through(self._stop())

    async def _stop(self) -> None:
        try:
            if self.finished:
                await self._note_end()
            if self._end_of is not None:
                self._end_of.expect()
            self._messages.incoming.end()
            await self._writer.close(0.5)
            await self._end_process()
        finally:
            for transport in self._drains:
                transport.close()
            if self._process is not None:
                self._process.release()
                _remove_socket(self.path)

    async def _end_process(self) -> None:
        if self._process is None or self._end_of is None:
            return
        if self._process.popen.stdin is not None:
            self._process.popen.stdin.close()
        await self._end_of.bring_about(
            0.0 if self.hung else _EXIT_GRACE,
            after_sigterm=ROLL_BACK_SECONDS if self.installing else EXIT_GRACE,
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stderr.closed.wait(), LAST_WORDS_SECONDS)


class SocketProtocol(asyncio.Protocol):
    """Hands bytes to the messages, and the state of the connection to the writer."""

    def __init__(self, messages: MessageStream, writer: PipeWriter, on_end: Callable[[], None]) -> None:
        self._messages = messages
        self._writer = writer
        self._on_end = on_end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the writer what it writes to."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - it goes both ways
        self._writer.take(transport)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._messages.feed(data)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._writer.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._writer.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._writer.connection_lost(exc)
        self._on_end()


async def connect(server: Server, path: Path, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
    """Connect to a server's socket or named pipe.

    Raises:
        OSError: It is not there, or refuses.
    """
    loop: Any = asyncio.get_running_loop()
    if server.transport == "pipe":
        transport, _ = await loop.create_pipe_connection(protocol, server.path)
    else:
        transport, _ = await loop.create_unix_connection(protocol, str(path))
    connected: asyncio.Transport = transport
    return connected


def _remove_socket(path: Path) -> None:
    """Remove the socket that a server left behind, which would keep its next start from binding it."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
