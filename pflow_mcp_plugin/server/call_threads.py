"""Threads that answer calls, so that the event loop stays free, and the progress that is sent meanwhile."""

from __future__ import annotations

import asyncio
import math
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from pflow_mcp_plugin.contract import Progress

if TYPE_CHECKING:
    from typing import Self

    from mcp.server.context import ServerRequestContext


MOST = 128
"""Calls that are answered at once; further ones wait."""
_IDLE_SECONDS = 10.0

Work = Callable[[], object]


class WorkerThreads:
    """Threads that answer calls; idle ones are used again.

    They are daemons: a node that cannot be stopped does not keep the program from ending.
    """

    def __init__(self, most: int = MOST) -> None:
        self._limit = anyio.CapacityLimiter(most)
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    async def run(self, work: Callable[[], Any], cancel: Callable[[], object], grace: float) -> Any:
        """Do some work in a thread, and return its result.

        Args:
            work: What to do.
            cancel: Called when the caller is cancelled, so that `work` ends.
            grace: Seconds for which a cancelled caller waits for that.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        ended = anyio.Event()
        result: Future[Any] = Future()

        def do() -> None:
            try:
                result.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
                result.set_exception(error)
            with suppress(RuntimeError):  # the loop is closed: nothing waits for the result
                loop.call_soon_threadsafe(ended.set)

        async with self._limit:
            self._submit(partial(copy_context().run, do))  # so that its span is the request's
            try:
                await ended.wait()
            except BaseException:
                cancel()
                with anyio.move_on_after(grace, shield=True):
                    await ended.wait()
                raise
        return result.result()

    def _submit(self, work: Work) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._serve, name="pflow-answer", daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    # Unless one was given to this thread, or to another that is idle, in the meantime.
                    if self._idle:
                        self._idle -= 1
                        return
                continue
            work()
            with self._lock:
                self._idle += 1


_WITHIN = 0.1
"""The share of the way to the next whole step that each report within a step adds."""


class ProgressSender:
    """Sends progress while its `async with` block runs; the SDK drops it unless the client asked for it.

    If the client is slower than the run, it receives only the latest. The number always grows, as the
    protocol demands: each report within a step adds a little.

    Args:
        context: The request.
        redact: Redacts the messages.
    """

    def __init__(self, context: ServerRequestContext[Any, Any], redact: Callable[[str], str]) -> None:
        self._session = context.session
        self._redact = redact
        self._loop = asyncio.get_running_loop()
        self._latest: Progress | None = None
        self._sending: asyncio.Task[None] | None = None
        self._sent = -1.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._latest is not None:
            self._begin()
        if self._sending is not None:
            if error is not None:
                self._sending.cancel()
            await asyncio.wait([self._sending])

    def report(self, progress: Progress) -> None:
        """Accept a report, from any thread."""
        waiting, self._latest = self._latest is not None, progress
        if not waiting:
            with suppress(RuntimeError):  # the loop is closed: nothing waits for the progress
                self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        while (progress := self._latest) is not None:
            self._latest = None
            done = self._growing(progress.done)
            if done is not None:
                message = self._redact(progress.message) if progress.message else None
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client is gone
                    await self._session.report_progress(done, progress.total, message)

    def _growing(self, done: float) -> float | None:
        """Return a number greater than the last one; None if floats have none left before the next step."""
        if done <= self._sent:
            done = self._sent + (math.floor(self._sent) + 1 - self._sent) * _WITHIN
            if done <= self._sent:
                return None
        self._sent = done
        return done
