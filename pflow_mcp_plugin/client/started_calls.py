"""The calls of a pool as they begin, for a program that may cancel one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    OnStart = Callable[[Future[Any]], None]

_on_start: ContextVar[OnStart | None] = ContextVar("pflow_mcp_on_start", default=None)


@contextmanager
def watched(on_start: OnStart) -> Iterator[None]:
    """Have the function called with the future of each call that begins inside, in this context."""
    token = _on_start.set(on_start)
    try:
        yield
    finally:
        _on_start.reset(token)


def started(future: Future[Any]) -> None:
    """Tell the watcher of this context, if there is one, that a call begins."""
    on_start = _on_start.get()
    if on_start is not None:
        on_start(future)
