"""The functions of expressions: those of JMESPath, and a few more.

Those that JMESPath's community edition has too have the same names and arguments. The table in
`docs/workflows.md` lists them all; a test compares the two.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import attrs
from jmespath import exceptions, functions

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES
from pflow_mcp_plugin.host.workflow.coercion import lines_of
from pflow_mcp_plugin.host.workflow.expressions.arithmetic import is_number
from pflow_mcp_plugin.host.workflow.expressions.dates import (
    days_later,
    formatted_date,
    parsed_date,
    problem,
    read_date,
    this_moment,
)
from pflow_mcp_plugin.host.workflow.findings import TYPE_WORDS, cut, shown
from pflow_mcp_plugin.storage.json_and_toml import Lossy, is_same, strict_json

RETURNS: Mapping[str, str] = {
    **dict.fromkeys(("ceil", "floor", "length"), "int"),
    **dict.fromkeys(("abs", "sum"), "float"),
    **dict.fromkeys(("contains", "ends_with", "starts_with"), "bool"),
    **dict.fromkeys(("join", "lower", "replace", "to_csv", "to_json", "to_string", "trim", "type"), "str"),
    **dict.fromkeys(("remove_prefix", "remove_suffix", "upper", "to_markdown"), "str"),
    **dict.fromkeys(("now", "parse_date", "format_date", "add_days"), "str"),
    **dict.fromkeys(("from_csv", "items", "keys", "lines", "map", "range", "sort", "sort_by"), "list"),
    **dict.fromkeys(("split", "to_array", "unique", "values", "words", "zip"), "list"),
    **dict.fromkeys(("from_items", "group_by", "merge"), "dict"),
}
"""The type that each function always returns; others may return several."""
_FREE = frozenset({"length", "type", "not_null", "to_array"})
"""Functions whose work does not grow with what they are given."""
_WHOLE = frozenset({"to_string", "to_json", "to_csv", "to_markdown", "unique", "contains"})
"""Functions that read everything inside their arguments."""
_CHANGE_TEXT = frozenset(
    {"lower", "upper", "reverse", "replace", "remove_prefix", "remove_suffix", "split", "lines", "words"}
)
"""Functions after which a secret in a text may no longer be found in the result."""
_WORDS: Mapping[str, str] = {
    **{kind: TYPE_WORDS[FRIENDLY_NAMES[kind]] for kind in ("array", "boolean", "number", "object", "string")},
    "array-number": "a list of numbers",
    "array-string": "a list of strings",
}
"""JMESPath's types in words."""
MOST_WORK = 2_000_000
"""The most steps of one evaluation: some seconds, enough to filter a hundred thousand items."""
LARGEST = 2_000_000
"""The most values in any result of an expression; sixteen characters count as one."""
_CALL = 2
"""Steps that a call counts as, besides those of its arguments: it takes as long as a few visits of a node."""
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_NUMBER = re.compile(r"\s*-?\d{1,300}(\.\d{1,300})?([eE][-+]?\d{1,3})?\s*", re.ASCII)


_ESCAPES = {ord(sign): f"\\{sign}" for sign in "\\`*_[]<>&~|$"} | {ord("\n"): "<br>", ord("\r"): None}
"""So that text in the cell of a Markdown table is shown as it is."""


_TEXT: dict[str, Any] = {"types": ["string"]}
_OPTIONAL_TEXT: dict[str, Any] = {**_TEXT, "optional": True}
_LIST: dict[str, Any] = {"types": ["array"]}
_EXPRESSION: dict[str, Any] = {"types": ["expref"]}
_ANY: dict[str, Any] = {"types": []}


@attrs.frozen
class Secrets:
    """The secrets that functions of expressions know: what one makes of a text with a secret is another."""

    known: Callable[[], frozenset[str]]
    redact: Callable[[str], str]
    add: Callable[[str, list[str]], None]  # a secret, and what a function makes of it


