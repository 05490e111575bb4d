"""Reading regular files only, so that nothing waits for a pipe or reads a device without end; and the others.

Pipes, terminals and devices are read and written for those who ask for it. No call blocks for long: each
wait is short, so that Ctrl-C and the end of a run are noticed.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections.abc import Callable
from pathlib import Path

from pflow_mcp_plugin.storage.write_access import require_own

LIMIT = 256 << 20
"""Bytes of the largest file that is read."""

_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegular(OSError):
    """A path leads to a pipe, a terminal, another device or a socket."""


def open_regular(path: str | Path, flags: int) -> int:
    """Open a regular file, never waiting for it; an `opener` for `open`.

    Args:
        path: The file.
        flags: As for `os.open`.

    Raises:
        NotRegular: It is something else.
        OSError: It is a folder, or cannot be opened.
    """
    try:
        _require_regular(path, Path(path).stat().st_mode)  # even to open a device can have effects
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o666)
    try:
        _require_regular(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, most: int = LIMIT, *, own: bool = False) -> bytes:
    """Return the content of a regular file.

    Args:
        path: The file.
        most: Bytes that it may have.
        own: Whether to refuse one that others could have written; see `write_access`.

    Raises:
        StoreError: Others could have written it.
        NotRegular: It is something else, or waits for more content, as `/proc/kmsg` does.
        OSError: It is larger, or cannot be read.
    """
    descriptor = open_regular(path, os.O_RDONLY)
    try:
        if own:
            require_own(path, descriptor)
        if os.fstat(descriptor).st_size > most:
            raise too_large(path, most)
        content = bytearray()
        while chunk := os.read(descriptor, _CHUNK):
            content += chunk
            if len(content) > most:
                raise too_large(path, most)
        return bytes(content)
    except BlockingIOError as error:
        raise NotRegular(error.errno, "it is not a regular file, as it has no end", str(path)) from error
    finally:
        os.close(descriptor)


def require_regular(path: str | Path) -> None:
    """Check that a file is regular and can be read, before something opens it that would wait for a pipe.

    Args:
        path: The file.

    Raises:
        NotRegular: It is something else.
        OSError: It is a folder, or cannot be opened.
    """
    os.close(open_regular(path, os.O_RDONLY))


def too_large(path: Path, most: int) -> OSError:
    """Return the error of a regular file that is larger than `most` bytes."""
    size = f"{most / (1 << 20):g} MiB" if most >= 1 << 20 else f"{most:,} bytes"
    return OSError(errno.EFBIG, f"it is larger than {size}", str(path))


def _require_regular(path: str | Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise NotRegular(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


_NAP = 0.25
"""Seconds of one wait."""
_POLL = 0.02
"""Seconds between two attempts to open a pipe that nobody reads yet."""
_PIECE = 1 << 16


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
                chunk = os.read(descriptor, _PIECE)
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
                rest = rest[os.write(descriptor, rest[:_PIECE]) :]
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
