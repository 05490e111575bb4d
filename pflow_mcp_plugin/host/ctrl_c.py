"""Ctrl-C in a program, from its first moment to its last.

Imports only `atexit` and `signal` besides what Python has already loaded, so that the handler is installed
early.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import time
from _collections_abc import Callable  # which is loaded at any start, unlike `collections`
from types import FrameType

EXIT_CODE = 130
"""The exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""
_IMPORTS = "<frozen importlib._bootstrap>"
"""The file that Python names in the frames of its import system; Ctrl-C waits for them to end."""
_LONGEST_HOLD = 1.0
"""Seconds after which an import is interrupted anyway: a module's code may take arbitrarily long."""
_NAP = 0.01
"""Seconds until a deferred Ctrl-C is sent again."""


class CtrlC:
    """Handles Ctrl-C: raises KeyboardInterrupt, but not during an import.

    An interrupted import can keep its lock, so that other threads wait for it forever; and a module's own
    code can turn KeyboardInterrupt into another exception while it is imported.
    """

    def __init__(self) -> None:
        self.raised = False  # True once KeyboardInterrupt was raised, even if it was caught later
        self.over = False  # True once the program has finished its work: Ctrl-C then ends it immediately
        self._hold_until: float | None = None

    def take(self) -> None:
        """Take over Ctrl-C from now on, unless it is ignored or has another handler."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
            # At its very end the interpreter restores the default action, which would kill a program that is
            # done. Registered first, this runs after all other exit handlers.
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        if self.over:
            os._exit(EXIT_CODE)
        now = time.monotonic()
        self._hold_until = self._hold_until or now + _LONGEST_HOLD
        held = now <= self._hold_until and _imports(frame)
        if held and begin_thread(_interrupt_again, _thread.get_ident()):
            return
        self._hold_until = None
        self.raised = True
        raise KeyboardInterrupt


def interrupted() -> bool:
    """Return whether Ctrl-C was pressed; False if the program does not handle it with `CtrlC`."""
    taker = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return isinstance(taker, CtrlC) and taker.raised


def begin_thread(function: Callable[..., None], *arguments: object) -> bool:
    """Begin a thread for Ctrl-C or the program's end, and wait until it runs; False if no more can start.

    A `threading.Thread` needs locks, which interrupted code may hold. Python 3.13 may crash if it ends while
    another thread is starting.
    """
    begun = _thread.allocate_lock()
    begun.acquire()

    def run() -> None:
        begun.release()
        function(*arguments)

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:
        return False
    begun.acquire()
    return True


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
    else:  # this also ends a blocking system call
        signal.pthread_kill(main_thread, signal.SIGINT)
