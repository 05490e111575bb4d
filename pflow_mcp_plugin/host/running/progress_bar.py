"""A progress bar for a batch: on standard error, and only if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pflow_mcp_plugin.host.standard_streams import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

_SOON = 0.5
"""Seconds until the bar appears; a shorter batch needs none."""


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar while items run; call the function that this yields after each of them."""
    if not is_terminal(sys.stderr):
        yield lambda: None
        return
    bar = _Bar(label, total)
    try:
        yield bar.advance
    finally:
        bar.close()


class _Bar:
    """A bar that appears after `_SOON`; rich is imported only then."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._shown: Progress | None = None

    def advance(self) -> None:
        """Move the progress bar on by one finished item."""
        self._done += 1
        if self._shown is None and time.monotonic() - self._began > _SOON:
            self._shown = self._open()
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=self._done)

    def close(self) -> None:
        """Remove the progress bar."""
        if self._shown is not None:
            with suppress(OSError):  # the terminal was closed
                self._shown.stop()

    def _open(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        shown = Progress(*columns, console=Console(stderr=True), transient=True)
        # Brackets in a label are not markup.
        shown.add_task(self._label.replace("[", "\\["), total=self._total)
        shown.start()
        return shown
