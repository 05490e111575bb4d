"""Coercion of values to their declared types, and strings that hold JSON.

A string stays a string until something inside it is needed. Where a template's path continues into a
string, and where a list or an object is expected (`batch.items`, a param of such a type), a string
that holds a JSON object or array is parsed; any other is not. The origin of the string makes no
difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON, NAMES_OF_PYTHON
from pflow_mcp_plugin.contract.problems import PortableError
from pflow_mcp_plugin.host.workflow.findings import cut
from pflow_mcp_plugin.schemas.schema_outline import BOUNDS
from pflow_mcp_plugin.storage.json_and_toml import Lossy, exact_float, finite_number, is_same, strict_json

_BLANKS = " \t\n\r"
"""The whitespace that JSON allows around a value; `str.strip` removes more."""
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,4})?", re.ASCII)
_EXACT = 2**53
"""Up to this value every integer is exact as a float."""
_MISFIT = object()
"""Returned by a conversion that would lose something."""


def json_in(text: str, *, exact: bool = False) -> list[JSON] | dict[str, JSON] | None:
    """Return the object or array that a string of JSON is coerced to, None if it holds neither.

    With `exact`, for values that are passed on as a whole, also None if parsing would lose something.
    """
    stripped = text.strip(_BLANKS)
    # Most strings are ruled out here, without parsing.
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    try:
        value = strict_json(stripped, exact=True) if exact else READER.decode(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def lines_of(text: str) -> list[str]:
    """Coerce a text to the list of its lines, without line ends; an empty last line does not count.

    Unlike `str.splitlines`, it splits only at the line ends of files, not at further separators.
    """
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return found[:-1] if found[-1] == "" else found


def loss(text: str) -> str:
    """Return what coercion from a JSON text would lose; empty if nothing, or if it is not JSON."""
    try:
        strict_json(text, exact=True)
    except Lossy as error:
        return str(error)
    except (ValueError, RecursionError):
        pass
    return ""


# Python's decoder accepts NaN and Infinity, which are not JSON.
READER = json.JSONDecoder(parse_float=finite_number, parse_constant=finite_number)


class TypeMismatch(PortableError, ValueError):
    """A value does not fit the declared type and cannot be coerced to it without loss.

    `expected` is the declared type, or the allowed values; `given` is the value's type, the value, shortened,
    and what of it would be lost.
    """

    def __init__(self, expected: str, value: object, lost: str = "") -> None:
        self.expected = expected
        self.given = f"{described(value)} ({lost})" if lost else described(value)
        super().__init__(f"expected {expected}, got {self.given}")


def type_names(field: Field) -> set[str]:
    """Return the friendly names of the types that a value may be coerced to for a field."""
    return set(alternatives(field.type))


@lru_cache(maxsize=1_000)  # each value that is passed on asks for those of a field
def alternatives(types: str) -> tuple[str, ...]:
    """Return the types to coerce values to for a declared one: `str` and `None` for `string | null`."""
    names = (part.strip() for part in types.split("|"))
    return tuple(FRIENDLY_NAMES.get(name, name) for name in names)


def takes_null(field: Field) -> bool:
    """Whether null has a field's type without coercion; `any` takes it unless a schema names other types."""
    names = type_names(field)
    listed: Any = field.schema.get("type", "null") if isinstance(field.schema, Mapping) else "null"
    if not isinstance(listed, str | list):  # the schema of a plugin's node may be malformed
        listed = "null"
    return "None" in names or ("any" in names and "null" in listed)


def type_of(value: object) -> str:
    """Return the friendly name of the type that a JSON value has before coercion; `any` for anything else."""
    return NAMES_OF_PYTHON.get(type(value), "any")


def is_type(name: str) -> bool:
    """Return whether coercion knows the type `name`, or every alternative in it."""
    return all(part in _TYPES for part in alternatives(name))


def described(value: object) -> str:
    """Return a value's type and the value itself, for messages about coercion."""
    try:
        text = repr(value) if not isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or a deeply nested list
        return type(value).__name__
    return f"{type(value).__name__} {cut(text)}"


