"""An estimate of how long the rest of a batch takes, which does not jump."""

from __future__ import annotations

import math

from pflow_mcp_plugin.contract.human_units import duration_text

_EARLIEST = 2.0
"""Seconds until there is an estimate."""
_FIRST_ITEMS = 1.0
"""Seconds after the first end of an item; those that end with it count too."""
_OVERDUE = 2.0
"""Seconds after the expected end when there is no estimate any more, until a further item ends."""
_SMOOTHING = 4.0
"""Seconds in which the estimate follows a change by two thirds; fewer in the beginning."""


class RemainingTime:
    """Estimates when all items of a batch will have ended, from the average of those that have.

    Parallel items end in bursts: so the average reaches to the last end of an item only, it is looked at
    when the estimate is shown rather than when an item ends, and the estimate follows it slowly.

    Args:
        began: The time when the first item began, in seconds.
    """

    def __init__(self, began: float) -> None:
        self._began = began
        self._first: float | None = None
        self._expected = began
        self._at = began
        self._end: float | None = None

    def update(self, done: int, total: int, now: float) -> None:
        """Take note of how many items have ended."""
        if done:
            self._first = now if self._first is None else self._first
            self._expected = now + (total - done) * (now - self._began) / done

    def text(self, now: float) -> str:
        """Return the remaining time in words, rounded; empty as long as it is not known."""
        if self._first is None or now < max(self._began + _EARLIEST, self._first + _FIRST_ITEMS):
            return ""
        if now > self._expected + _OVERDUE:
            self._end = None
            return ""
        if self._end is None:
            self._end = self._expected
        pace = min(_SMOOTHING, (now - self._began) / 3)
        self._end += (1 - math.exp((self._at - now) / pace)) * (self._expected - self._end)
        self._at = now
        seconds = self._end - now
        step = 1 if seconds < 10 else 5 if seconds < 60 else 30 if seconds < 600 else 60
        rounded = max(1, round(seconds / step)) * step
        return f"{rounded} s left" if rounded < 60 else f"{duration_text(rounded * 1000)} left"
