"""One server of a pool: starts its process, opens a connection, and reconnects when it is lost.

The process is started in the thread of the first caller, while the SDK still loads. All else
happens in the event loop's thread and needs no lock.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import attrs

from pflow_mcp_plugin.client.server_process import (
    ROLL_BACK_NOTICE,
    ROLL_BACK_SECONDS,
    require_processes,
    runner,
)
from pflow_mcp_plugin.contract import Ran
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, McpError, Where
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.processes.process_group import ProcessGroup

if TYPE_CHECKING:
    from asyncio import Task
    from pathlib import Path

    from pflow_mcp_plugin.client.connection import Connection

OnStart = Callable[[str], Callable[[str], object]]
"""Called with the name of a server that begins to start, from any thread; returns what is called with the
error, or the empty string, when the start has ended."""
_UNFINISHED = "the run ended first"
_MOST_STARTS = 5
_STARTS_SECONDS = 180.0
"""A server that has been started this often within these seconds is not started again."""
_NAMES = {"http": "streamable HTTP", "sse": "HTTP with server-sent events"}
_SAYS_NOTHING = {401, 403, 407, 429}
"""HTTP statuses that a server may return over either transport, so that probing the other is pointless."""


class Supervisor:
    """The supervisor of one server: starts it, and keeps its one live connection."""

    def __init__(
        self,
        launch: Launch,
        spawn: Callable[[Launch], ProcessGroup | None],
        warn: Callable[[str], None],
        stderr_folder: Path | None,
        on_start: OnStart,
    ) -> None:
        self.launch = launch  # later with the era of the last connection
        self._start_process = spawn
        self._tell = warn
        self._stderr_folder = stderr_folder
        self._on_start = on_start
        self._end_start: Callable[[str], object] | None = None
        self._lock = threading.Lock()
        self._taken = False
        self._shut = False
        self._process: ProcessGroup | None = None
        self._failure: ConnectionFailed | None = None
        self._opening: Task[None] | None = None
        self._waiting = 0
        self._connection: Connection | None = None
        self._former: list[Connection] = []
        self.restarts = RestartLimit()
        self._reinstalled = False

    @property
    def list_changed(self) -> bool:
        return any(each.list_changed and each.alive for each in self._connections)

    @property
    def _connections(self) -> list[Connection]:
        return [each for each in (self._connection, *self._former) if each is not None]

    def start(self) -> bool:
        """Start the supervised process in the calling thread, unless another caller did.

        A failure to start is raised when the connection is used.
        """
        with self._lock:
            if self._shut:
                raise closed(self.launch)
            if self._taken:
                return False
            self._taken = True
            self._announce_start()
            try:
                self._process = self._spawn()
            except ConnectionFailed as error:
                self._failure = error
                self._announce_end(error.message)
            return self._failure is None

    def shut(self) -> None:
        """Prevent further starts by the supervisor; waits for one in progress, so that it can be closed."""
        with self._lock:
            self._shut = True

    def abandon(self) -> None:
        """End a process started by the supervisor that no connection has taken; call `shut` first."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.signal_group(signal.SIGTERM)
            if not _exits(process, 1.0) and runner(self.launch.server):
                self._warn(ROLL_BACK_NOTICE)
                _exits(process, ROLL_BACK_SECONDS)
            process.release()
        self._announce_end(_UNFINISHED)

    async def begin(self) -> None:
        """Open the supervised connection unless there is one; a failure is kept for the first use."""
        if self._connection is None and not self._shut:
            import asyncio

            await asyncio.wait({self._open_once()})

    async def connection(self) -> Connection:
        """Return the supervised server's connection, reopened if necessary; callers share one attempt."""
        import asyncio

        while self._connection is None or not self._connection.alive:  # it may have ended while we waited
            if self._shut:
                raise closed(self.launch)
            opening = self._open_once()
            self._waiting += 1
            try:
                # Not `await opening`: one cancelled caller would then cancel the attempt of all.
                await asyncio.wait({opening})
            finally:
                self._waiting -= 1
            if opening.cancelled():
                raise closed(self.launch)
            opening.result()
        return self._connection

    async def close(self) -> None:
        """Stop supervising: cancel an attempt to connect, close all connections; call `shut` first."""
        import asyncio

        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._process is not None:  # while it ends, others of the pool do
            await asyncio.to_thread(self.abandon)
        self._announce_end(_UNFINISHED)
        await asyncio.gather(*(connection.close() for connection in self._connections))

    def _open_once(self) -> Task[None]:
        import asyncio

        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name=f"opening {self.launch.server.name}")
            self._opening.add_done_callback(self._settle)
        return self._opening

    def _settle(self, opening: Task[None]) -> None:
        """Keep a failure to connect the supervised server, if nobody waited for it, for the next caller."""
        self._opening = None
        error = None if opening.cancelled() else opening.exception()
        self._announce_end(_UNFINISHED if opening.cancelled() else str(error or ""))
        if isinstance(error, ConnectionFailed) and not self._waiting:
            self._failure = error
        elif error is not None:
            self._taken = False  # so that the next caller starts the process again

    def _announce_start(self) -> None:
        if self._end_start is None:
            self._end_start = self._on_start(self.launch.server.name)

    def _announce_end(self, error: str) -> None:
        end, self._end_start = self._end_start, None
        if end is not None:
            end(self.launch.redactor.text(error))

    async def _open(self) -> None:
        if self._failure is not None:  # of `start`, or of an attempt that nobody waited for
            failure, self._failure = self._failure, None
            raise failure
        if (former := self._connection) is not None:
            how = "lost its connection and is being reconnected"
            if former.has_process:
                how = "exited or hung and is being restarted"
            self._warn(f"{how}; its state is lost")
            self._connection = None
            self._former.append(former)  # calls that are running keep it until they end
            if not former.busy:
                await former.close()
        self._connection = await self._connected()
        self.launch = attrs.evolve(self.launch, era=self._connection.info.era)  # no probe next time

    async def _connected(self) -> Connection:
        """Start the supervised server and connect; if it exits on the probe, start it again to shake hands.

        A server that speaks the other HTTP transport is reported as such. One that npx had not installed
        completely is installed again, once.
        """
        self._announce_start()
        connection = self._started(self.launch)
        try:
            await connection.open()
        except ConnectionFailed as error:
            if self.launch.server.is_remote:
                raise await _recognized(self.launch, error)  # noqa: B904 - `_recognized` sets the cause
            if not self._reinstalled and (folder := await connection.remove_incomplete_installation()):
                self._reinstalled = True
                what = f"{folder} was removed, and it is installed again"
                self._warn(f"was not completely installed by npx: {what}")
                return await self._connected()
            probed = self.launch.server.protocol == "auto" and self.launch.era != "handshake"
            died = error.where.phase == "handshake" and error.details.get("exit_code") is not None
            # Some that know only the handshake exit on `server/discover`.
            if connection.unheard or not (probed and died):
                raise
            connection = self._started(attrs.evolve(self.launch, era="handshake"))
            await connection.open()
        return connection

    def _started(self, launch: Launch) -> Connection:
        from pflow_mcp_plugin.client.connection import Connection

        with self._lock:
            self._taken = True  # prevents a second start by `start`
            process, self._process = self._process, None
            process = process or self._spawn()
        return Connection(launch, process, self._warn, self._stderr_folder)

    def _warn(self, text: str) -> None:
        self._tell(self.launch.redactor.text(f"server {self.launch.server.name} {text}"))

    def _spawn(self) -> ProcessGroup | None:
        server = self.launch.server
        if server.is_remote or (server.transport != "stdio" and not server.command):
            return None
        require_processes(server)
        self.restarts.start(server.name)
        return self._start_process(self.launch)