def coerce(value: object, field: Field) -> Any:
    """Return `value` coerced to the type that `field` declares.

    A value that fits one of the alternatives is returned unchanged. Otherwise it is converted to the
    first alternative for which nothing is lost: `"3"` and `3.0` to int, `"true"` to bool, JSON text
    to list or dict, a number to str. Raise `TypeMismatch` if there is none.
    """
    kinds = alternatives(field.type)
    if value is None and takes_null(field):
        return None  # even if the choices do not list it
    if value is None and kinds == ("any",):
        raise TypeMismatch("any value but null", value)
    if field.choices and "any" not in kinds:  # else the choices are those of some calls only
        candidates = [value] + [_converted(value, name) for name in kinds]
        for candidate in candidates:
            if any(is_same(candidate, it) for it in field.choices):
                return candidate
        raise TypeMismatch(
            f"one of {', '.join(json.dumps(choice, default=str) for choice in field.choices)}", value
        )
    if any(_fits(value, name) for name in kinds):
        return value
    for name in kinds:
        converted = _converted(value, name)
        if converted is not _MISFIT:
            return converted
    structured = {"list", "dict"} & {*kinds}
    raise TypeMismatch(field.type, value, loss(value) if isinstance(value, str) and structured else "")


def require_within(value: object, field: Field) -> None:
    """Raise `TypeMismatch` if a coerced value is beyond the bounds in the schema of its field.

    Those are `minimum`, `exclusiveMinimum`, `maximum` and a linear `pattern`, whose character classes are
    ASCII.
    """
    schema: Mapping[str, Any] = field.schema if isinstance(field.schema, Mapping) else {}
    lowest, highest, pattern = map(schema.get, ("minimum", "maximum", "pattern"))
    floor = schema.get("exclusiveMinimum")
    beyond = ""
    if isinstance(value, int | float):
        beyond = "minimum" if lowest is not None and value < lowest else beyond
        beyond = "exclusiveMinimum" if floor is not None and not value > floor else beyond
        beyond = "maximum" if highest is not None and value > highest else beyond
    elif isinstance(value, str) and pattern is not None:
        # Python's `$` matches before a line break at the end, too.
        exact = f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern
        beyond = "" if re.search(exact, value, re.ASCII) else "pattern"
    if beyond:
        raise TypeMismatch(BOUNDS[beyond].format(schema[beyond]), value)


def passed_on(value: object, field: Field) -> Any:
    """Return a value that one node passes on to another, coerced to the type that `field` declares.

    Unlike in a value that somebody wrote, a list or an object becomes JSON text where only text fits, as it
    also does inside other text. Raise `TypeMismatch` if it does not fit.
    """
    try:
        return coerce(value, field)
    except TypeMismatch:
        is_text = "str" in type_names(field) and not field.choices
        if not (is_text and isinstance(value, (list, tuple, dict))):
            raise
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError):  # not JSON: it contains other objects, or itself
            pass
        raise


def may_become(given: Field, wanted: Field) -> bool:
    """Return whether coercion can turn some value of one declared type into another type."""
    there, needed = type_names(given), type_names(wanted)
    # A type of unknown name excludes nothing.
    if not (there | needed) <= _TYPES.keys() or "any" in there | needed or there & needed:
        return True
    return any(needed & _BECOMES.get(name, set()) for name in there)


def depends_on_text(given: Field, wanted: Field) -> bool:
    """Return whether the declared type is a string, and only some strings coerce to the wanted type."""
    needed = type_names(wanted)
    is_text = type_names(given) - {"None"} == {"str"}
    return is_text and needed.isdisjoint({"str", "any"}) and needed <= _TYPES.keys()


def depends_on_value(given: Field, wanted: Field) -> bool:
    """Return whether only some of the declared strings, or numbers, can be coerced to the wanted type."""
    needed = type_names(wanted)
    needs_whole = "int" in needed and needed.isdisjoint({"float", "str", "any"})
    return depends_on_text(given, wanted) or (needs_whole and type_names(given) - {"None"} == {"float"})


