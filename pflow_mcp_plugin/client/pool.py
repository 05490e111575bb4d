"""The connections of one run: what the other rooms use.

The methods block and may be called from any thread; the work is done on the background loop.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from pflow_mcp_plugin.client.background_loop import LoopThread, awaited, background_loop
from pflow_mcp_plugin.client.server_process import spawn
from pflow_mcp_plugin.client.supervisor import OnStart, RestartLimit, Supervisor, closed
from pflow_mcp_plugin.config.server_egress import require_url
from pflow_mcp_plugin.contract.problems import described
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, McpError, Where
from pflow_mcp_plugin.exchange import CallResult, Launch, Listing, ToolCall
from pflow_mcp_plugin.processes.process_group import ProcessGroup, Reaper, shared_reaper
from pflow_mcp_plugin.processes.reaper_process import end_marked
from pflow_mcp_plugin.processes.system_calls import is_memory_known
from pflow_mcp_plugin.telemetry.spans import call_span, carried_context
from pflow_mcp_plugin.types import ServerInfo

if TYPE_CHECKING:
    from asyncio import Task
    from concurrent.futures import Future
    from pathlib import Path

    from pflow_mcp_plugin.client.connection import Connection, OnProgress
    from pflow_mcp_plugin.contract import RunStep

    OnCall = Callable[[Future[Any]], None]

T = TypeVar("T")
_numbers = itertools.count(1)
_on_call: ContextVar[OnCall | None] = ContextVar("pflow_mcp_on_call", default=None)


class Pool(AbstractContextManager["Pool"]):
    """A pool of connections: keeps one for each server, from its first use until `close`."""

    def __init__(
        self,
        warn: Callable[[str], None],
        *,
        stderr_folder: Path | None = None,  # where full stderr is saved if an error shows only a part
        sign_in_folder: Path | None = None,  # where sign-ins are kept; None for the usual folder
        starts_at_once: int | None = None,  # the most servers that `prepare` starts at the same time
        on_start: OnStart = lambda _: lambda _: None,
    ) -> None:
        self._warn = warn
        self._free_starts: float = math.inf if starts_at_once is None else starts_at_once
        self._prepared: deque[Supervisor] = deque()
        self._on_start = on_start
        self._sign_in_folder = sign_in_folder
        self._stderr_folder = stderr_folder
        self._pid = os.getpid()
        self._number = next(_numbers)
        self._lock = threading.Lock()
        self._supervisors: dict[str, Supervisor] = {}
        self._calls: set[Task[object]] = set()
        self._loop: LoopThread | None = None
        self._reaper: Reaper | None = None
        self._closed = False
        self._cancelled = False
        self._unfinished: set[Future[Any]] = set()

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self, launch: Launch) -> None:
        """Start a server and connect the pool to it in the background; its first use raises a failure.

        If as many are starting as may at the same time, it is started after one of them, or when it is used.
        """
        self._prepared.append(self._supervisor(launch))
        self._start_prepared()

    def _start_prepared(self) -> None:
        """Start servers that were prepared, as many as may be starting; each of them starts a successor."""

        def end_start(_opened: Future[None]) -> None:
            with self._lock:
                self._free_starts += 1
            with suppress(McpError):  # the pool is being closed
                self._start_prepared()

        while True:
            with self._lock:
                if self._closed or self._cancelled or not self._prepared or self._free_starts <= 0:
                    return
                self._free_starts -= 1
                supervisor = self._prepared.popleft()
            opening = None
            try:
                if supervisor.start():
                    opening = self._submit(supervisor.begin(), supervisor.launch)
            finally:
                if opening is None:
                    with self._lock:
                        self._free_starts += 1
            if opening is not None:
                opening.add_done_callback(end_start)

    def call(
        self,
        launch: Launch,
        call: ToolCall,
        on_progress: OnProgress | None = None,
        *,
        safe_to_repeat: bool = False,
        chain: Callable[[], Sequence[str]] = tuple,
        step: RunStep | None = None,
    ) -> CallResult:
        """Call a tool over the pool's connection to its server; block until it answers.

        `chain` returns the chain of workflows that leads to the call, see `workflow_chain`. `step` is told
        just before the call is sent, each time.
        """

        def run(connection: Connection) -> Coroutine[Any, Any, CallResult]:
            return connection.call(call, on_progress, chain, step)

        with call_span(launch, call) as record:
            answer = self._request(launch, run, safe_to_repeat=safe_to_repeat)
            record(answer)
            return answer

    def list_tools(self, launch: Launch) -> Listing:
        return self._request(launch, lambda connection: connection.list_tools())

    def info(self, launch: Launch) -> ServerInfo:

        async def run(connection: Connection) -> ServerInfo:
            return connection.info

        return self._request(launch, run)

    def changed_lists(self) -> list[Launch]:
        with self._lock:
            return [supervisor.launch for supervisor in self._supervisors.values() if supervisor.list_changed]

    def renew(self, launch: Launch) -> None:
        """Forget how often the pool has started a server: another run begins to use it."""
        with self._lock:
            if (supervisor := self._supervisors.get(launch.key)) is not None:
                supervisor.restarts = RestartLimit()

    def end(self, launch: Launch) -> None:
        """End one server of the pool, without waiting for it; its next use starts it again."""
        with self._lock:
            supervisor = self._supervisors.pop(launch.key, None)
        if supervisor is None:
            return
        supervisor.shut()
        if self._loop is None:
            supervisor.abandon()
            return
        with suppress(McpError):  # the pool is being closed, which ends the processes of all its servers
            self._submit(supervisor.close(), launch)

    def cancel(self) -> None:
        """Let the pool's running calls fail at once, and accept no more; `close` then ends the servers.

        It returns at once and may be called from any thread, also while servers are being started.
        """
        with self._lock:
            self._cancelled = True
            unfinished = list(self._unfinished)
        for future in unfinished:
            future.cancel()  # of a call that was sent, this also notifies the server

    def close(self) -> None:
        """End every server of the pool; safe to call twice, and from any thread.

        Calls that are running in other threads fail. Ctrl-C here kills the servers at once.
        """
        if os.getpid() != self._pid:  # a forked child: the servers belong to its parent
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            for supervisor in self._supervisors.values():
                supervisor.shut()  # all of them first, so that no thread starts a server meanwhile
            if self._loop is not None and self._loop.serving:
                with self._lock:
                    closing = self._scheduled(self._close_all())
                try:
                    with suppress(TimeoutError):  # the loop may hang; then the servers are killed
                        awaited(closing, 20.0)
                except KeyboardInterrupt:  # the second Ctrl-C: servers get no time to exit by themselves
                    self._end_processes()
                    with suppress(TimeoutError):  # the loop may hang
                        awaited(closing, 1.0)
                    raise
            else:  # no connection was started, and none can be now
                for supervisor in self._supervisors.values():
                    supervisor.abandon()
        finally:
            with ExitStack() as last:  # each callback runs even if another one fails
                if self._reaper is not None:
                    last.callback(shared_reaper.release)
                last.callback(self._end_processes)
                if self._loop is not None:
                    background_loop.release()  # first; the callbacks run although Ctrl-C interrupts it

    def _request(
        self,
        launch: Launch,
        run: Callable[[Connection], Coroutine[Any, Any, T]],
        *,
        safe_to_repeat: bool = True,
    ) -> T:
        supervisor = self._supervisor(launch)
        supervisor.start()  # here, not on the loop: the process starts while the SDK loads
        from concurrent.futures import CancelledError

        future = self._submit(self._run(supervisor, run, safe_to_repeat=safe_to_repeat), launch)
        if (on_call := _on_call.get()) is not None:
            on_call(future)
        try:
            return awaited(future)
        except CancelledError:
            raise closed(launch, ran="unknown") from None
        except BaseException:
            future.cancel()  # Ctrl-C: cancels the call, which notifies the server
            raise

    async def _run(
        self,
        supervisor: Supervisor,
        run: Callable[[Connection], Coroutine[Any, Any, T]],
        *,
        safe_to_repeat: bool,
    ) -> T:
        """Run a call on one of the pool's connections, and again on a new one if nothing was sent before.

        A server that lost the session is reconnected in any case, but a request that had been
        sent is repeated only if that is safe. Closing the pool cancels what is still running.
        """
        import asyncio

        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in a task
        self._calls.add(task)
        try:
            connection = await supervisor.connection()
            try:
                return await run(connection)
            except McpError as error:
                lost = error.details.get("session_lost", False)
                if lost and not safe_to_repeat:
                    with suppress(McpError):
                        await supervisor.connection()
                    raise
                if not lost and (connection.alive or error.ran != "not ran" or not error.retryable):
                    raise
            return await run(await supervisor.connection())
        finally:
            self._calls.discard(task)

    def _supervisor(self, launch: Launch) -> Supervisor:
        if os.getpid() != self._pid:
            raise CallFailed(
                "This process was forked from one that holds connections and cannot use them",
                where=Where(server=launch.server.name, phase="connect"),
                next_step="connect after the fork",
            )
        with self._lock:
            if self._closed or self._cancelled:
                raise closed(launch)
            if launch.key not in self._supervisors:
                server = launch.server
                if server.url:
                    require_url(server, server.url)
                if server.transport == "pipe" and sys.platform != "win32":
                    raise McpError(
                        f"Server {server.name} is of type pipe, but named pipes exist on Windows only",
                        where=Where(server=server.name, phase="config"),
                        next_step="use type uds, with the path of a Unix socket",
                        kind="config",
                    )
                if server.memory_limit_mb is not None and server.command and not is_memory_known():
                    self._tell(f"server {server.name}: memory_limit_mb has no effect on {sys.platform}")
                self._supervisors[launch.key] = Supervisor(
                    attrs.evolve(launch, sign_in_folder=self._sign_in_folder),
                    self._spawn,
                    self._tell,
                    self._stderr_folder,
                    self._on_start,
                )
            return self._supervisors[launch.key]

    def _tell(self, text: str) -> None:
        """Warn the pool's user, in the loop's thread; a failing callback must not break a connection."""
        try:
            self._warn(text)
        except Exception as error:  # noqa: BLE001 - a caller's callback may raise anything
            import logging

            message = "%s (the warning callback failed: %s)"
            logging.getLogger(__name__).warning(message, text, described(error))

    def _spawn(self, launch: Launch) -> ProcessGroup:
        with self._lock:
            if self._reaper is None:
                try:
                    self._reaper = shared_reaper.acquire()
                except OSError as error:
                    message = f"No more processes can be started: {error.strerror}"
                    where = Where(server=launch.server.name, phase="start")
                    raise ConnectionFailed(message, where=where) from error
            reaper = self._reaper
        try:
            return spawn(launch.server, self._marked(reaper), reaper, launch.program)
        except ConnectionFailed as error:
            from pflow_mcp_plugin.client.failures import fit_to_show

            raise fit_to_show(error, launch.redactor) from error.__cause__

    def _marked(self, reaper: Reaper) -> str:
        # Due to the final dot, no marker is another's prefix.
        return f"{reaper.marker}.{self._number}."

    def _submit(self, work: Coroutine[Any, Any, T], launch: Launch) -> Future[T]:
        with self._lock:
            if not (self._closed or self._cancelled):
                future = self._scheduled(work)
                self._unfinished.add(future)
                future.add_done_callback(self._unfinished.discard)
                return future
        work.close()
        raise closed(launch)

    def _scheduled(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop is None:
            try:
                self._loop = background_loop.acquire()
            except BaseException:  # Ctrl-C
                work.close()
                raise
        return self._loop.submit(work, carried_context())

    async def _close_all(self) -> None:
        import asyncio

        await asyncio.gather(*(supervisor.close() for supervisor in self._supervisors.values()))
        if self._calls:
            _, left = await asyncio.wait(self._calls, timeout=2.0)  # their connections are closed
            for task in left:
                task.cancel()

    def _end_processes(self) -> None:
        if self._reaper is not None:
            end_marked(self._marked(self._reaper))


@contextmanager
def watched_calls(on_call: OnCall) -> Iterator[None]:
    """Pass the future of each call of a pool that begins inside to a function."""
    token = _on_call.set(on_call)
    try:
        yield
    finally:
        _on_call.reset(token)
