"""The connections of one run: what the other rooms use.

The methods block and may be called from any thread; the work is done on the background loop.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from pflow_mcp_plugin.client.brake import Brake
from pflow_mcp_plugin.client.loop import background_loop
from pflow_mcp_plugin.client.reaper import Reaper, shared_reaper
from pflow_mcp_plugin.client.reaper_process import end_marked
from pflow_mcp_plugin.client.spawning import ServerProcess, require_processes, spawn
from pflow_mcp_plugin.errors import CallFailed, ConfigError, ConnectionFailed, McpError, Where
from pflow_mcp_plugin.trust.egress import require_safe
from pflow_mcp_plugin.types import CallResult, Launch, Listing, Server, ServerInfo, ToolCall

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pflow_mcp_plugin.client.connection import Connection
    from pflow_mcp_plugin.client.questions import Ask

    OnProgress = Callable[[float, float | None, str | None], None]

T = TypeVar("T")
_numbers = itertools.count(1)


class Pool:
    """Keeps one connection for each server, from its first use until `close`.

    Args:
        warn: Told what is worth a line to the user.
        ask: Answers what servers ask in mid-call; see `questions.Ask`. None declines.
    """

    def __init__(self, warn: Callable[[str], None], ask: Ask | None = None) -> None:
        self._warn = warn
        self._ask = ask
        self._pid = os.getpid()
        self._number = next(_numbers)
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}
        self._loop: AbstractEventLoop | None = None
        self._reaper: Reaper | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def prepare(self, launch: Launch) -> None:
        """Start a server and connect to it in the background; a failure shows when it is used."""
        slot = self._slot(launch)
        with slot.lock:
            if slot.process is None and slot.connection is None and slot.opening is None:
                try:
                    slot.process = self._spawn(slot)
                except ConnectionFailed as error:
                    slot.failure = error
                    return
                slot.opening = self._submit(self._opened(slot))

    def call(
        self,
        launch: Launch,
        call: ToolCall,
        on_progress: OnProgress | None = None,
        *,
        safe_to_repeat: bool = False,
    ) -> CallResult:
        """Call a tool, once.

        Args:
            launch: The server.
            call: The tool and its arguments.
            on_progress: Told how far the call has come.
            safe_to_repeat: Whether the call may be sent again, once, to a server that lost the session.

        Raises:
            ConnectionFailed: The server could not be started or reached; the call was not sent.
            CallFailed: The call failed, or its outcome is unknown.
        """

        async def run(connection: Connection) -> CallResult:
            return await connection.call(call, on_progress)

        return self._with(launch, run, safe_to_repeat=safe_to_repeat)

    def list_tools(self, launch: Launch) -> Listing:
        """Ask a server for all its tools.

        Raises:
            ConnectionFailed: With the phase it failed in.
        """

        async def run(connection: Connection) -> Listing:
            return await connection.list_tools()

        return self._with(launch, run)

    def info(self, launch: Launch) -> ServerInfo:
        """Connect, and return what the server says of itself.

        Raises:
            ConnectionFailed: The server could not be started or reached.
        """

        async def run(connection: Connection) -> ServerInfo:
            return connection.info

        return self._with(launch, run)

    def changed_lists(self) -> list[Launch]:
        """Return the servers that said, since they were connected, that their tools have changed."""
        with self._lock:
            return [slot.launch for slot in self._slots.values() if slot.list_changed]

    def close(self) -> None:
        """End every server; safe to call twice."""
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        try:
            if self._loop is not None:
                self._submit(self._close_all()).result()
        finally:
            self._release()

    def _with(
        self,
        launch: Launch,
        run: Callable[[Connection], Coroutine[Any, Any, T]],
        *,
        safe_to_repeat: bool = True,
    ) -> T:
        slot = self._slot(launch)
        if slot.connection is None:
            self.prepare(launch)  # here, not on the loop: the process starts while the SDK loads

        future = self._submit(self._run(slot, run, safe_to_repeat=safe_to_repeat))
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: the call is cancelled, and its server told
            raise

    async def _run(
        self, slot: _Slot, run: Callable[[Connection], Coroutine[Any, Any, T]], *, safe_to_repeat: bool
    ) -> T:
        """Run on a live connection; once more on a new one if nothing was sent over the first.

        A server that lost the session is connected to anew in any case; what had been sent to it
        goes again only if that does no harm.
        """
        connection = await self._connection(slot)
        try:
            return await run(connection)
        except McpError as error:
            lost = error.facts.get("session_lost", False)
            if lost and not safe_to_repeat:
                with suppress(McpError):
                    await self._connection(slot)
                raise
            if not lost and (connection.alive or error.ran != "not ran" or not error.retryable):
                raise
        return await run(await self._connection(slot))

    def _slot(self, launch: Launch) -> _Slot:
        self._check_usable(launch)
        with self._lock:
            if launch.key not in self._slots:
                self._slots[launch.key] = _Slot(launch)
            return self._slots[launch.key]

    def _check_usable(self, launch: Launch) -> None:
        where = Where(server=launch.server.name, phase="connect")
        if os.getpid() != self._pid:
            message = "This process was forked off one that holds connections; it cannot use them"
            raise CallFailed(message, where=where, next_step="make connections after the fork")
        require_safe(launch.server)
        _require_platform(launch.server)
        if self._closed:
            raise CallFailed("The run is over; its connections are closed", where=where)

    async def _connection(self, slot: _Slot) -> Connection:
        """Return the live connection of a slot, opening it if need be, one at a time."""
        while slot.connection is None or not slot.connection.alive:
            if slot.opening is None:
                slot.opening = self._submit(self._opened(slot))
            opening = slot.opening
            import asyncio

            await asyncio.shield(asyncio.wrap_future(opening))
        return slot.connection

    async def _opened(self, slot: _Slot) -> None:
        from pflow_mcp_plugin.client.connection import Connection

        try:
            if slot.connection is not None:
                await self._replace(slot, slot.connection)
            slot.connection = await self._open(slot, Connection)
            slot.launch = attrs.evolve(slot.launch, era=slot.connection.info.era)  # no probe next time
        finally:
            slot.opening, slot.process = None, None

    async def _replace(self, slot: _Slot, former: Connection) -> None:
        """Put a connection aside that takes no more calls; those under way keep it until they end."""
        remote = slot.launch.server.transport in ("http", "sse")
        how = "lost the connection; it is made anew" if remote else "had ended or hung; it is started again"
        self._warner(slot.launch)(f"{how}, and its state is lost")
        slot.connection = None
        slot.former.append(former)
        if not former.busy:
            await former.close()

    async def _open(self, slot: _Slot, connect: type[Connection]) -> Connection:
        launch = slot.launch
        if slot.failure is not None:
            failure, slot.failure = slot.failure, None
            raise failure
        process = slot.process or self._spawn(slot)
        connection = connect(launch, process, self._warner(launch), self._ask)
        try:
            await connection.open()
        except ConnectionFailed as error:
            if not _died_on_probe(launch, error):
                raise
            second = attrs.evolve(launch, era="handshake")
            connection = connect(second, self._spawn(slot), self._warner(launch), self._ask)
            await connection.open()
        return connection

    def _warner(self, launch: Launch) -> Callable[[str], None]:
        return lambda text: self._warn(f"server {launch.server.name} {text}")

    def _spawn(self, slot: _Slot) -> ServerProcess | None:
        launch = slot.launch
        if launch.server.transport in ("http", "sse") or (
            launch.server.transport != "stdio" and not launch.server.command
        ):
            return None
        require_processes(launch.server)
        slot.brake.start(launch.server.name)
        with self._lock:
            if self._reaper is None:
                self._reaper = _acquire_reaper(launch)
            reaper = self._reaper
        return spawn(launch.server, f"{reaper.marker}.{self._number}", reaper)

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = background_loop.acquire()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _close_all(self) -> None:
        import asyncio

        openings = [
            asyncio.wrap_future(slot.opening) for slot in self._slots.values() if slot.opening is not None
        ]
        await asyncio.gather(*openings, return_exceptions=True)
        slots = self._slots.values()
        connections = [each for slot in slots for each in (slot.connection, *slot.former) if each is not None]
        await asyncio.gather(*(connection.close() for connection in connections))

    def _release(self) -> None:
        if self._loop is not None:
            background_loop.release()
        if self._reaper is not None:
            end_marked(f"{self._reaper.marker}.{self._number}")
            shared_reaper.release()


class _Slot:
    """A server's place in the pool."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.lock = threading.Lock()
        self.process: ServerProcess | None = None
        self.connection: Connection | None = None
        self.opening: Future[None] | None = None
        self.former: list[Connection] = []
        self.failure: ConnectionFailed | None = None
        self.brake = Brake()

    @property
    def list_changed(self) -> bool:
        """Whether one of its connections was told that the list of tools has changed."""
        connections = [each for each in (self.connection, *self.former) if each is not None]
        return any(each.list_changed and each.alive for each in connections)


def _require_platform(server: Server) -> None:
    if server.transport == "pipe" and sys.platform != "win32":
        raise ConfigError(
            f"Server {server.name} is of type pipe: named pipes are for Windows",
            where=Where(server=server.name, phase="config"),
            next_step="use type uds, with the path of a Unix socket",
        )


def _acquire_reaper(launch: Launch) -> Reaper:
    try:
        return shared_reaper.acquire()
    except OSError as error:
        where = Where(server=launch.server.name, phase="start")
        raise ConnectionFailed(f"No further process can be started: {error.strerror}", where=where) from error


def _died_on_probe(launch: Launch, error: ConnectionFailed) -> bool:
    """Whether a server ended on `server/discover`, which some that know only the handshake do."""
    probed = launch.server.protocol == "auto" and launch.era != "handshake"
    return probed and error.where.phase == "handshake" and error.facts.get("exit_code") is not None