def typed(text: str, field: Field) -> object:
    """Coerce a string that the user typed: parse it as JSON where `field` takes lists or objects.

    `null` becomes None where the field takes that and the text does not fit, and a number one where the field
    takes only other strings. `coerce`, in contrast, leaves a string unchanged where one fits: values from
    elsewhere are not parsed needlessly.
    """
    fits = text in field.choices if field.choices else not {"str", "any"}.isdisjoint(type_names(field))
    if text == "null" and "None" in type_names(field) and not fits:
        return None
    parsed = {"int", "float", "bool", "list", "dict"} if _takes_other_text(text, field) else {"list", "dict"}
    found = (_CONVERSIONS[name](text) for name in alternatives(field.type) if name in parsed)
    return next((value for value in found if value is not _MISFIT), text)


def _takes_other_text(text: str, field: Field) -> bool:
    """Whether each alternative of a field's schema that takes strings lists them, without this one."""
    schema: Mapping[str, Any] = field.schema if isinstance(field.schema, Mapping) else {}
    alternatives = schema.get("anyOf") or schema.get("oneOf") or []
    if not all(isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in alternatives):
        return False
    strings = [each for each in alternatives if each["type"] == "string"]
    listed = [[each["const"]] if "const" in each else each.get("enum") for each in strings]
    return bool(listed) and all(isinstance(each, list) and text not in each for each in listed)


def _fits(value: object, name: str) -> bool:
    kind = _TYPES.get(name)
    if kind is None:
        return True  # "any" and unknown names: the node decides
    # In Python, a bool is an int too.
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind)


def _to_int(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    # Python refuses to convert more than 4,300 digits.
    if isinstance(value, str) and len(value) <= 4000 and _NUMBER.fullmatch(value) and _is_canonical(value):
        return int(value)
    return _MISFIT


def _is_canonical(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text != "-0"  # as an int it would lose its sign


def _to_float(value: object) -> object:
    if not isinstance(value, str) or len(value) > 400 or not _NUMBER.fullmatch(value):
        return _MISFIT
    try:
        # A whole number stays an int: it is a number too, and looks as it was written.
        return int(value) if _is_canonical(value) else exact_float(value)
    except ValueError:
        return _MISFIT


def _to_str(value: object) -> object:
    if not isinstance(value, (bool, int, float)):
        return _MISFIT
    try:
        return json.dumps(value, allow_nan=False)  # so that True becomes `true`, which converts back
    except ValueError:  # NaN or infinity, or an integer of more digits than Python writes
        return _MISFIT


def _from_json(kind: type) -> Callable[[object], object]:
    def convert(value: object) -> object:
        parsed = json_in(value, exact=True) if isinstance(value, str) else None
        return parsed if isinstance(parsed, kind) else _MISFIT

    return convert


def _converted(value: object, name: str) -> object:
    return _CONVERSIONS[name](value) if name in _CONVERSIONS else _MISFIT


_TYPES: Mapping[str, type | tuple[type, ...] | None] = {
    "any": None,
    "str": str,
    "int": int,
    "float": (float, int),
    "bool": bool,
    "list": (list, tuple),
    "dict": dict,
    "None": type(None),
}
_BECOMES: Mapping[str, set[str]] = {
    "str": {"int", "float", "bool", "list", "dict"},
    "int": {"str", "float"},
    "float": {"str", "int"},
    "bool": {"str"},
    "list": {"str"},
    "dict": {"str"},
}
"""The types that `passed_on` can convert values of each type to."""
_CONVERSIONS: Mapping[str, Callable[[object], object]] = {
    "str": _to_str,
    "int": _to_int,
    "float": _to_float,
    "bool": lambda value: (
        {"true": True, "false": False}.get(value, _MISFIT) if isinstance(value, str) else _MISFIT
    ),
    "list": _from_json(list),
    "dict": _from_json(dict),
}
