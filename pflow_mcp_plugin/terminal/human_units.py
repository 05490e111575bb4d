"""Counts, lists, durations and ages as people read them; JSON has numbers and ISO 8601 times instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_MOST_DAYS = 365
_RECENT_DAYS = 30
"""The days for which an age is shown; older times are shown as a date."""


DURATION = r"(?a)(\d{1,12}(?:\.\d{1,6})?)([smhd])?"
_UNITS = {"s": 1, "m": _MINUTE, "h": _HOUR, "d": _DAY}


def seconds_in(text: str) -> float:
    """Return the seconds in a duration as people type it, at most a year; ValueError says what is wrong."""
    match = re.fullmatch(DURATION, text)
    if match is None:
        raise ValueError(f"{text!r} is not a time such as 90s, 15m, 1h or 2d")
    seconds = float(match[1]) * _UNITS[match[2] or "s"]
    if seconds > _MOST_DAYS * _DAY:
        raise ValueError(f"{text} is longer than {_MOST_DAYS} days")
    return seconds


def count_text(count: int, noun: str) -> str:
    """Return a count for people, such as `1 tool` or `2,500 tools`; the plural of `noun` ends with `s`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def names_text(names: Sequence[str], most: int) -> str:
    """Return names listed for people, such as `a, b and 3 more`: the first of them, at most `most`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration_text(milliseconds: float) -> str:
    """Return a duration for people, such as `12 ms`, `4.7 s`, `2 min 5 s` or `3 h 20 min`."""
    seconds = milliseconds / 1_000
    if milliseconds < 1:
        return "0 ms" if milliseconds <= 0 else "<1 ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    large, first, small, second = _DAY, "d", _HOUR, "h"
    if whole < _HOUR:
        large, first, small, second = _MINUTE, "min", 1, "s"
    elif whole < 2 * _DAY:
        large, first, small, second = _HOUR, "h", _MINUTE, "min"
    rest = whole % large // small
    return f"{whole // large} {first}" + (f" {rest} {second}" if rest else "")


def running_text(seconds: float) -> str:
    """Return the duration so far of what still runs, such as `0.4 s`; its unit stays for a minute."""
    return f"{seconds:.1f} s" if seconds < _MINUTE else duration_text(seconds * 1_000)


def age_text(moment: datetime | str, now: datetime | None = None) -> str:
    """Return how long ago a moment was for people, such as `2 min ago`; its date after more than 30 days."""
    from datetime import UTC, datetime

    try:
        then = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        return str(moment)
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds >= _RECENT_DAYS * _DAY or seconds < -_MINUTE:
        return then.astimezone().strftime("%Y-%m-%d")
    for unit, word in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {word} ago"
    return "just now" if seconds < 10 else f"{int(seconds)} s ago"
