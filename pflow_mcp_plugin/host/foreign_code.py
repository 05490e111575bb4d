"""The one way in which the host calls code that is not its own: that of plugins and of nodes.

Such code may raise anything, even what is not an `Exception` (`SystemExit`, `asyncio.CancelledError`,
`GeneratorExit`, `BaseExceptionGroup`), and exceptions that cannot be formatted. Only KeyboardInterrupt, and
whatever replaces it on its way, is an interruption; everything else is a failure of that code. While it runs,
the signals that end a program interrupt it, too.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.problems import is_interruption
from pflow_mcp_plugin.host import ctrl_c


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Call foreign code in the block: if interrupted, it ends in KeyboardInterrupt whatever it raises."""
    try:
        yield
    except BaseException as error:
        if not _is_abandoned(error):
            end_if_interrupted(error)
        raise


def end_if_interrupted(error: BaseException) -> None:
    """Raise KeyboardInterrupt if foreign code failed because it was interrupted, whatever its error's class.

    Inside `threading.Condition.wait`, on which futures, events and new threads wait, Ctrl-C can surface as
    "RuntimeError: release unlocked lock"; other code may wrap whatever it catches, even in an exception
    group; and C code may drop it without a trace. So any failure after Ctrl-C was pressed counts as caused by
    it.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error
    if ctrl_c.interrupted() or is_interruption(error):
        raise KeyboardInterrupt from error


@contextmanager
def foreign_code(
    failure: Callable[[BaseException], PflowError], *, passing: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Call foreign code inside the `with` block; what it raises becomes a failure of the host's.

    `failure` returns the error to raise, which names whose code it was. KeyboardInterrupt passes, and so do
    the exceptions in `passing`.
    """
    try:
        yield
    except BaseException as error:  # foreign code may raise anything
        if _is_abandoned(error):
            raise
        try:
            if isinstance(error, PflowError):
                _read(error)
        except BaseException as unreadable:
            end_if_interrupted(unreadable)
            raise failure(unreadable) from unreadable
        if isinstance(error, passing):
            raise
        end_if_interrupted(error)
        raise failure(error) from error


def _is_abandoned(error: BaseException) -> bool:
    """Whether garbage collection ends a block of foreign code that Ctrl-C kept from being entered or left."""
    return isinstance(error, GeneratorExit) and not (error.__traceback__ and error.__traceback__.tb_next)


def _read(error: PflowError) -> None:
    """Read the needed fields of an error from foreign code: its class may override them, and raise."""
    texts = (str(error), error.message, error.action, *error.suggestions)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{type(error).__name__} has fields of the wrong type")
    _ = error.to_dict(), error.exit_code


# Windows has no SIGHUP.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class EndingSignals:
    """Ends the call of foreign code in the block with KeyboardInterrupt at the first SIGTERM or SIGHUP.

    Later ones are ignored, and so are all once the run is `over` and its outcome is being recorded. Only in
    the main thread, and only for a signal that would end the program: one that is ignored, as SIGHUP is under
    `nohup`, or that the program handles itself, is left alone. `exit_code` is that of a program ended by the
    received signal, None if there was none.
    """

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.over = False
        self._taken: list[signal.Signals] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # Python sets handlers in the main thread only.
            self._taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
        for number in self._taken:
            signal.signal(number, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        # Once only: `timeout` and shells send theirs twice, and the second must not interrupt the clean-up.
        if not self.over:
            self.over = True
            # The shell's convention for a program ended by a signal.
            self.exit_code = 128 + number
            raise KeyboardInterrupt
