"""Opening and reading regular files only, so that nothing waits for a pipe or reads a device without end."""

from __future__ import annotations

import errno
import os
import stat
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