def _exits(process: ProcessGroup, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while process.returncode is None and time.monotonic() < end:
        time.sleep(0.005)
    return process.returncode is not None


def closed(launch: Launch, ran: Ran = "not ran") -> CallFailed:
    """Return the failure of calls that begin or still wait when the supervisor has closed the connections."""
    where = Where(server=launch.server.name, phase="connect")
    return CallFailed("The run is over; its connections are closed", where=where, ran=ran)


class RestartLimit:
    """The limit on starts of one supervised server: 5 within 3 minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: deque[float] = deque(maxlen=_MOST_STARTS)

    def start(self, server: str) -> None:
        now = self._clock()
        if len(self._starts) == _MOST_STARTS and now - self._starts[0] < _STARTS_SECONDS:
            raise ConnectionFailed(
                f"Server {server} ended {_MOST_STARTS} times within {_STARTS_SECONDS / 60:g} minutes; "
                "it is not started again",
                where=Where(server=server, phase="start"),
                next_step=f"see why it ends: pflow mcp test {server}",
            )
        self._starts.append(now)


async def _recognized(launch: Launch, error: ConnectionFailed) -> ConnectionFailed:
    # A handshake over the other transport, with the same URL and credentials, proves that it is the one.
    from pflow_mcp_plugin.client.connection import Connection
    from pflow_mcp_plugin.config import display

    server, status = launch.server, error.details.get("status")
    kind: Literal["http", "sse"] = "http" if server.transport == "sse" else "sse"
    # Something answered, and not with a refusal that either transport may return; 501 is "not implemented".
    may_be_another = (
        isinstance(status, int) and status not in _SAYS_NOTHING and (status // 100 in (2, 4) or status == 501)
    )
    if not may_be_another:
        return error
    seconds = min(5.0, server.startup_timeout or 5.0)  # a probe, not a start
    other = attrs.evolve(server, transport=kind, protocol="auto", startup_timeout=seconds)
    connection = Connection(attrs.evolve(launch, server=other, era=None), None, lambda _: None)
    try:
        await connection.open()
    except McpError:
        return error
    finally:
        await connection.close()
    url = launch.redactor.text(display.url(server.url, widely=True))
    failure = ConnectionFailed(
        f"Server {server.name} at {url} speaks {_NAMES[kind]}, "
        f"but its type is {server.transport} ({_NAMES[server.transport]})",
        where=error.where,
        next_step=f'set type = "{kind}" for server {server.name}',
        speaks=kind,
        status=status,
    )
    failure.__cause__ = error
    return failure
