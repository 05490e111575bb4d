"""Ctrl-C as a program takes it, from its first moment to its last.

Imports nothing that Python has not loaded by then, but for `signal`: it must be there early.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
from types import FrameType

EXIT_CODE = 130
_IMPORTS = "<frozen importlib._bootstrap>"
"""The file that Python names in the frames of its import system."""
_LONGEST_HOLD = 1.0
"""Seconds after which an import is broken off all the same: the module may do anything."""
_NAP = 0.01


class CtrlC:
    """Raises KeyboardInterrupt for Ctrl-C, though not in the middle of an import.

    An import that is broken off can keep its lock for good, so that other threads wait for it for
    ever; and what a module does while it is imported can turn KeyboardInterrupt into another exception.

    Attributes:
        raised: Whether there was a KeyboardInterrupt, whatever became of it.
        over: Whether the program has done its work: Ctrl-C then ends it at once.
    """

    def __init__(self) -> None:
        self.raised = False
        self.over = False
        self._hold_until: float | None = None

    def take(self) -> None:
        """Take Ctrl-C from now on, unless it is ignored or somebody else's."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        if self.over:
            os._exit(EXIT_CODE)
        if self._held(frame):
            return
        self._hold_until = None
        self.raised = True
        raise KeyboardInterrupt

    def _held(self, frame: FrameType | None) -> bool:
        """Put Ctrl-C off for a moment if it came within an import."""
        now = time.monotonic()
        self._hold_until = self._hold_until or now + _LONGEST_HOLD
        if now > self._hold_until or not _imports(frame):
            return False
        try:
            # One of threading's would need locks, which the interrupted code may hold.
            _thread.start_new_thread(_interrupt_again, (_thread.get_ident(),))
        except RuntimeError:
            return False
        return True


def interrupted() -> bool:
    """Return whether Ctrl-C was pressed in this program, if it takes Ctrl-C as above."""
    taker = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return isinstance(taker, CtrlC) and taker.raised


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            return True
        frame = frame.f_back
    return False


def _interrupt_again(main_thread: int) -> None:
    time.sleep(_NAP)
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:  # this also ends a wait for the system
        signal.pthread_kill(main_thread, signal.SIGINT)
