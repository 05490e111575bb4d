"""Text that is JSON, and when it is taken for the value that it spells.

A text stays a text until something inside it is asked for. Where a template's path goes on into a
text, and where a list or an object is wanted (`batch.items`, a param of such a type), a text that
is a JSON object or array is read as one; any other is not. It makes no difference where the text
comes from.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

_BLANKS = " \t\n\r"


class Lossy(ValueError):
    """A JSON text says something that a Python value could not give back."""


def json_in(text: str, *, exact: bool = False) -> list[Any] | dict[str, Any] | None:
    """Return the object or array that a text spells, None if it spells neither.

    Args:
        text: Any text.
        exact: Whether a text that could not be given back as it is counts as none; for values
            that are handed on as a whole. See `loss`.
    """
    stripped = text.strip(_BLANKS)
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    try:
        value: list[Any] | dict[str, Any] = (_LOSSLESS if exact else _READER).decode(stripped)
    except (ValueError, RecursionError):
        return None
    return value


def loss(text: str) -> str:
    """Return what of a JSON text would be lost by reading it; empty if nothing, or if it is no JSON."""
    try:
        _LOSSLESS.decode(text)
    except Lossy as error:
        return str(error)
    except (ValueError, RecursionError):
        pass
    return ""


def exact_float(text: str) -> float:
    """Return the float that a number of JSON is.

    Raises:
        Lossy: There is none that is exactly it.
    """
    number = float(text)
    if not math.isfinite(number) or not _is_exactly(number, text):
        message = f"{text[:40]} is no exact float"
        raise Lossy(message)
    return number


def _is_exactly(number: float, text: str) -> bool:
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:  # an exponent that has no meaning
        return False


def _finite_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            message = f"key {key[:40]} stands twice"
            raise Lossy(message)
        members[key] = value
    return members


def _refuse(number: str) -> NoReturn:
    raise ValueError(number)


_READER = json.JSONDecoder(parse_float=_finite_float, parse_constant=_refuse)
_LOSSLESS = json.JSONDecoder(object_pairs_hook=_distinct, parse_float=exact_float, parse_constant=_refuse)
"""Refuses what Python could not give back: keys that stand twice, numbers that no float holds."""
