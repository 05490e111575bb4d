"""A terminal of a certain size in which a program runs, and what is left on its screen."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import prepared_starts

SECONDS = 60
_WIDE = 500
"""Columns of a terminal on which no line that a test looks for is broken."""
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
        typed: Whether standard input is the terminal, too, at which somebody types.

    Attributes:
        shown: All that was written to the terminal.
        stdout: All that was written to the pipe.
    """

    def __init__(
        self,
        arguments: Sequence[str | Path],
        home: Path,
        *,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        piped: bool = False,
        typed: bool = False,
    ) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        self.program = prepared_starts.start(
            arguments,
            env={**inherited, "PFLOW_HOME": str(home), "TERM": "xterm", **(env or {})},
            stdin=theirs if typed else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else theirs,
            stderr=theirs,
            cwd=cwd,
            start_new_session=typed,
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
            self.stdout = self.program.stdout.read()
            self.program.stdout.close()
        return self.exit_code

    def answer(self, answers: Mapping[str, str], meanwhile: Callable[[], None]) -> None:
        """Type an answer after each question, until the program ends; every one of them must be asked.

        Args:
            answers: By the text that a question contains, what is typed after it.
            meanwhile: Called when a question is on the screen, before it is answered.
        """
        left, deadline = dict(answers), time.monotonic() + SECONDS
        while self._read(deadline - time.monotonic()):
            for question in [each for each in left if each in self.shown]:
                if self.shown.endswith((": ", "?")):
                    meanwhile()
                    os.write(self._ours, f"{left.pop(question)}\n".encode())
        self.end()
        self.shown = self.shown.replace("\r\n", "\n")
        assert not left, self.shown

    @property
    def exit_code(self) -> int:
        """How the program ended."""
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


def run_on_terminal(
    *arguments: str | Path,
    home: Path,
    answers: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    started: Callable[[int], None] = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Screen:
    """Run the program on a terminal with somebody who answers its questions; see `Screen.answer`.

    `started` is called with its process id.
    """
    screen = Screen(arguments, home, columns=_WIDE, env=environment, cwd=cwd, typed=True)
    started(screen.program.pid)
    try:
        screen.answer(answers or {}, meanwhile)
    finally:
        screen.program.kill()
        screen.program.wait()
    return screen


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
