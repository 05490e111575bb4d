"""Strings that hold JSON, and when they are parsed.

A string stays a string until something inside it is needed. Where a template's path continues into a
string, and where a list or an object is expected (`batch.items`, a param of such a type), a string
that holds a JSON object or array is parsed; any other is not. The origin of the string makes no
difference.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.findings import cut

_LONGEST_SCALAR = 4_000
"""Characters of a string, or a number, that is parsed on its own."""
_BLANKS = " \t\n\r"
"""The whitespace that JSON allows around a value; `str.strip` removes more."""


class Lossy(ValueError):
    """A JSON text holds something that a Python value would lose."""


def json_in(text: str, *, exact: bool = False) -> list[JSON] | dict[str, JSON] | None:
    """Return the JSON object or array that a string holds, None if it holds neither.

    Args:
        text: Any string.
        exact: Return None if parsing would lose something; for values that are passed on as a whole.
            See `loss`.
    """
    stripped = text.strip(_BLANKS)
    # Most strings are ruled out here, without parsing.
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    try:
        value: list[JSON] | dict[str, JSON] = (_LOSSLESS if exact else _READER).decode(stripped)
    except (ValueError, RecursionError):
        return None
    return value


def any_json_in(text: str) -> JSON:
    """Return the JSON value that a string holds, also a number or a string; None if it holds none."""
    found = json_in(text)
    if found is not None or len(text) > _LONGEST_SCALAR:
        return found
    try:
        scalar: JSON = _READER.decode(text.strip(_BLANKS))
    except (ValueError, RecursionError):
        return None
    return scalar


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without their ends; what follows the last end is one if it is not empty.

    Unlike `str.splitlines`, it takes only what ends the lines of files, and no further separators.
    """
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return found[:-1] if found[-1] == "" else found


def loss(text: str) -> str:
    """Return what parsing a JSON text would lose; empty if nothing, or if it is not JSON."""
    try:
        _LOSSLESS.decode(text)
    except Lossy as error:
        return str(error)
    except (ValueError, RecursionError):
        pass
    return ""


def exact_float(text: str) -> float:
    """Return a number in a JSON text as a float, if it is exact.

    Raises:
        Lossy: No float has exactly this value.
    """
    number = float(text)
    if not math.isfinite(number) or not _is_exactly(number, text):
        message = f"{cut(text)} is not exact as a float"
        raise Lossy(message)
    return number


def _is_exactly(number: float, text: str) -> bool:
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:  # an exponent beyond what Decimal accepts
        return False


def _finite_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else refuse_number(text)


def _distinct(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    members: dict[str, JSON] = {}
    for key, value in pairs:
        if key in members:
            message = f"duplicate key {cut(key)}"
            raise Lossy(message)
        members[key] = value
    return members


def refuse_number(number: str) -> NoReturn:
    """Refuse what Python's decoder takes for a number, but JSON does not, such as `NaN`.

    Raises:
        ValueError: Always.
    """
    raise ValueError(number)


# Python's decoder accepts NaN and Infinity, which are not JSON.
_READER = json.JSONDecoder(parse_float=_finite_float, parse_constant=refuse_number)
_LOSSLESS = json.JSONDecoder(
    object_pairs_hook=_distinct, parse_float=exact_float, parse_constant=refuse_number
)
"""Rejects what a Python value would lose: duplicate keys, and numbers that are not exact as a float."""
