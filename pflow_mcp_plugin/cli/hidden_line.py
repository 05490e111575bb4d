"""A line that the user pastes and nobody may see afterwards, such as a URL with a code in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_MOST = 1 << 16
_ENDS = b"\r\n"
_END_OF_INPUT = 4
_ERASERS = (8, 127)


def read_hidden_line(ask: Callable[[], object]) -> str:
    """Return a line from standard input, which a terminal does not show; empty at the end of input.

    A terminal passes on lines of up to 1,024 bytes on some systems if it edits them; here, it does not.

    Args:
        ask: Prompts for the line. A line that is pasted as soon as it does is not shown either.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        ask()
        return "" if sys.stdin is None else sys.stdin.readline(_MOST).strip()
    try:
        import termios
    except ImportError:  # Windows
        from getpass import getpass

        ask()
        return getpass("")
    descriptor = sys.stdin.fileno()
    with _raw(termios, descriptor):
        ask()
        line = _line(descriptor)
    sys.stderr.write("\n")
    return line


def _line(descriptor: int) -> str:
    found = bytearray()
    while len(found) < _MOST:
        try:
            typed = os.read(descriptor, 4096)
        except OSError:  # the terminal is gone; not every system calls that an error
            typed = b""
        if not typed:
            return ""
        for byte in typed:
            if byte in _ENDS or byte == _END_OF_INPUT:
                return found.decode(errors="replace").strip()
            if byte in _ERASERS:
                del found[-1:]
            else:
                found.append(byte)
    return ""


@contextmanager
def _raw(termios: Any, descriptor: int) -> Iterator[None]:
    """Let a terminal pass on what is typed at once and not show it; Ctrl-C still interrupts."""
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
    termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
