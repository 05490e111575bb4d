"""Threads that answer calls, so that the event loop stays free."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

import anyio

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