class Limits:
    """The work that the functions of one evaluation may still do, with `now` and the secrets."""

    def __init__(self, secrets: Secrets | None, now: str) -> None:
        self.now = now or this_moment()
        self._secrets = secrets
        self._left = MOST_WORK
        # By identity; the values are kept, so that no other value gets the same identity.
        self._sizes: dict[int, tuple[Any, int]] = {}

    def spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            step = "Filter first, or split the work into several nodes"
            raise PflowError(f"it takes more than {MOST_WORK:,} steps", suggestions=(step,))

    def size(self, value: object) -> int:
        """Return the size of a function's argument or result, each item counted as often as it is there."""
        if isinstance(value, str):
            return 1 + len(value) // 16
        if not isinstance(value, list | dict | tuple):
            return 1
        known = self._sizes.get(id(value))
        if known is None:
            self.spend(len(value))
            members = value.values() if isinstance(value, dict) else value
            known = self._sizes[id(value)] = (value, 1 + sum(map(self.size, members)))
        return known[1]

    def require_size(self, size: int) -> None:
        if size > LARGEST:
            message = f"it makes a value of more than {LARGEST:,} parts (sixteen characters count as one)"
            raise PflowError(message, suggestions=("Filter first, or write large data to a file",))

    def require_length(self, characters: int) -> None:
        self.require_size(characters // 16)

    def derived(self, text: str, change: Callable[[str], object]) -> None:
        """Before a function changes a text with secrets, add what the secrets become to the known ones."""
        secrets = self._secrets
        if secrets is None or secrets.redact(text) == text:
            return
        for secret in secrets.known():
            if secret in text:
                made = change(secret)
                several = made if isinstance(made, list) else [made]
                secrets.add(secret, [item for item in several if isinstance(item, str)])


@attrs.frozen
class Signature:
    """The parameters of a function of expressions."""

    name: str
    parameters: Sequence[Mapping[str, Any]]

    @property
    def usage(self) -> str:
        words = ["/".join(parameter["types"]) or "any" for parameter in self.parameters]
        shown_words = ["&expression" if word == "expref" else word for word in words]
        shown_words[self.least :] = [f"[{word}]" for word in shown_words[self.least :]]
        return f"{self.name}({', '.join(shown_words)}{', ...' if self.is_variadic else ''})"

    @property
    def least(self) -> int:
        return sum(not parameter.get("optional") for parameter in self.parameters)

    @property
    def is_variadic(self) -> bool:
        return bool(self.parameters and self.parameters[-1].get("variadic"))

    def types_at(self, number: int) -> Sequence[str]:
        """Return the types that the argument at this place of the function may have; empty if any."""
        if not self.parameters:
            return ()
        types: Sequence[str] = self.parameters[min(number, len(self.parameters) - 1)]["types"]
        return types

    def takes(self, count: int) -> bool:
        return self.least <= count and (count <= len(self.parameters) or self.is_variadic)


@cache
def signatures() -> dict[str, Signature]:
    """Return every function of the expression language by name, with its parameters."""
    table = ExpressionFunctions.FUNCTION_TABLE
    return {name: Signature(name, table[name]["signature"]) for name in sorted(table)}


class NullArgument(PflowError):
    """A function of an expression got null, or a list with null in it, which it does not accept."""

    def __init__(self, message: str) -> None:
        steps = (
            "Take a default: not_null(value, '')",
            "The whole value that the expression applies to is @",
            "Failed items of a batch are null: leave them out, as in read.items[?!error].result",
        )
        super().__init__(message, suggestions=steps)


class ExpressionFunctions(functions.Functions):
    """The functions that one evaluation of an expression may call, within its limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def call_function(self, function_name: str, resolved_args: list[Any]) -> Any:
        """Call a function of an expression within the limits; the parser has checked its name."""
        if function_name not in _FREE:
            measured = self._limits.size if function_name in _WHOLE else _work
            self._limits.spend(_CALL + sum(map(measured, resolved_args)))
        if function_name in _CHANGE_TEXT and isinstance(resolved_args[0], str):
            call, rest = self._called, resolved_args[1:]
            self._limits.derived(resolved_args[0], lambda secret: call(function_name, [secret, *rest]))
        result = self._called(function_name, resolved_args)
        self._limits.spend(_work(result) if isinstance(result, str) else 0)
        if isinstance(result, float) and not math.isfinite(result):
            if function_name != "to_number":  # of text, which may be anything
                raise problem(f"the result of {function_name}() is too large for a number")
            return None
        return result

    def _called(self, name: str, arguments: list[Any]) -> Any:
        try:
            return super().call_function(name, arguments)
        except exceptions.JMESPathTypeError as error:
            made = NullArgument if error.current_value is None else problem
            raise made(_mistake(error, arguments)) from error
        except TypeError as error:
            raise problem(f"{name}() compares strings, or numbers, not one with the other") from error
        except OverflowError as error:
            raise problem(f"{name}() was given a number that is too large") from error

    def _validate_arguments(self, args: list[Any], signature: Sequence[Any], function_name: str) -> Any:
        given = [it for number, it in enumerate(signature) if number < len(args) or not it.get("optional")]
        if given and given[-1].get("variadic"):  # which JMESPath would check once
            given += given[-1:] * (len(args) - len(given))
        return super()._validate_arguments(args, given, function_name)

    # Functions that are one step in Python; `call_function` counts their work.
    _func_lower = functions.signature(_TEXT)(lambda _, text: text.lower())
    _func_upper = functions.signature(_TEXT)(lambda _, text: text.upper())
    _func_trim = functions.signature(_TEXT)(lambda _, text: text.strip())
    _func_remove_prefix = functions.signature(_TEXT, _TEXT)(lambda _, text, part: text.removeprefix(part))
    _func_remove_suffix = functions.signature(_TEXT, _TEXT)(lambda _, text, part: text.removesuffix(part))
    _func_now = functions.signature()(lambda self: self._limits.now)
    _func_add_days = functions.signature(_TEXT, {"types": ["number"]})(lambda _, *given: days_later(*given))
    _func_to_json = functions.signature(_ANY)(lambda _, value: _json(value))
    _func_items = functions.signature({"types": ["object"]})(lambda _, value: list(map(list, value.items())))

    @functions.signature(_TEXT, {"types": ["array-string"]})
    def _func_join(self, separator: str, array: list[str]) -> str:
        self._limits.require_length(sum(map(len, array)) + len(separator) * len(array))
        return separator.join(array)

    @functions.signature({"types": ["array", "string"]}, _ANY)
    def _func_contains(self, subject: Any, search: Any) -> bool:
        if isinstance(subject, str):
            return isinstance(search, str) and search in subject
        return any(is_same(item, search) for item in subject)

    @functions.signature(_ANY)
    def _func_to_number(self, arg: Any) -> Any:
        if not isinstance(arg, str):
            return arg if is_number(arg) else None
        if not _NUMBER.fullmatch(arg):
            return None
        text = arg.strip()
        return int(text) if text.removeprefix("-").isdecimal() else float(text)

    @functions.signature(_ANY)
    def _func_to_string(self, arg: Any) -> str:
        return arg if isinstance(arg, str) else _json(arg)

    @functions.signature(_TEXT)
    def _func_from_json(self, text: str) -> Any:
        try:
            return strict_json(text)
        except (ValueError, RecursionError) as error:
            # Without the text: no data may leave a condition, and an error is an output.
            where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
            why = ": a key occurs twice" if isinstance(error, Lossy) else where
            raise problem(f"from_json() was given a string that is not JSON{why}") from error

    @functions.signature(_TEXT)
    def _func_from_csv(self, text: str) -> list[dict[str, Any]]:
        self._limits.spend(text.count(",") + text.count("\n"))
        text = text.removeprefix("\ufeff")
        if csv.field_size_limit() < len(text):  # csv's limit is 128 KiB a cell; the evaluation has its own
            csv.field_size_limit(len(text))
        try:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
        except csv.Error as error:
            raise problem(f"from_csv() was given a string that is not CSV: {error}") from error
        if not rows:
            return []
        head = rows[0]
        if len({*head}) < len(head):
            raise problem("from_csv() needs different names in the first row", "Rename the columns")
        for number, row in enumerate(rows[1:], 2):
            if len(row) > len(head):
                message = f"from_csv() found {len(row)} cells in row {number}, and {len(head)} in the first"
                raise problem(message, "Quote cells that contain a comma")
        self._limits.spend(len(head) * len(rows))
        return [{key: row[at] if at < len(row) else None for at, key in enumerate(head)} for row in rows[1:]]

    @functions.signature(_LIST)
    def _func_to_csv(self, rows: list[Any]) -> str:
        written = io.StringIO(newline="")
        csv.writer(written, lineterminator="\n").writerows(self._cells("to_csv", rows))
        return written.getvalue()

    @functions.signature(_LIST)
    def _func_to_markdown(self, rows: list[Any]) -> str:
        table = self._cells("to_markdown", rows)
        width = max(map(len, table), default=0)
        if not width:
            return ""
        self._limits.spend(width * len(table))
        escape = lambda text: text.replace("\r\n", "\n").replace("\r", "\n").translate(_ESCAPES)  # noqa: E731
        self._limits.derived("\n".join(cell for row in table for cell in row), escape)
        lines = [[*map(escape, row), *[""] * (width - len(row))] for row in table]
        lines.insert(1, ["---"] * width)
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def _cells(self, name: str, rows: list[Any]) -> list[list[str]]:
        """Return the cells of a table for an expression's function; one of objects begins with their keys."""
        if all(isinstance(row, list) for row in rows):
            table = rows
        elif all(isinstance(row, dict) for row in rows):
            head = list(dict.fromkeys(key for row in rows for key in row))
            self._limits.spend(len(head) * len(rows))
            table = [head, *([row.get(key) for key in head] for row in rows)]
        else:
            raise problem(f"{name}() takes a list of objects, or a list of lists")
        return [["" if cell is None else self._func_to_string(cell) for cell in row] for row in table]

    @functions.signature(_TEXT, _TEXT)
    def _func_split(self, text: str, separator: str) -> list[str]:
        self._limits.spend(text.count(separator))
        return text.split(separator) if separator else list(text)

    @functions.signature(_TEXT)
    def _func_lines(self, text: str) -> list[str]:
        self._limits.spend(text.count("\n") + text.count("\r"))
        return lines_of(text)

    @functions.signature(_TEXT)
    def _func_words(self, text: str) -> list[str]:
        self._limits.spend(len(text) // 2)
        return text.split()

    @functions.signature(_TEXT, _TEXT, _TEXT)
    def _func_replace(self, text: str, old: str, new: str) -> str:
        self._limits.require_length(len(text) + text.count(old) * len(new))
        return text.replace(old, new)

    @functions.signature({"types": ["number"]})
    def _func_range(self, count: float) -> list[int]:
        if not math.isfinite(count) or count < 0 or count != int(count):
            raise problem("range() takes a whole number that is not negative")
        self._limits.spend(int(count))
        return list(range(int(count)))

    @functions.signature(_LIST, {**_LIST, "variadic": True})
    def _func_zip(self, *lists: list[Any]) -> list[list[Any]]:
        self._limits.spend(len(lists) * min(map(len, lists)))
        return [list(row) for row in zip(*lists, strict=False)]

    @functions.signature(_LIST, _EXPRESSION, _OPTIONAL_TEXT)
    def _func_sort_by(self, items: list[Any], key: Any, order: str = "asc") -> list[Any]:
        if order not in ("asc", "desc"):
            raise problem("the third argument of sort_by() is 'asc' or 'desc'")
        step = -1 if order == "desc" else 1  # backwards twice, so that equal items keep their order
        in_order: list[Any] = super()._func_sort_by(items[::step], key)[::step]
        return in_order

    @functions.signature(_TEXT, _OPTIONAL_TEXT)
    def _func_parse_date(self, text: str, form: str | None = None) -> str:
        return (read_date("parse_date", text) if form is None else parsed_date(text, form)).isoformat()

    @functions.signature(_TEXT, _TEXT)
    def _func_format_date(self, text: str, form: str) -> str:
        self._limits.require_length(5 * len(form))
        return formatted_date(text, form)

    @functions.signature(_LIST, _EXPRESSION)
    def _func_group_by(self, items: list[Any], key: Any) -> dict[str, list[Any]]:
        groups: dict[str, list[Any]] = {}
        for item in items:
            group = key.visit(key.expression, item)
            if isinstance(group, list | dict):
                raise problem(f"group_by() groups by a string or a number, and was given {shown(group)}")
            groups.setdefault(self._func_to_string(group), []).append(item)
        return groups

    @functions.signature(_LIST)
    def _func_from_items(self, pairs: list[Any]) -> dict[str, Any]:
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
                raise problem("from_items() takes a list of pairs, each of a string and a value")
        return dict(pairs)

    @functions.signature(_LIST)
    def _func_unique(self, items: list[Any]) -> list[Any]:
        self._limits.spend(2 * len(items))  # writing a value costs more than visiting it
        found: dict[str, Any] = {}
        for item in items:
            found.setdefault(_json(item), item)
        return list(found.values())


def _work(argument: Any) -> int:
    if isinstance(argument, str):
        return len(argument) // 16
    return len(argument) if isinstance(argument, list | dict) else 0


def _json(value: Any) -> str:
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise problem(f"{shown(value)} cannot be written as JSON: {cut(str(error))}") from error


def _mistake(error: exceptions.JMESPathTypeError, arguments: list[Any]) -> str:
    name = error.function_name
    beside_key = (*arguments[:1], *arguments[2:])
    if name.endswith("_by") and not any(argument is error.current_value for argument in beside_key):
        found = _WORDS.get(error.actual_type, error.actual_type)
        return f"{name}() takes an expression that is a string, or a number, for every item, not {found}"
    takes = " or ".join(_WORDS[kind] for kind in error.expected_types)
    found = shown(error.current_value)
    is_inside = not any(argument is error.current_value for argument in arguments)
    return f"{name}() takes {takes}, not {f'one that contains {found}' if is_inside else found}"
