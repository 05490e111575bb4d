"""A terminal of a certain size in which a program runs, and what is left on its screen."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = 60
_PIECES = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|[\r\n]|[^\x1b\r\n]+")


class Screen:
    """A program on a terminal.

    Args:
        arguments: Those of `pflow`.
        home: `$PFLOW_HOME`.
        columns: The width of the terminal.
        env: Further variables.
        cwd: Where it runs.
        piped: Whether standard output goes to a pipe, so that only standard error is a terminal.

    Attributes:
        shown: All that was written to the terminal.
        stdout: All that was written to the pipe.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        home: Path,
        *,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        piped: bool = False,
    ) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        self.program = subprocess.Popen(
            [sys.executable, "-P", "-m", "pflow_mcp_plugin", *arguments],
            env={**inherited, "PFLOW_HOME": str(home), "TERM": "xterm", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else theirs,
            stderr=theirs,
            cwd=cwd,
        )
        os.close(theirs)
        self.shown = ""
        self.stdout = ""

    def until(self, pattern: str) -> Screen:
        """Wait until the terminal has shown what matches a pattern."""
        deadline = time.monotonic() + SECONDS
        while not re.search(pattern, self.shown):
            assert self._read(deadline - time.monotonic()), self.shown
        return self

    def interrupt(self) -> Screen:
        """Press Ctrl-C."""
        self.program.send_signal(signal.SIGINT)
        return self

    def end(self) -> int:
        """Wait for the end of the program and return its exit code."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline - time.monotonic()):
            pass
        os.close(self._ours)
        if self.program.stdout is not None:
            self.stdout = self.program.stdout.read().decode()
            self.program.stdout.close()
        return self.program.wait(SECONDS)

    @property
    def lines(self) -> list[str]:
        """What is left on the screen; a line is never too long for it."""
        return screen_lines(self.shown)

    def _read(self, seconds: float) -> bool:
        assert seconds > 0, self.shown
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            part = os.read(self._ours, 65536)
        except OSError:  # how Linux tells that the other end is closed
            return False
        self.shown += part.decode(errors="replace")
        return bool(part)


def screen_lines(shown: str) -> list[str]:
    """Return the lines that a terminal shows in the end: moves and erasing are followed."""
    lines, row, column = [""], 0, 0
    for piece in _PIECES.finditer(shown):
        text = piece.group()
        if text == "\r":
            column = 0
        elif text == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif piece.group(2) == "A":
            row = max(0, row - int(piece.group(1) or 1))
        elif piece.group(2) == "C":
            column += int(piece.group(1) or 1)
        elif piece.group(2) == "K":
            lines[row] = lines[row][:column]
        elif piece.group(2) == "J":
            lines = [*lines[:row], lines[row][:column]]
        elif piece.group(2) is None:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
    return lines[:-1] if lines[-1] == "" else lines
