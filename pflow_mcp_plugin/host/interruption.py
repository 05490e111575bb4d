"""Ctrl-C, and the exceptions that come in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pflow_mcp_plugin.host import ctrl_c


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Let Ctrl-C out as KeyboardInterrupt, also where another exception took its place."""
    try:
        yield
    except Exception as error:
        end_if_interrupted(error)
        raise


def end_if_interrupted(error: BaseException) -> None:
    """Raise KeyboardInterrupt if an exception came up while one was on its way.

    Within `threading.Condition.wait`, by which futures, events and new threads wait, Ctrl-C can come out
    as "RuntimeError: release unlocked lock"; and anyone's code may wrap all that it catches. C code may
    drop it without a trace: what fails in a program after Ctrl-C was pressed fails because of it.
    """
    if ctrl_c.interrupted():
        raise KeyboardInterrupt from error
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        if isinstance(current, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        seen.add(id(current))
        pending += (current.__context__, current.__cause__)
