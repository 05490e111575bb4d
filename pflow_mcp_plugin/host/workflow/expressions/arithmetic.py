"""The arithmetic of expressions: which tokens are operators, and what they compute.

`*` is JMESPath's wildcard, and `-` begins its negative numbers, where a value may begin; after a value both
are operators.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.findings import shown

Token = dict[str, Any]

OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
BINDING_POWER: Mapping[str, int] = {"+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7}
"""More than that of comparisons, and less than that of whatever ends a projection, such as `[]`."""
UNARY = 8
"""The binding power of a minus before a value."""
_VALUE_ENDS = frozenset(
    {
        *("unquoted_identifier", "quoted_identifier", "literal", "number", "current", "root", "star"),
        *("flatten", "rbracket", "rparen", "rbrace"),
    }
)
_HYPHENATED = re.compile(r"(\.?)(?<!\w)([a-z_]\w*(?:-\w+)+)", re.ASCII | re.IGNORECASE)
_BITS = 1024
"""The most digits of a whole number; longer ones are beyond the range of a float."""


def with_operators(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens of an expression, with arithmetic told apart from wildcards and signs."""
    held: Token = {"type": ""}
    for token in tokens:
        kind, is_adjacent = token["type"], held.get("end") == token["start"]
        follows_value = held["type"] in _VALUE_ENDS
        if kind == "/" and held["type"] == "/" and is_adjacent:
            held = {**held, "type": "//", "value": "//", "end": token["end"]}
            continue
        if kind == "number" and held["type"] == "sign" and is_adjacent:
            held = {**token, "value": -token["value"], "start": held["start"]}
            continue
        if held["type"]:
            yield {**held, "type": "-"} if held["type"] == "sign" else held
        if kind == "star" and follows_value:
            kind = "*"
        elif kind == "-" and not follows_value:
            kind = "sign"
        held = {**token, "type": kind}
    yield held


def hyphenated(text: str) -> Mapping[str, str]:
    """Return where `-` is read as arithmetic but may be meant as a hyphen: each text, by its names.

    `read-file.content` is `read` minus the `content` of `file`, unless the name is in double quotes.
    """
    return {part: "".join(found) for found in _HYPHENATED.findall(text) for part in found[1].split("-")}


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is an operand of arithmetic; in Python, a bool is an int too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def calculated(sign: str, values: Sequence[Any], names: Sequence[str]) -> int | float:
    """Return the result of an arithmetic operator or a minus; `names` are the operands as written."""
    for value, name in zip(values, names, strict=True):
        if not is_number(value):
            found = f"{name} is {shown(value)}" if name else f"it was given {shown(value)}"
            hints = tuple(filter(None, steps(sign, [value])))
            raise PflowError(f"{sign} takes numbers, and {found}", suggestions=hints)
    try:
        result = OPERATORS[sign](*values) if len(values) == 2 else -values[0]
    except ZeroDivisionError:
        about = f": {names[1]} is 0" if names[1] else ""
        step = "Skip it where that is 0: with a condition, or with a filter, as in [?count != 0]"
        raise PflowError(f"{sign} divides by zero{about}", suggestions=(step,)) from None
    except OverflowError:
        result = math.inf
    if result.bit_length() > _BITS if isinstance(result, int) else not math.isfinite(result):
        raise PflowError(f"the result of {sign} is too large for a number")
    number: int | float = result
    return number


def steps(sign: str, values: Iterable[object]) -> Iterator[str]:
    """Yield what to write instead of arithmetic with values that are not numbers."""
    for value in values:
        if value is None:
            yield "Take a default: not_null(value, 0)"
            if sign == "-":
                yield 'A name with a hyphen is in double quotes, as in "read-file".content'
        elif isinstance(value, list):
            yield "Join lists with [one, other][]" if sign == "+" else ""
            yield f"For each item: map(&(size {sign} 2), items)"
        elif isinstance(value, str):
            yield "Join text with join('', [one, other])" if sign == "+" else ""
            yield "Make a number of it: to_number(value)"
