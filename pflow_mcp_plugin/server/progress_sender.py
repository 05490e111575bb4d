"""Sends the progress of a run to the client that asked for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from pflow_mcp_plugin.contract import Progress

if TYPE_CHECKING:
    from typing import Self

    from mcp.server.context import ServerRequestContext

_WITHIN = 0.1
"""The part of the way to the next whole step by which progress within a step goes on."""


class ProgressSender:
    """Sends progress while its `async with` block runs, if the request has a progress token.

    Only the latest is kept while the client is slower than the run. What is sent always grows, as the
    protocol demands: several reports within one step move a little towards the next.

    Args:
        context: The request.
        redact: Redacts the messages.
    """

    def __init__(self, context: ServerRequestContext[Any, Any], redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._session = context.session
        self.wanted = (context.meta or {}).get("progress_token") is not None
        self._latest: Progress | None = None
        self._sent = -1.0

    async def __aenter__(self) -> Self:
        if self.wanted:
            self._loop = asyncio.get_running_loop()
            self._news = anyio.Event()
            self._group = anyio.create_task_group()
            await self._group.__aenter__()
            self._group.start_soon(self._send_all)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if not self.wanted:
            return None
        self._group.cancel_scope.cancel()
        handled = await self._group.__aexit__(kind, error, trace)
        if error is None:
            await self._send()
        return handled

    def report(self, progress: Progress) -> None:
        """Take a report from the thread that makes it."""
        try:
            self._loop.call_soon_threadsafe(self._take, progress)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _take(self, progress: Progress) -> None:
        self._latest = progress
        self._news.set()

    async def _send_all(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            await self._send()

    async def _send(self) -> None:
        progress, self._latest = self._latest, None
        if progress is not None and (done := self._growing(progress.done)) is not None:
            message = self._redact(progress.message) if progress.message else None
            await self._session.report_progress(done, progress.total, message)

    def _growing(self, done: float) -> float | None:
        """Return how far to say the run has come; None if no number is left before the next step."""
        if done <= self._sent:
            done = self._sent + (math.floor(self._sent) + 1 - self._sent) * _WITHIN
            if done <= self._sent:
                return None
        self._sent = done
        return done
