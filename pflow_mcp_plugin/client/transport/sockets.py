"""Unix sockets and Windows named pipes: newline-delimited JSON-RPC over one two-way connection.

The server runs already, or is started first. In that case its process is supervised like that of a
stdio server, and a socket file that it leaves behind is removed.

Named pipes need asyncio's proactor loop, which exists on Windows only. The code that both kinds
share is tested over Unix sockets, and the opening of a named pipe with a loop that substitutes a
Unix socket. Nothing was run on Windows itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from pflow_mcp_plugin.client.process.package_runners import ROLL_BACK_SECONDS, runner
from pflow_mcp_plugin.client.process.shutdown import EXIT_GRACE, LAST_WORDS_SECONDS, ProcessEnd, see_through
from pflow_mcp_plugin.client.process.spawning import ServerProcess
from pflow_mcp_plugin.client.transport.messages import MessageQueue, MessageSink, MessageStream, Observations
from pflow_mcp_plugin.client.transport.pipes import PipeWriter, TailReader, read_pipe
from pflow_mcp_plugin.types import Server

_SHORTEST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1
"""Seconds between two attempts to connect to the socket of a server that was just started."""
_EXIT_GRACE = 0.1
"""Seconds before SIGTERM: a server that listens on a socket does not exit when one connection ends."""


class SocketTransport:
    """The transport over a Unix socket or a named pipe: yields the two streams of a session.

    It is an async context manager.

    Args:
        server: A server of transport `uds` or `pipe`, with expanded values.
        process: The server's process if it was started for this connection.
        warn: Called once, if the server sends lines that are not messages.

    Attributes:
        stderr: The end of the process's stderr and stdout.
        finished: Whether the server closed the connection.
        hung: Whether to end the process without waiting for it to exit by itself.
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
        """What was noticed on the socket while reading and writing."""
        return self._messages.seen

    @property
    def installing(self) -> bool:
        """Whether a package runner may still be installing the server: its socket is not open yet."""
        return self._process is not None and bool(runner(self._server)) and self._socket is None

    @property
    def unheard(self) -> bool:
        """Whether the server closed the socket before reading anything from it."""
        return self._writer.unread

    @property
    def exit_code(self) -> int | None:
        """The exit code of the socket server's process; None without one, or if it was ended by us."""
        return self._end_of.exit_code if self._end_of is not None else None

    @property
    def path(self) -> Path:
        """The path of the transport's Unix socket; a relative path starts at the server's working folder."""
        return Path(self._server.cwd or ".", self._server.path)

    async def __aenter__(self) -> tuple[MessageQueue, MessageSink]:
        try:
            await self._drain()
            self._socket = await self._reach()
        except BaseException:  # cancelled or unreachable: `__aexit__` is not called then
            await self._end()
            raise
        self._messages.read_from(self._socket)
        return self._messages.streams

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def exited(self, seconds: float) -> bool:
        """Wait for the socket server's process to end; return whether it did, true without a process."""
        return self._end_of is None or await self._end_of.reached(seconds)

    async def _drain(self) -> None:
        """Drain the stdout and stderr of a started process, which hold no messages but could fill up."""
        popen = self._process.popen if self._process is not None else None
        for pipe in (popen.stdout, popen.stderr) if popen is not None else ():
            if pipe is not None:
                self._drains.append(await read_pipe(self.stderr, pipe))

    async def _reach(self) -> asyncio.Transport:
        """Connect; retry while a process that was started may still open the socket."""
        pause = _SHORTEST_PAUSE
        while True:
            try:
                return await connect(self._server, self.path, self._protocol)
            except (FileNotFoundError, ConnectionRefusedError):  # before it binds, and before it listens
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
        """Disconnect, and end the process if there is one, even if the task is cancelled."""
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
    """asyncio's protocol for a socket: passes bytes to a `MessageStream`, and its state to a writer.

    Args:
        messages: Receives the bytes.
        writer: Writes to the connection.
        on_end: Called when the connection is lost.
    """

    def __init__(self, messages: MessageStream, writer: PipeWriter, on_end: Callable[[], None]) -> None:
        self._messages = messages
        self._writer = writer
        self._on_end = on_end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the writer write to the socket that was connected."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - both kinds of connection are two-way
        self._writer.take(transport)

    def data_received(self, data: bytes) -> None:
        """Pass bytes received from the socket to the message stream."""
        self._messages.feed(data)

    def pause_writing(self) -> None:
        """Make the writer wait, because the socket's buffer is full."""
        self._writer.pause_writing()

    def resume_writing(self) -> None:
        """Let the writer continue, because the socket's buffer has room again."""
        self._writer.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the socket connection to the writer and the transport."""
        self._writer.connection_lost(exc)
        self._on_end()


async def connect(server: Server, path: Path, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
    """Connect to a server's Unix socket or Windows named pipe.

    Args:
        server: Its transport decides which, and its `path` names a pipe.
        path: The path of the socket.
        protocol: Returns the protocol for the connection.

    Raises:
        OSError: It does not exist, or refuses the connection.
    """
    loop: Any = asyncio.get_running_loop()
    if server.transport == "pipe":
        transport, _ = await loop.create_pipe_connection(protocol, server.path)
    else:
        transport, _ = await loop.create_unix_connection(protocol, str(path))
    connected: asyncio.Transport = transport
    return connected


def _remove_socket(path: Path) -> None:
    """Remove the socket file that a server left behind: its next start could not bind it."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
