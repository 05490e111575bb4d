"""Dates in expressions: texts in the forms of ISO 8601 and of mail headers, and patterns such as `%d.%m.%Y`.

Errors contain no data, as those of all functions.
The names of months and days are English whatever the locale, so `strftime` and `strptime` are not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from pflow_mcp_plugin.contract import PflowError

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DATE_ONLY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LONGEST = 100
"""The most characters of a text that is a date."""


def _names(names: Sequence[str], length: int = 10) -> str:
    return "|".join(name[:length] for name in names)


_DIRECTIVES: Mapping[str, tuple[str, Callable[[datetime], str]]] = {
    "Y": (r"\d{4}", lambda it: f"{it.year:04}"),
    "y": (r"\d\d", lambda it: f"{it.year % 100:02}"),
    "m": (r"\d\d?", lambda it: f"{it.month:02}"),
    "d": (r"\d\d?", lambda it: f"{it.day:02}"),
    "H": (r"\d\d?", lambda it: f"{it.hour:02}"),
    "I": ("0?[1-9]|1[0-2]", lambda it: f"{it.hour % 12 or 12:02}"),
    "M": (r"\d\d?", lambda it: f"{it.minute:02}"),
    "S": (r"\d\d?", lambda it: f"{it.second:02}"),
    "f": (r"\d{1,6}", lambda it: f"{it.microsecond:06}"),
    "p": ("AM|PM", lambda it: "PM" if it.hour >= 12 else "AM"),
    "B": (_names(_MONTHS), lambda it: _MONTHS[it.month - 1]),
    "b": (_names(_MONTHS, 3), lambda it: _MONTHS[it.month - 1][:3]),
    "A": (_names(_DAYS), lambda it: _DAYS[it.weekday()]),
    "a": (_names(_DAYS, 3), lambda it: _DAYS[it.weekday()][:3]),
    "j": (r"\d{1,3}", lambda it: f"{it.timetuple().tm_yday:03}"),
    "z": (r"Z|[+-]\d\d:?\d\d", lambda it: re.sub(r"(?<=\d\d):", "", it.isoformat()[-6:])),
    "%": ("%", lambda _: "%"),
}
"""The pattern that each directive matches, and the text that it writes."""


def problem(message: str, step: str = "") -> PflowError:
    """Return an error about a date, or a date form, that contains no data; other functions use it too."""
    return PflowError(message, suggestions=(step,) if step else ())


def this_moment() -> str:
    """Return the current date and time in UTC, to the second, as `now()` gives it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_date(function: str, text: str) -> datetime:
    """Read a date from text in ISO 8601 or as in mail headers; without an offset it is UTC."""
    from email.utils import parsedate_to_datetime

    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = read(text.strip()) if len(text) <= _LONGEST else None
        except (ValueError, TypeError, OverflowError):
            continue
        # In mail headers Python skips a word such as PM, as an unknown time zone.
        if found is not None and not (found.tzinfo is None and text.strip()[-1:].isalpha()):
            # Python accepts offsets with seconds, which ISO 8601 does not have.
            minutes = (found.utcoffset() or timedelta()) // timedelta(minutes=1)
            return found.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    raise problem(
        f"{function}() was given text that is not a date", "Name its form: parse_date(text, '%d.%m.%Y')"
    )


def parsed_date(text: str, form: str) -> datetime:
    """Read a date from text in a `strptime` form; without an offset it is UTC."""
    given: list[str] = []

    def pattern(name: str) -> str:
        given.append(name)
        return f"({_DIRECTIVES[name][0]})"

    wanted = _filled(form, "parse_date", pattern, re.escape)
    if not {"Y", "y"} & {*given}:
        raise problem("parse_date() was given a form without a year", "Add %Y")
    if len({*given}) < len(given) - given.count("%"):
        raise problem("parse_date() was given a form that names something twice", "Name it once")
    found = re.fullmatch(wanted, text.strip(), re.ASCII | re.IGNORECASE) if len(text) <= _LONGEST else None
    if found is None:
        step = "A form such as '%d.%m.%Y %H:%M' matches the whole text"
        raise problem("parse_date() was given text that does not have this form", step)
    parts = dict(zip(given, found.groups(), strict=True))
    try:
        return _date_of(parts)
    except (ValueError, OverflowError) as error:
        message = "parse_date() was given text of this form that is not a date"
        raise problem(message, "No month has a day 32, and no day an hour 25") from error


def _date_of(parts: Mapping[str, str]) -> datetime:
    def number(name: str, otherwise: int) -> int:
        return int(parts.get(name, otherwise))

    short = number("y", 0)
    year = number("Y", short + (2000 if short < 69 else 1900))
    month = next((_MONTHS_BY_NAME[parts[it][:3].lower()] for it in "Bb" if it in parts), number("m", 1))
    hour = number("H", number("I", 0) % 12 + 12 * (parts.get("p", "").upper() == "PM"))
    digits = parts.get("z", "Z").upper().replace(":", "").replace("Z", "+0000")
    offset = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:])) * (-1 if digits[0] == "-" else 1)
    found = datetime(
        year,
        month,
        number("d", 1),
        hour,
        number("M", 0),
        number("S", 0),
        int(parts.get("f", "0").ljust(6, "0")),
        tzinfo=timezone(offset),
    )
    found += timedelta(days=number("j", 1) - 1)
    return found if found.year == year else found.replace(day=0)  # a ValueError


_MONTHS_BY_NAME = {name[:3].lower(): number for number, name in enumerate(_MONTHS, 1)}


def formatted_date(text: str, form: str) -> str:
    """Return a date in a `strftime` form, with the directives that every system has."""
    moment = read_date("format_date", text)
    return _filled(form, "format_date", lambda name: _DIRECTIVES[name][1](moment), str)


def _filled(form: str, function: str, directive: Callable[[str], str], plain: Callable[[str], str]) -> str:
    parts = re.split(r"%(.?)", form, flags=re.DOTALL)
    if not _DIRECTIVES.keys() >= {*parts[1::2]}:
        known = ", ".join(f"%{name}" for name in _DIRECTIVES)
        message = f"{function}() was given a form with a directive that it does not know"
        raise problem(message, f"The directives are {known}")
    return "".join(directive(part) if at % 2 else plain(part) for at, part in enumerate(parts))


def days_later(text: str, days: Any) -> str:
    """Return a date some days later, or earlier if they are negative; one without a time stays one."""
    try:
        if not _DATE_ONLY.fullmatch(text.strip()):
            return (read_date("add_days", text) + timedelta(days=days)).isoformat()
        if days == int(days):
            return (date.fromisoformat(text.strip()) + timedelta(days=int(days))).isoformat()
    except (OverflowError, ValueError) as error:
        raise problem("add_days() leads to no date", "Years are from 1 to 9999") from error
    message = "add_days() was given a date without a time, and a fraction of a day"
    raise problem(message, "Give it a time first: parse_date(date)")
