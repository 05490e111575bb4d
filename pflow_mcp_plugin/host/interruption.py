"""KeyboardInterrupt, and the exceptions that replace it on its way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
