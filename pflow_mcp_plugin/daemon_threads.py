"""Daemon threads, which nothing waits for at exit: they run what may block, such as the keyring or a node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")

_Work = tuple[Future[Any], Callable[[], object]]
_IDLE_SECONDS = 10.0
"""How long a thread waits for more work before it ends."""


class Threads(Executor):
    """An executor whose daemon threads do not keep the program from exiting.

    Python's own pool waits at exit for every thread, so Ctrl-C would not end a batch whose items hang. Of at
    most `count` threads, each is started when there is work for it and no other is idle.
    """

    def __init__(self, count: int, name: str = "batch") -> None:
        self._count = count
        self._name = name
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads: set[threading.Thread] = set()
        # No lock: Ctrl-C as Python leaves a `with` block would leave it locked for ever.
        self._idle = threading.Semaphore(0)

    def submit(self, fn: Callable[Given, Made], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Made]:
        """Run a function on a daemon thread, with the caller's context variables."""
        future: Future[Made] = Future()
        context = copy_context()
        self._work.put((future, lambda: context.run(fn, *args, **kwargs)))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._count:
            name = f"{self._name}-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads.add(thread)
            thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  # as Executor has it
        with suppress(Empty):
            while cancel_futures:
                left = self._work.get_nowait()
                if left is not None:
                    left[0].cancel()
        # A thread ends when it takes a None, so each needs one.
        for _ in range(len(self._threads)):
            self._work.put(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            future, function = work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:  # noqa: BLE001  # raised again where the result is awaited
                    future.set_exception(error)
            del work, future, function  # an idle thread must not keep alive what it has made
        self._threads.discard(threading.current_thread())

    def _next(self) -> _Work | None:
        """Return the next work for a daemon thread, None if the thread has to end."""
        with suppress(Empty):
            return self._work.get_nowait()
        self._idle.release()
        while True:
            with suppress(Empty):
                return self._work.get(timeout=_IDLE_SECONDS)
            if self._idle.acquire(blocking=False):  # otherwise some work is on its way to this thread
                return None


def to_its_end(begin: Callable[[], Coroutine[Any, Any, Made]]) -> Made:
    """Run a coroutine to its end: on a daemon thread, if this thread is running an event loop already."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(begin())
    with Threads(1, "coroutine") as threads:
        return threads.submit(lambda: asyncio.run(begin())).result()


async def in_daemon_thread(
    function: Callable[Given, Made], /, *args: Given.args, **kwargs: Given.kwargs
) -> Made:
    """Run a blocking function in a daemon thread of its own, and return what it returns.

    An event loop, and the program, wait at their end for the threads of `asyncio.to_thread`.
    """
    import asyncio

    with Threads(1, "blocking") as threads:
        return await asyncio.wrap_future(threads.submit(function, *args, **kwargs))
