"""The ticks of a time axis: few, and at round times."""

from __future__ import annotations

from pflow_mcp_plugin.terminal.human_units import duration_text

_MOST = 5
"""Ticks after the first, at 0."""
_MINUTE, _HOUR, _DAY = 60_000.0, 3_600_000.0, 86_400_000.0
_STEPS = (
    *(digit * 10.0**power for power in range(-3, 4) for digit in (1, 2, 5)),
    *(10_000.0, 15_000.0, 30_000.0),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
)
"""The distances between ticks, in milliseconds: round in the unit that they are read in."""


def ticks(length: float) -> list[tuple[float, str]]:
    """Return the ticks of an axis of some milliseconds: where each one is, from 0 to 1, and its text."""
    step = next((it for it in _STEPS if length / it <= _MOST), 0.0)
    if not step:
        days = length / _DAY
        step = _DAY * max(1, -(-days // _MOST))
    count = int(length / step * (1 + 1e-9))
    return [(number * step / length, _text(number * step, step)) for number in range(count + 1)]


def _text(milliseconds: float, step: float) -> str:
    if not milliseconds:
        return "0"
    if step < 1:
        return f"{milliseconds:g} ms"
    if 1_000 <= milliseconds < _MINUTE:
        return f"{milliseconds / 1_000:g} s"
    return duration_text(milliseconds)
