"""Live lines at the bottom of a terminal, redrawn to show what happens now, below the lines that stay."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from pflow_mcp_plugin.terminal.looks import Part, columns_of, line_of, moves_cursor, wants_colours

SOON = 0.25
"""Seconds until something that lasts is shown; what ends sooner does not flicker."""
_TICK = 0.1
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_USUAL_ROWS = 24


class LiveLines:
    """Draws live lines about what happens now, and writes the lines that stay above them; thread-safe.

    While nothing is written, the cursor stands in the first of the drawn lines, behind the spinner. So all of
    them can be erased from there, even after the terminal was made narrower, or `^C` was typed.

    `now` returns the lines about what happens now; it is called with the `lock` held, as all writing is.
    If the stream is no `terminal`, or its cursor cannot be moved, only the lines that stay are written.
    """

    def __init__(
        self, stream: IO[str], now: Callable[[], Iterable[Sequence[Part]]], *, terminal: bool = True
    ) -> None:
        self._stream = stream
        self._now = now
        self._terminal = terminal
        self._coloured = terminal and wants_colours()
        self.lock = threading.RLock()  # reentrant: a warning may be reported while a line is being written
        self._over = threading.Event()
        self._broken = False
        self._drawn = False

    @property
    def columns(self) -> int | None:
        """The width of a line that stays above the live lines; None if lines are not cut."""
        return columns_of(self._stream) if self._terminal else None

    @property
    def rows(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).lines or _USUAL_ROWS
        except (OSError, ValueError):
            return _USUAL_ROWS

    def start(self) -> None:
        if self._terminal and moves_cursor():
            threading.Thread(target=self._draw_often, name="live lines", daemon=True).start()

    def keep(self, parts: Iterable[Part], *, whole: bool = False) -> None:
        with self.lock:
            line = line_of(parts, None if whole else self.columns, coloured=self._coloured)
            self._write(f"{self._erased()}{line}\n")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Erase the live lines while something else writes to the terminal, and draw them again."""
        with self.lock:
            self._write(self._erased())
            yield

    def close(self) -> None:
        self._over.set()
        with self.lock:
            self._write(self._erased())

    def _draw_often(self) -> None:
        while not self._over.wait(_TICK):
            with self.lock:
                lines = self._lines()
                if self._over.is_set():
                    return
                if not lines:
                    self._write(self._erased())
                    continue
                # Over those drawn before; erasing these first would flicker.
                self._drawn = True
                up = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
                self._write("\r" + "\x1b[K\n".join(lines) + f"\x1b[J{up}\r\x1b[C")

    def _lines(self) -> list[str]:
        columns = self.columns
        room = None if columns is None else columns - 1  # in the last column, some terminals begin a new line
        parts = [*self._now()]
        most = max(self.rows - 1, 1)
        if len(parts) > most:
            parts[most - 1 :] = [[("  ", ""), (f"and {len(parts) - most + 1} more", "dim")]]
        return [line_of(each, room, coloured=self._coloured) for each in parts]

    def _erased(self) -> str:
        drawn, self._drawn = self._drawn, False
        return "\r\x1b[J" if drawn else ""

    def _write(self, text: str) -> None:
        if not text or self._broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal was closed
            self._broken = True


def spinner() -> str:
    """Return the current character of the spinner in the live lines."""
    return _SPINNER[int(time.monotonic() / _TICK) % len(_SPINNER)]
