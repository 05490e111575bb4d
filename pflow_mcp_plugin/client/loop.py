"""One background event loop for each process, started on demand and ended when nobody uses it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Runner


class BackgroundLoop:
    """An event loop in a thread of its own, counted by its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._owner = 0
        self._runner: Runner | None = None
        self._thread: threading.Thread | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._take_lock_anew)

    def _take_lock_anew(self) -> None:
        """A thread of the parent may have held the lock when it forked; here is no such thread."""
        self._lock = threading.Lock()

    def acquire(self) -> AbstractEventLoop:
        """Return the running loop; every call needs one `release`."""
        with self._lock:
            if self._runner is None or self._owner != os.getpid():
                self._runner = self._start()
            self._users += 1
            return self._runner.get_loop()

    def release(self) -> None:
        """Give the loop back; the last one out stops it, cancels what still runs and joins its thread."""
        with self._lock:
            self._users -= 1
            if self._users or self._runner is None or self._thread is None:
                return
            runner, thread = self._runner, self._thread
            self._runner, self._thread = None, None  # an interrupted wait must not leave a stopped loop here
        loop = runner.get_loop()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _start(self) -> Runner:
        import asyncio

        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        runner.get_loop()  # made here, to be there for the first who asks
        self._users, self._owner = 0, os.getpid()
        self._thread = threading.Thread(target=_run, args=(runner,), name="pflow-mcp", daemon=True)
        self._thread.start()
        return runner


def _run(runner: Runner) -> None:
    with runner:
        runner.get_loop().run_forever()


background_loop = BackgroundLoop()
