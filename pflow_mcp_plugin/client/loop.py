"""One background event loop for each process, started on demand and ended when nobody uses it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class BackgroundLoop:
    """An event loop in a thread of its own, counted by its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._owner = 0
        self._loop: AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def acquire(self) -> AbstractEventLoop:
        """Return the running loop; every call needs one `release`."""
        with self._lock:
            if self._loop is None or self._owner != os.getpid():
                self._start()
            self._users += 1
            assert self._loop is not None  # noqa: S101 - _start sets it
            return self._loop

    def release(self) -> None:
        """Give the loop back; the last one out stops it and joins its thread."""
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop, self._thread = None, None

    def _start(self) -> None:
        import asyncio

        self._loop = asyncio.new_event_loop()
        self._users, self._owner = 0, os.getpid()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="pflow-mcp", daemon=True)
        self._thread.start()


def _run(loop: AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


background_loop = BackgroundLoop()
