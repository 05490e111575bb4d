"""Threads that answer calls, so that the event loop stays free, and the progress that is sent meanwhile."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from pflow_mcp_plugin.contract import Progress
from pflow_mcp_plugin.daemon_threads import Threads

if TYPE_CHECKING:
    from typing import Self

    from mcp.server.context import ServerRequestContext


MOST = 128
"""Calls that are answered at once; further ones wait."""
_WITHIN = 0.1
"""The share of the way to the next whole step that each report within a step adds."""


class WorkerThreads:
    """Threads that answer calls; idle ones are used again.

    They are daemons: a node that cannot be stopped does not keep the program from ending.
    """

    def __init__(self, most: int = MOST) -> None:
        self._limit = anyio.CapacityLimiter(most)
        self._threads = Threads(most, "pflow-answer")

    async def run(self, work: Callable[[], Any], cancel: Callable[[], object], grace: float) -> Any:
        """Do some work in a thread, and return its result.

        Args:
            work: What to do; its span is the request's.
            cancel: Called when the caller is cancelled, so that `work` ends.
            grace: Seconds for which a cancelled caller waits for that.
        """
        loop = asyncio.get_running_loop()
        ended = anyio.Event()

        def note_end(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: nothing waits for the result
                loop.call_soon_threadsafe(ended.set)

        async with self._limit:
            result = self._threads.submit(work)
            result.add_done_callback(note_end)
            try:
                await ended.wait()
            except BaseException:
                cancel()
                with anyio.move_on_after(grace, shield=True):
                    await ended.wait()
                raise
        return result.result()


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
