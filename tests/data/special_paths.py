"""Paths that lead to no regular file, for tests of everything that reads files."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

KINDS = ("pipe", "pipe with a writer", "terminal", "endless device", "socket")


@contextmanager
def special_path(kind: str, path: Path) -> Iterator[Path]:
    """Make `path` lead to something that would be waited for, or read, without end."""
    with ExitStack() as stack:
        if kind == "terminal":
            ours, theirs = os.openpty()
            stack.callback(os.close, ours)
            stack.callback(os.close, theirs)
            path.symlink_to(os.ttyname(theirs))
        elif kind == "endless device":
            path.symlink_to("/dev/zero")
        elif kind == "socket":
            bind(stack.enter_context(socket.socket(socket.AF_UNIX)), path)
        else:
            os.mkfifo(path)
            if kind == "pipe with a writer":
                stack.callback(os.close, os.open(path, os.O_RDWR))
        yield path


def bind(listening: socket.socket, path: Path) -> None:
    """Bind a Unix socket to a path of any length; the system takes 107 bytes at most."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
