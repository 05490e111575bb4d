"""An executor of daemon threads: it runs the items of a batch and waits for child processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")

_Work = tuple[Future[Any], Callable[[], object]]


class Threads(Executor):
    """An executor whose daemon threads do not keep the program from exiting.

    Python's own pool waits at exit for every thread, so Ctrl-C would not end a batch whose items hang.

    Args:
        count: The most threads; each is started when there is work for it.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._started = 0

    def submit(self, fn: Callable[Given, Made], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Made]:
        """Run a function on one of the daemon threads; call this from one thread only.

        It sees the context variables of the caller, as if it ran here.
        """
        future: Future[Made] = Future()
        context = copy_context()
        self._work.put((future, lambda: context.run(fn, *args, **kwargs)))
        if self._started < self._count:
            self._started += 1
            threading.Thread(target=self._serve, name=f"batch-{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  # as Executor has it
        """Let the daemon threads end once their work is done; does not wait for them."""
        with suppress(Empty):
            while cancel_futures:
                left = self._work.get_nowait()
                if left is not None:
                    left[0].cancel()
        # A thread ends when it takes a None, so each needs one.
        for _ in range(self._started):
            self._work.put(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            future, function = work
            if future.set_running_or_notify_cancel():
                _settle(future, function)


def _settle(future: Future[Any], function: Callable[[], object]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:  # noqa: BLE001  # raised again where the result is awaited
        future.set_exception(error)
