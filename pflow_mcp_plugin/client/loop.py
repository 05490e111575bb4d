"""One background event loop for each process, started on demand and ended when nobody uses it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Runner

_END_SECONDS = 2.0
"""How long the thread may take to end; one that hangs is left behind, and does not keep the program from ending."""


class BackgroundLoop:
    """An event loop in a thread of its own, counted by its users.

    Args:
        load: Imports what the loop's users need there, in the loop's thread before it serves: Ctrl-C
            does not reach that thread, and nobody has to wait for a loop that waits for an import.
    """

    def __init__(self, load: Callable[[], None] = lambda: None) -> None:
        self._load = load
        self._serving = threading.Event()
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

    @property
    def serving(self) -> bool:
        """Whether the loop has begun to do what it is given."""
        return self._serving.is_set()

    def acquire(self) -> AbstractEventLoop:
        """Return the running loop; every call needs one `release`."""
        with self._lock:
            if self._runner is None or self._owner != os.getpid():
                self._runner = self._start()
            self._users += 1
            return self._runner.get_loop()

    def release(self) -> None:
        """Give the loop back; the last one out stops it, cancels what still runs and waits for its thread."""
        with self._lock:
            self._users -= 1
            if self._users or self._runner is None or self._thread is None:
                return
            runner, thread = self._runner, self._thread
            self._runner, self._thread = None, None  # an interrupted wait must not leave a stopped loop here
        loop = runner.get_loop()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_END_SECONDS)

    def _start(self) -> Runner:
        import asyncio

        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        runner.get_loop()  # made here, to be there for the first who asks
        self._users, self._owner = 0, os.getpid()
        self._serving = threading.Event()
        arguments = (runner, self._load, self._serving)
        self._thread = threading.Thread(target=_run, args=arguments, name="pflow-mcp", daemon=True)
        self._thread.start()
        return runner


def _run(runner: Runner, load: Callable[[], None], serving: threading.Event) -> None:
    with runner:
        with suppress(Exception):  # the first connection fails by it in its turn, and says so
            load()
        serving.set()
        runner.get_loop().run_forever()


def _load_sdk() -> None:
    """Import all that connections to started servers need; what is for HTTP comes with the first such server."""
    import anyio._backends._asyncio

    import pflow_mcp_plugin.client.connection
    import pflow_mcp_plugin.client.negotiation
    import pflow_mcp_plugin.client.session
    import pflow_mcp_plugin.client.sockets
    import pflow_mcp_plugin.client.stdio  # noqa: F401

    if sys.platform != "win32":
        import fcntl
        import termios  # noqa: F401


background_loop = BackgroundLoop(_load_sdk)
