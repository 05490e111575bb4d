"""Opens regular files only, so that nothing waits for a pipe or reads a device forever; on demand, those too.

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

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegular(OSError):
    """Raised on opening a pipe, a terminal, another device or a socket, which are not regular files."""


def open_regular(path: str | Path, flags: int) -> int:
    """Open a regular file, never waiting for it; an `opener` for `open`. Anything else is `NotRegular`."""
    try:
        refuse_special(path, Path(path).stat().st_mode)  # merely opening a device can have effects
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o666)
    try:
        refuse_special(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, most: int = LIMIT, *, own: bool = False) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    With `own`, one that others could have written is a `StoreError`. What is not a regular file, or waits for
    more content as `/proc/kmsg` does, is `NotRegular`; all other failures are `OSError`.
    """
    descriptor = open_regular(path, os.O_RDONLY)
    try:
        if own:
            require_own(path, descriptor)
        if os.fstat(descriptor).st_size > most:
            raise too_large(path, most)
        content = bytearray()
        while chunk := os.read(descriptor, 1 << 20):
            content += chunk
            if len(content) > most:
                raise too_large(path, most)
        return bytes(content)
    except BlockingIOError as error:
        raise NotRegular(error.errno, "it is not a regular file, as it has no end", str(path)) from error
    finally:
        os.close(descriptor)


def require_regular(path: str | Path) -> None:
    """Refuse a file that is not regular or cannot be read, before something waits on opening a pipe."""
    os.close(open_regular(path, os.O_RDONLY))


def too_large(path: Path, most: int) -> OSError:
    """Return the error of a regular file that is larger than `most` bytes."""
    size = f"{most / (1 << 20):g} MiB" if most >= 1 << 20 else f"{most:,} bytes"
    return OSError(errno.EFBIG, f"it is larger than {size}", str(path))


def refuse_special(path: str | Path, mode: int) -> None:
    """Refuse what is not a regular file, by its mode."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise NotRegular(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


_PIECE = 1 << 16


def read_special(
    path: Path,
    *,
    most: int = LIMIT,
    seconds: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> bytes:
    """Return all that can be read from a pipe, terminal or device, to its end, at most `most` bytes.

    Gives up after `seconds` (`TimeoutError`), or when `stopped`, asked now and then, is true
    (`InterruptedError`).
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
    """Write to a pipe, terminal or device; gives up as `read_special` does, waiting for a reader included."""
    wait = _Wait(seconds, stopped)
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
            break
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo():
                raise
        time.sleep(wait.left(0.02))  # a pipe without a reader
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


class _Wait:
    """The waiting for a pipe, terminal or device, with one limit for all waits."""

    def __init__(self, seconds: float | None, stopped: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self._stopped = stopped

    def ready(self, descriptor: int, event: int) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        while not poll.poll(self.left(0.25) * 1_000):
            pass

    def left(self, most: float) -> float:
        if self._stopped():
            raise InterruptedError(errno.EINTR, "the run was stopped")
        left = most if self._end is None else self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, f"it took longer than {self._seconds:g} seconds")
        return min(left, most)
