"""Threads that answer calls, so that the event loop stays free."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import anyio
import attrs

MOST = 128
"""Answers that are worked on at once; further ones wait."""
_IDLE_SECONDS = 10.0

Work = Callable[[], object]


class WorkerThreads:
    """Threads that work on answers; an idle one is used again.

    They are daemons: a node that cannot be stopped does not keep the program from ending.
    """

    def __init__(self, most: int = MOST) -> None:
        self._limit = anyio.CapacityLimiter(most)
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    async def run(self, work: Callable[[], Any], cancel: Callable[[], object], grace: float) -> Any:
        """Work on something in a thread, and return its result.

        Args:
            work: What to do.
            cancel: Called when the caller is cancelled, so that `work` ends.
            grace: Seconds for which a cancelled caller waits for that.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        ended = anyio.Event()
        result = _Result()

        def do() -> None:
            result.of(work)
            try:
                loop.call_soon_threadsafe(ended.set)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        async with self._limit:
            self._submit(do)
            try:
                await ended.wait()
            except BaseException:
                cancel()
                with anyio.move_on_after(grace, shield=True):
                    await ended.wait()
                raise
        return result.get()

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


@attrs.define
class _Result:
    """What a piece of work returned or raised."""

    value: Any = None
    error: BaseException | None = None

    def of(self, work: Callable[[], Any]) -> None:
        try:
            self.value = work()
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
            self.error = error

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value
