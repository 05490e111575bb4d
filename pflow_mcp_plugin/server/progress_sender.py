"""Sends the progress of a run to the client that asked for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from pflow_mcp_plugin.contract import Progress

if TYPE_CHECKING:
    from typing import Self

    from mcp.server.context import ServerRequestContext

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
