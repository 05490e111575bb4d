"""Reading and writing pipes, terminals and devices, for those who ask for it.

No call blocks for long: each wait is short, so that Ctrl-C and the end of a run are noticed.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from pathlib import Path

from pflow_mcp_plugin.storage.regular_files import LIMIT, too_large

_NAP = 0.25
"""Seconds of one wait."""
_POLL = 0.02
"""Seconds between two attempts to open a pipe that nobody reads yet."""
_CHUNK = 1 << 16


def read_special(
    path: Path,
    *,
    most: int = LIMIT,
    seconds: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> bytes:
    """Return all that can be read from a pipe, terminal or device, to its end.

    Args:
        path: The file; any kind will do.
        most: Bytes that are accepted.
        seconds: How long it may take; None for no limit.
        stopped: Whether to give up; asked now and then.

    Raises:
        TimeoutError: It did not end in time.
        InterruptedError: `stopped` returned True.
        OSError: There is more than `most`, or it cannot be read.
    """
    wait = _Wait(seconds, stopped)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        content = bytearray()
        while len(content) <= most:
            wait.ready(descriptor, select.POLLIN)
            try:
                chunk = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                continue
            if not chunk:
                return bytes(content)
            content += chunk
        raise too_large(path, most)
    finally:
        os.close(descriptor)


def write_special(
    path: Path, data: bytes, *, seconds: float | None = None, stopped: Callable[[], bool] = lambda: False
) -> None:
    """Write to a pipe, terminal or device.

    Args:
        path: The file; any kind will do.
        data: What to write.
        seconds: How long it may take, the wait for the reader of a pipe included; None for no limit.
        stopped: Whether to give up; asked now and then.

    Raises:
        TimeoutError: It was not done in time.
        InterruptedError: `stopped` returned True.
        OSError: It cannot be written.
    """
    wait = _Wait(seconds, stopped)
    descriptor = _opened(path, wait)
    try:
        rest = memoryview(data)
        while rest:
            wait.ready(descriptor, select.POLLOUT)
            try:
                rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
            except BlockingIOError:
                continue
    finally:
        os.close(descriptor)


def _opened(path: Path, wait: _Wait) -> int:
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo():
                raise
        wait.pause(_POLL)  # a pipe without a reader


class _Wait:
    """Waits for a file, with a common limit for all waits."""

    def __init__(self, seconds: float | None, stopped: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self._stopped = stopped

    def ready(self, descriptor: int, event: int) -> None:
        """Return when a descriptor is ready for reading or writing."""
        poll = select.poll()
        poll.register(descriptor, event)
        while not poll.poll(self._left(_NAP) * 1_000):
            pass

    def pause(self, seconds: float) -> None:
        """Wait for some seconds."""
        time.sleep(self._left(seconds))

    def _left(self, most: float) -> float:
        if self._stopped():
            raise InterruptedError(errno.EINTR, "the run was stopped")
        left = most if self._end is None else self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, f"it took longer than {self._seconds:g} seconds")
        return min(left, most)
