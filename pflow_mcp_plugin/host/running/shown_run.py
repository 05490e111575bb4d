"""Runs a workflow and shows it meanwhile, if somebody watches at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import Outcome
from pflow_mcp_plugin.host.running.trace_recorder import RunWatcher
from pflow_mcp_plugin.host.standard_streams import is_terminal

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.running.terminal_display import Detail, State

Around = Callable[[Callable[[], AbstractContextManager[None]]], AbstractContextManager[None]]
"""Lets what the host reports meanwhile be written inside the context that it is given."""


@contextmanager
def shown_run(
    names: Sequence[str], detail: Detail | None, around: Around
) -> Iterator[tuple[RunWatcher, Callable[[Outcome], None]]]:
    """Show a run on standard error, if that is a terminal; `verbose` shows it as plain lines elsewhere too.

    Args:
        names: The ids of its nodes.
        detail: How much to show; None for nothing.
        around: Coordinates warnings with what is shown.

    Yields:
        What follows the run, and what to call with its outcome.
    """
    terminal = is_terminal(sys.stderr)
    if detail is None or not (terminal or detail == "verbose") or sys.stderr is None:
        yield RunWatcher(), lambda _: None
        return
    from pflow_mcp_plugin.host.running.terminal_display import display_on

    display = display_on(sys.stderr, names, detail, terminal=terminal)

    def ended(outcome: Outcome) -> None:
        display.close()
        error = outcome.error
        state: State = "succeeded"
        if error is not None:
            state = "interrupted" if error.kind == "interrupted" else "failed"
        # The report of a failure names the trace itself.
        display.summarize(state, _shortened(outcome.trace_path) if error is None else "")

    with around(display.paused):
        display.start()
        try:
            yield display, ended
        finally:
            display.close()


def _shortened(path: Path | None) -> str:
    """Return a path as a shell takes it, with `~` for the home folder."""
    if path is None:
        return ""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
