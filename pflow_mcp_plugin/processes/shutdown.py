"""The shutdown of a process in asyncio: waits for its exit, asks for it, or kills it, also for its memory."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from pflow_mcp_plugin.processes.process_group import ProcessGroup
from pflow_mcp_plugin.processes.system_calls import descriptor_of, used_by

EXIT_GRACE = 2.0
"""Seconds a process has to exit after its stdin is closed, and again after SIGTERM."""
LAST_WORDS_SECONDS = 0.3
"""How long a shutdown waits for the exit code of a dying server, and for the rest of its stderr."""


async def see_through(work: Coroutine[Any, Any, None]) -> None:
    """Await the shutdown of a process to its end, even if the task that awaits it is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:  # not `await task`, which would pass the cancellation on to it
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    task.result()


class ProcessEnd:
    """The shutdown of a process: waits for it to exit, or brings that about by signals."""

    def __init__(self, process: ProcessGroup) -> None:
        self.exit_code: int | None = None  # None unless it ended by itself
        self._process = process
        self._expected = False

    def expect(self) -> None:
        # A later exit code is our own doing.
        self.exit_code = self._process.returncode
        self._expected = True

    async def reached(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _ended(self._process)
        if self._process.returncode is None:
            return False
        if not self._expected:
            self.exit_code = self._process.returncode
        return True

    async def bring_about(self, grace: float, *, after_sigterm: float = EXIT_GRACE) -> None:
        if not await self.reached(grace):
            self._process.signal_group(signal.SIGTERM)
            await self.reached(after_sigterm)
        self._process.signal_group(signal.SIGKILL)  # even if the server exited: its children may not have
        await self.reached(EXIT_GRACE)


async def _ended(process: ProcessGroup) -> None:
    # Unlike asyncio's own child watchers, this does not reap the process: its group id could then be reused
    # while children of the server are still in the group.
    if process.returncode is not None:
        return
    descriptor = descriptor_of(process.pid)
    if descriptor is None:
        pause = 0.001
        while process.returncode is None:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def limit_memory(process: ProcessGroup, limit_mb: float, note: Callable[[float], None]) -> None:
    """Watch a process in asyncio; shut it and its children down, by a kill, once they use too much memory.

    They get no time to exit by themselves, as they could use much more meanwhile.
    """
    found, used = used_by(process.pid)
    while used <= limit_mb:
        await asyncio.sleep(0.2)  # to measure takes a few milliseconds
        found, used = used_by(process.pid)
    note(used)
    process.signal_group(signal.SIGKILL)
    for pid in found:  # those that left the group
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
