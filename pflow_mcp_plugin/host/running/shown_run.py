"""What a run shows of itself: meanwhile, if somebody watches at a terminal, and in its report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import Outcome, Report
from pflow_mcp_plugin.host.running.trace_recorder import RunWatcher
from pflow_mcp_plugin.host.standard_streams import is_terminal, to_json

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


def outcome_report(outcome: Outcome) -> Report:
    """Return the report of `pflow run` on an outcome."""
    return Report(
        data={"outputs": dict(outcome.outputs), "run_id": outcome.run_id},
        text=lambda: outputs_text(outcome),
        is_data=True,
        error=outcome.error,
        beside={
            "trace_path": None if outcome.trace_path is None else str(outcome.trace_path),
            **({} if outcome.error is None else {"checkpoint": dict(outcome.checkpoint)}),
        },
        exit_code=outcome.exit_code,
    )


def outputs_text(outcome: Outcome) -> str:
    """Return the outputs as `pflow run` prints them; a single one without its name, for use in scripts."""
    if len(outcome.outputs) == 1:
        return printed(*outcome.outputs.values())
    if outcome.outputs:
        return "\n".join(f"{name}: {printed(value)}" for name, value in outcome.outputs.items())
    return f"Done, {outcome.steps} steps" if outcome.success else ""


def printed(value: object) -> str:
    """Return an output of a run as it is printed: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value)
