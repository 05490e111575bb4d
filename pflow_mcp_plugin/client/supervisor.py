"""A server's place in a pool: its process is started, a connection is opened, and made anew when lost.

Processes are started in the thread of whoever comes first, while the SDK still loads; all else
happens on the event loop's thread, and needs no lock there.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin.client.process.spawning import ServerProcess, require_processes
from pflow_mcp_plugin.client.restart_limit import RestartLimit
from pflow_mcp_plugin.client.transport.selection import is_remote
from pflow_mcp_plugin.contract import Ran
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, Where
from pflow_mcp_plugin.exchange import Launch

if TYPE_CHECKING:
    from asyncio import Task

    from pflow_mcp_plugin.client.connection import Connection
    from pflow_mcp_plugin.client.elicitation import Ask
    from pflow_mcp_plugin.client.process.stderr_files import StderrFiles

_ABANDON_SECONDS = 1.0
"""How long a process to which nobody ever spoke has to end after SIGTERM."""


class Supervisor:
    """Keeps the one live connection of a server.

    Args:
        launch: The server.
        spawn: Starts its process.
        warn: Told what is worth a line to the user.
        ask: Answers what the server asks.
        files: Keep what it wrote to stderr when it fails.

    Attributes:
        launch: The same; its era is what the server turned out to speak.
    """

    def __init__(
        self,
        launch: Launch,
        spawn: Callable[[Launch], ServerProcess | None],
        warn: Callable[[str], None],
        ask: Ask | None,
        files: StderrFiles,
    ) -> None:
        self.launch = launch
        self._start_process = spawn
        self._tell = warn
        self._ask = ask
        self._files = files
        self._lock = threading.Lock()
        self._taken = False
        self._shut = False
        self._process: ServerProcess | None = None
        self._failure: ConnectionFailed | None = None
        self._opening: Task[None] | None = None
        self._waiting = 0
        self._connection: Connection | None = None
        self._former: list[Connection] = []
        self._restarts = RestartLimit()

    @property
    def list_changed(self) -> bool:
        """Whether one of its connections was told that the list of tools has changed."""
        return any(each.list_changed and each.alive for each in self._connections)

    @property
    def _connections(self) -> list[Connection]:
        return [each for each in (self._connection, *self._former) if each is not None]

    def start(self) -> bool:
        """Start the process, in the calling thread, unless someone else saw to it.

        A failure to start shows when the connection is used.

        Returns:
            Whether a connection is still to be opened.

        Raises:
            CallFailed: The pool was closed.
        """
        with self._lock:
            if self._shut:
                raise closed(self.launch)
            if self._taken:
                return False
            self._taken = True
            try:
                self._process = self._spawn()
            except ConnectionFailed as error:
                self._failure = error
            return self._failure is None

    def shut(self) -> None:
        """Let no further process be started; returns when one that is being started can be closed."""
        with self._lock:
            self._shut = True

    def abandon(self) -> None:
        """End a process that no connection came to take; call `shut` first."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.signal_group(signal.SIGTERM)
            end = time.monotonic() + _ABANDON_SECONDS
            while process.returncode is None and time.monotonic() < end:
                time.sleep(0.005)
            process.release()

    async def begin(self) -> None:
        """Open a connection in the background, if there is none."""
        if self._connection is None and not self._shut:
            self._open_once()

    async def connection(self) -> Connection:
        """Return the live connection, opened if need be, by one of all who ask at the same time.

        Raises:
            ConnectionFailed: It could not be opened.
            CallFailed: The pool was closed.
        """
        while self._connection is None or not self._connection.alive:
            await self._opened()
        return self._connection

    async def close(self) -> None:
        """Break off what is being opened, and close all connections; call `shut` first."""
        import asyncio

        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        self.abandon()
        await asyncio.gather(*(connection.close() for connection in self._connections))

    async def _opened(self) -> None:
        import asyncio

        if self._shut:
            raise closed(self.launch)
        opening = self._open_once()
        self._waiting += 1
        try:
            await asyncio.wait({opening})
        finally:
            self._waiting -= 1
        if opening.cancelled():
            raise closed(self.launch)
        opening.result()

    def _open_once(self) -> Task[None]:
        import asyncio

        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name=f"opening {self.launch.server.name}")
            self._opening.add_done_callback(self._settle)
        return self._opening

    def _settle(self, opening: Task[None]) -> None:
        """Keep the failure that nobody waited for, for the first who asks; forget any other."""
        self._opening = None
        error = None if opening.cancelled() else opening.exception()
        if isinstance(error, ConnectionFailed) and not self._waiting:
            self._failure = error
        elif error is not None:
            self._taken = False

    async def _open(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._connection is not None:
            await self._put_aside(self._connection)
        self._connection = await self._connected()
        self.launch = attrs.evolve(self.launch, era=self._connection.info.era)  # no probe next time

    async def _put_aside(self, former: Connection) -> None:
        """Replace a connection that takes no more calls; those under way keep it until they end."""
        how = "lost the connection; it is made anew"
        if former.has_process:
            how = "had ended or hung; it is started again"
        self._warn(f"{how}, and its state is lost")
        self._connection = None
        self._former.append(former)
        if not former.busy:
            await former.close()

    async def _connected(self) -> Connection:
        """Connect; a server that ended on the probe is started once more, for the handshake.

        One that is reached over the wrong transport is told as such.
        """
        connection = self._started(self.launch)
        try:
            await connection.open()
        except ConnectionFailed as error:
            if is_remote(self.launch.server):
                from pflow_mcp_plugin.client.transport_probe import recognized

                raise await recognized(self.launch, error)  # noqa: B904 - which keeps the cause
            if connection.unheard or not _died_on_probe(self.launch, error):
                raise
            connection = self._started(attrs.evolve(self.launch, era="handshake"))
            await connection.open()
        return connection

    def _started(self, launch: Launch) -> Connection:
        from pflow_mcp_plugin.client.connection import Connection

        return Connection(launch, self._take_process(), self._warn, self._ask, self._files)

    def _take_process(self) -> ServerProcess | None:
        """Return the process that waits to be connected to, else a new one; no other is started beside it."""
        with self._lock:
            self._taken = True
            process, self._process = self._process, None
            return process or self._spawn()

    def _warn(self, text: str) -> None:
        self._tell(f"server {self.launch.server.name} {text}")

    def _spawn(self) -> ServerProcess | None:
        server = self.launch.server
        if is_remote(server) or (server.transport != "stdio" and not server.command):
            return None
        require_processes(server)
        self._restarts.start(server.name)
        return self._start_process(self.launch)


def closed(launch: Launch, ran: Ran = "not ran") -> CallFailed:
    """Return the failure of whoever comes, or still waits, when the connections are closed."""
    where = Where(server=launch.server.name, phase="connect")
    return CallFailed("The run is over; its connections are closed", where=where, ran=ran)


def _died_on_probe(launch: Launch, error: ConnectionFailed) -> bool:
    """Whether a server ended on `server/discover`, which some that know only the handshake do."""
    probed = launch.server.protocol == "auto" and launch.era != "handshake"
    return probed and error.where.phase == "handshake" and error.facts.get("exit_code") is not None
