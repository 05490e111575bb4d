"""The signals that end a program, handled like Ctrl-C while a workflow runs."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self

# Windows has no SIGHUP.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class EndingSignals:
    """While entered, handles the ending signals: the first SIGTERM or SIGHUP raises KeyboardInterrupt.

    Later ones are ignored. Only in the main thread, and only for a signal that would end the program:
    one that is ignored, as SIGHUP is under `nohup`, or that the program handles itself, is left alone.

    Attributes:
        exit_code: The exit code of a program ended by the signal received; None if none was received.
    """

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self._over = False
        self._taken: list[signal.Signals] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # Python sets handlers in the main thread only.
            self._taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
        for number in self._taken:
            signal.signal(number, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)

    def no_more(self) -> None:
        """Ignore ending signals from now on: the run is over, and its outcome is being recorded."""
        self._over = True

    def _end(self, number: int, _frame: FrameType | None) -> None:
        # Once only: `timeout` and shells send theirs twice, and the second must not interrupt the clean-up.
        if not self._over:
            self._over = True
            # The shell's convention for a program ended by a signal.
            self.exit_code = 128 + number
            raise KeyboardInterrupt
