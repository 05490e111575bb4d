"""Threads that answer calls, so that the event loop stays free."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from pflow_mcp_plugin.daemon_threads import Threads

MOST = 128
"""Calls that are answered at once; further ones wait."""


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
        import asyncio

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
