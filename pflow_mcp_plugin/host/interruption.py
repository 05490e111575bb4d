"""KeyboardInterrupt, and the exceptions that replace it on its way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pflow_mcp_plugin.host import ctrl_c


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C where another exception replaced it on its way."""
    try:
        yield
    except Exception as error:
        end_if_interrupted(error)
        raise


def end_if_interrupted(error: BaseException) -> None:
    """Raise KeyboardInterrupt if it caused an exception that replaced it.

    Inside `threading.Condition.wait`, on which futures, events and new threads wait, Ctrl-C can surface
    as "RuntimeError: release unlocked lock"; other code may wrap whatever it catches; and C code may
    drop it without a trace. So any failure after Ctrl-C was pressed counts as caused by it.
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
