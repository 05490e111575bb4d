"""The one way in which the host calls code that is not its own: that of plugins and of nodes.

Such code may raise anything, also what is no `Exception` (`SystemExit`, `asyncio.CancelledError`,
`GeneratorExit`, `BaseExceptionGroup`), and exceptions that cannot be formatted. Only KeyboardInterrupt, and
what replaces it on its way, is an interruption; everything else is a failure of that code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.problems import is_interruption
from pflow_mcp_plugin.host import ctrl_c


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Let an interruption inside end in KeyboardInterrupt, whatever exception has replaced it."""
    try:
        yield
    except BaseException as error:
        end_if_interrupted(error)
        raise


def end_if_interrupted(error: BaseException) -> None:
    """Turn an exception back into KeyboardInterrupt if an interruption caused it.

    Inside `threading.Condition.wait`, on which futures, events and new threads wait, Ctrl-C can surface
    as "RuntimeError: release unlocked lock"; other code may wrap whatever it catches, also in an exception
    group; and C code may drop it without a trace. So any failure after Ctrl-C was pressed counts as caused
    by it.
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


def _read(error: PflowError) -> None:
    """Read the fields of an error that whoever shows it relies on; a subclass may override them."""
    texts = (str(error), error.message, error.action, *error.suggestions)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{type(error).__name__} has fields of the wrong type")
    _ = error.to_dict(), error.exit_code
