"""Shows the progress of calls: one line on a terminal, and a note in the trace."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.printable_text import printable
from pflow_mcp_plugin.exchange import ToolCall

if TYPE_CHECKING:
    from rich.status import Status

_LONGEST = 60


class CallProgress:
    """Shows the progress that servers report during calls; a context manager that removes its line on exit.

    Args:
        annotate: Called with a node's id and details of its step.
        report: Called with a node's id, the amount done, the amount in total if known, and a message.
        on_terminal: Whether to show a line; by default, whether standard error is a terminal.
    """

    def __init__(
        self,
        annotate: Callable[[str, JSONObject], None],
        report: Callable[[str, float, float | None, str], None] = lambda *_: None,
        *,
        on_terminal: bool | None = None,
    ) -> None:
        self._annotate = annotate
        self._report = report
        self._on_terminal = _stderr_is_terminal() if on_terminal is None else on_terminal
        self._lock = threading.Lock()
        self._status: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._on_terminal = False  # a late report must not start the line again
            if self._status is not None:
                self._status.stop()

    def __call__(self, call: ToolCall, done: float, total: float | None, text: str | None) -> None:
        """Show the progress of a call, and note it in the trace.

        Args:
            call: The call.
            done: Amount done so far.
            total: Amount in total, if known.
            text: Message of the server, if any.
        """
        if call.node_id:
            self._annotate(call.node_id, {"progress": {"done": done, "total": total, "message": text}})
            self._report(call.node_id, done, total, shortened(text))
        with self._lock:
            if self._on_terminal:
                self._show(line(call, done, total, text))

    def _show(self, words: str) -> None:
        from rich.markup import escape

        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status("")
            self._status.start()
        self._status.update(escape(words))  # the server's message could contain rich's markup


def _stderr_is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # None after `2>&-`


def line(call: ToolCall, done: float, total: float | None, text: str | None) -> str:
    """Return the line about the progress of a call, printable.

    Args:
        call: The call.
        done: Amount done so far.
        total: Amount in total, if known.
        text: Message of the server; it is shortened.
    """
    far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    said = shortened(text)
    return f"{shortened(call.node_id or call.tool)}: {far}" + (f", {said}" if said else "")


def shortened(text: str | None) -> str:
    """Return a name, or a server's message about the progress of a call, in one short printable line."""
    shown = (text or "")[: 2 * _LONGEST]
    return " ".join(printable(shown).split())[:_LONGEST]
