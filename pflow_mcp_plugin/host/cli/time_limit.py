"""The time limit of a run: `pflow run --timeout`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from pflow_mcp_plugin.contract import Outcome, PflowError, RunControl


class TimeLimit:
    """Cancels a run after a time.

    Args:
        seconds: The time; None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._expired = False
        self._control = RunControl()

    @contextmanager
    def counted(self) -> Iterator[RunControl]:
        """Yield the control of a run, which is cancelled if it lasts longer."""
        if self._seconds is None:
            yield self._control
            return
        timer = threading.Timer(self._seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield self._control
        finally:
            timer.cancel()

    def _expire(self) -> None:
        self._expired = True
        self._control.cancel()

    def explained(self, outcome: Outcome) -> Outcome:
        """Return the outcome of the run; a run that was stopped at the limit says so, with exit code 1."""
        if not self._expired or outcome.error is None or outcome.error.kind != "interrupted":
            return outcome
        error = PflowError(
            f"The run was stopped after {self._seconds:g} s, its time limit",
            details=outcome.error.details,
            suggestions=("To allow more time: --timeout", *outcome.error.suggestions),
            action="timeout",
            ran=outcome.error.ran,
        )
        return attrs.evolve(outcome, error=error, exit_code=1)
