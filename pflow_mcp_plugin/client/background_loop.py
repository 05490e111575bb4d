"""One background event loop for each process, started on demand and stopped after its last use."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import Context
from functools import partial
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, TypeVar

from pflow_mcp_plugin.processes.process_group import Shared

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from concurrent.futures import Future

T = TypeVar("T")


class LoopThread:
    """A background thread with an event loop.

    The thread creates the loop, so that Ctrl-C cannot interrupt that half-way, and imports what coroutines
    need before it runs any: Ctrl-C cannot interrupt an import there, and no coroutine is delayed by one.
    """

    def __init__(self) -> None:
        from concurrent.futures import Future

        self.serving = False  # whether the loop has started to run coroutines
        self._submitted: deque[tuple[Coroutine[Any, Any, Any], Context, Future[Any]]] = deque()
        self._is_woken = False
        created: Future[AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, args=(created,), name="pflow-mcp", daemon=True)
        try:
            self._thread.start()
            self.loop = awaited(created)
        except BaseException:  # Ctrl-C: the loop is stopped as soon as it exists, because nobody will use it
            created.add_done_callback(
                lambda done: done.exception() or done.result().call_soon_threadsafe(done.result().stop)
            )
            raise

    def submit(self, work: Coroutine[Any, Any, T], context: Context) -> Future[T]:
        """Let the loop run a coroutine in a context; many that are submitted at once wake it only once.

        Waking it takes a system call, after which this thread must compete with all others for Python.
        """
        from concurrent.futures import Future

        future: Future[T] = Future()
        self._submitted.append((work, context, future))
        if not self._is_woken:
            try:
                self._is_woken = True
                self.loop.call_soon_threadsafe(self._begin)
            except BaseException:  # Ctrl-C: nobody waits for this one, and the next must wake the loop
                self._is_woken = False
                future.cancel()
                raise
        return future

    def _begin(self) -> None:
        self._is_woken = False  # first: what is submitted from here on may be too late for this turn
        while self._submitted:
            work, context, future = self._submitted.popleft()
            if future.cancelled():
                work.close()
                continue
            task = self.loop.create_task(work, context=context)
            task.add_done_callback(partial(_pass_on, future))
            future.add_done_callback(partial(self._cancel, task))

    def _cancel(self, task: Task[Any], future: Future[Any]) -> None:
        if future.cancelled() and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(task.cancel)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(2.0)  # one that hangs is left behind: it is a daemon thread

    def _run(self, created: Future[AbstractEventLoop]) -> None:
        try:
            import asyncio

            runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
            created.set_result(runner.get_loop())
        except Exception as error:  # noqa: BLE001 - passed on to the thread that waits for the loop
            created.set_exception(error)
            return
        with runner:  # cancels the tasks that are left
            with suppress(Exception):  # the first connection repeats the import and reports its failure
                # What servers with a process need; the first HTTP server imports the modules for HTTP.
                import anyio._backends._asyncio  # noqa: F401 - loads it, as all imports here

                _defer("mcp")
                _defer("mcp.client")
                import pflow_mcp_plugin.client.connection  # noqa: F401 - the same

                if sys.platform != "win32":
                    import fcntl  # noqa: F401 - the same
                    import termios  # noqa: F401 - the same
            self.serving = True
            runner.get_loop().run_forever()


def _pass_on(future: Future[Any], task: Task[Any]) -> None:
    if task.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
        return
    error = task.exception()  # also if nobody waits any more: asyncio reports one that nobody asked for
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _defer(name: str) -> None:
    """Let a package that the background loop imports run its code only when one of its names is first used.

    The SDK's package imports its server side, which takes as long as everything its client needs.
    """
    if name in sys.modules or (spec := find_spec(name)) is None or spec.loader is None:
        return
    loader, package = spec.loader, module_from_spec(spec)
    lock = threading.RLock()
    begun: list[bool] = []

    def ask(attribute: str) -> Any:
        with lock:
            if not begun:
                begun.append(True)
                loader.exec_module(package)
        if attribute in vars(package):
            return vars(package)[attribute]
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}", name=attribute, obj=package)

    vars(package)["__getattr__"] = ask
    sys.modules[name] = package


background_loop: Shared[LoopThread] = Shared(LoopThread, LoopThread.stop)


def awaited(future: Future[T], seconds: float = math.inf) -> T:
    """Wait for a result from the background loop, in short intervals that Ctrl-C can interrupt.

    A Ctrl-C just before a wait does not interrupt that wait.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return future.result(0.25)
        except TimeoutError:
            if future.done():
                return future.result()
            if time.monotonic() > end:
                raise
