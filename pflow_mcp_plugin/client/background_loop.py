"""One background event loop for each process, started on demand and stopped after its last use."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

T = TypeVar("T")
_NAP_SECONDS = 0.25
_END_SECONDS = 2.0
"""How long the loop's thread may take to end. One that hangs is left behind: it is a daemon thread."""


class BackgroundLoop:
    """An event loop in a background thread, which counts its users.

    Args:
        load: Imports the modules that users of the loop need. It runs in the loop's thread, before the
            loop: Ctrl-C cannot interrupt an import there, and no coroutine is delayed by one.
    """

    def __init__(self, load: Callable[[], None] = lambda: None) -> None:
        self._load = load
        self._serving = threading.Event()
        self._lock = threading.Lock()
        self._users = 0
        self._owner = 0
        self._loop: AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._replace_lock)

    def _replace_lock(self) -> None:
        """Replace the lock in a forked child: a thread that held it exists in the parent only."""
        self._lock = threading.Lock()

    @property
    def serving(self) -> bool:
        """Whether the background loop has started to run coroutines."""
        return self._serving.is_set()

    def acquire(self) -> AbstractEventLoop:
        """Return the background loop, started if necessary; every call needs one `release`."""
        with self._lock:
            # A fork copies the loop, but not the thread that runs it.
            if self._loop is None or self._owner != os.getpid():
                self._loop = self._start()
                self._users, self._owner = 0, os.getpid()
            self._users += 1
            return self._loop

    def release(self) -> None:
        """Stop using the background loop; its last user stops it and waits for its thread."""
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None:
                return
            loop, thread = self._loop, self._thread
            self._loop, self._thread = None, None  # an interrupted join must not leave a stopped loop here
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_END_SECONDS)

    def _start(self) -> AbstractEventLoop:
        """Start the thread, which creates the loop, so that Ctrl-C cannot interrupt that half-way."""
        from concurrent.futures import Future

        created: Future[AbstractEventLoop] = Future()
        self._serving = threading.Event()
        arguments = (created, self._load, self._serving)
        self._thread = threading.Thread(target=_run, args=arguments, name="pflow-mcp", daemon=True)
        try:
            self._thread.start()
            return awaited(created)
        except BaseException:  # Ctrl-C: the loop is stopped as soon as it exists, because nobody will use it
            created.add_done_callback(lambda done: done.result().call_soon_threadsafe(done.result().stop))
            raise


def awaited(future: Future[T], seconds: float = math.inf) -> T:
    """Wait for a result from the background loop, in short intervals that Ctrl-C can interrupt.

    A Ctrl-C just before a wait does not interrupt that wait.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return future.result(_NAP_SECONDS)
        except TimeoutError:
            if future.done():
                return future.result()
            if time.monotonic() > end:
                raise


def _run(created: Future[AbstractEventLoop], load: Callable[[], None], serving: threading.Event) -> None:
    import asyncio

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # cancels the tasks that are left
        loop = runner.get_loop()
        created.set_result(loop)
        with suppress(Exception):  # the first connection repeats the import and reports its failure
            load()
        serving.set()
        loop.run_forever()


def _load_sdk() -> None:
    """Import the modules for servers with a process; the first HTTP server imports those for HTTP."""
    import anyio._backends._asyncio  # noqa: F401 - loads it, as all imports here

    import pflow_mcp_plugin.client.connection
    import pflow_mcp_plugin.client.negotiation
    import pflow_mcp_plugin.client.session
    import pflow_mcp_plugin.client.transport.line_transports  # noqa: F401 - the same

    if sys.platform != "win32":
        import fcntl  # noqa: F401 - the same
        import termios  # noqa: F401 - the same


background_loop = BackgroundLoop(_load_sdk)
