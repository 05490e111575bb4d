"""Validates the arguments of a call against the input schema of its tool, before anything is sent."""

from __future__ import annotations

import json
import operator
import re
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any

import attrs

from pflow_mcp_plugin.contract import UNKNOWN, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.schemas.quick_check import plainly_fits
from pflow_mcp_plugin.schemas.schema_outline import BOUNDS
from pflow_mcp_plugin.schemas.schema_reader import SchemaDocument, declaration
from pflow_mcp_plugin.schemas.schema_reduction import Reduction, SchemaTooLarge
from pflow_mcp_plugin.terminal.looks import abbreviated

_MOST = 20  # errors reported of one check
_REFERENCES = 20_000
_SECONDS = 1.0
_CHARACTERS_A_SECOND = 10_000
_SHOWN = 80
_WHOLE = "arguments"
_DEEPEST_NULL = 8
_GAP = "pflow:gap"
"""Stands for `UNKNOWN` in JSON, as the key of an object."""
_DECIDED_BY_GAPS = frozenset(
    {"const", "contains", "dependentRequired", "dependentSchemas", "enum", "if", "maxProperties", "not"}
)
"""Keywords whose result may depend on the value of a gap, or on whether a key with a gap is left out."""
_ANOTHER = "another value, as the tool now limits it"
_WRONG = "Arguments of tool {tool} on server {server} do not fit its input schema"


@attrs.frozen(kw_only=True)
class Violation:
    """One argument, or part of one, that does not fit the tool's input schema."""

    path: str  # `title`, `labels[2].name`
    expected: str
    given: str  # shortened
    # It comes from a schema that may not be quoted: only types and numbers are from that.
    is_new: bool = False

    @property
    def argument(self) -> str:
        return "" if self.path == _WHOLE else self.path

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, given {self.given}"


class Validator:
    """Validates arguments against the input schema of one tool; created once for each tool of a run.

    References are followed within the schema only. A schema with infinite recursion or excessive
    expansion is an error after about a second (more for very large arguments), never a hang. Errors may quote
    the names and values of `quotable`, the version that was approved (`False` if none was), by default those
    of `schema`.
    """

    def __init__(self, schema: JSON, where: Where, quotable: JSON = None) -> None:
        self._schema = schema
        self._quotable = schema if quotable is None else quotable
        self._where = where
        self._document = SchemaDocument(schema)
        self._properties: dict[int, JSONObject] = {}  # of parts of the schema, by their id
        self._lock = threading.Lock()  # the compiled checks count references, which threads must not share
        self._checks: dict[tuple[bool, bool], Callable[[str], Iterator[Any]]] = {}

    def violations(self, arguments: object) -> list[Violation]:
        """Return what is wrong with the arguments of a call, whatever `UNKNOWN` in them stands for."""
        text = _json(arguments)
        if text is None:
            members = arguments.items() if isinstance(arguments, Mapping) else ()
            wrong = [(str(key), value) for key, value in members if _json(value) is None]
            return [_not_json(key, value) for key, value in wrong or [(_WHOLE, arguments)]]
        if "null" in text:
            arguments = self.without_unset(arguments)
            text = _json(arguments) or text
        if plainly_fits(self._schema, arguments):
            return []
        if self._quotable is self._schema:
            return self._violations(text)
        found = self._violations(text, quoted=False)
        quoted = self._violations(text, quoted=True) if found and self._quotable is not False else []
        known = {it.path: it for it in quoted}
        return list(dict.fromkeys(known.get(it.path, it) for it in found))

    def without_unset(self, arguments: Any) -> Any:
        """Return arguments without the nulls that mean "not given"; see `SchemaDocument.is_unset_by_null`."""
        with self._lock:
            return self._without_nulls(arguments, self._schema, _DEEPEST_NULL)

    def _without_nulls(self, value: Any, schema: JSON, depth: int) -> Any:
        if depth == 0 or not isinstance(value, dict | list) or not isinstance(schema, Mapping):
            return value
        if isinstance(value, list):
            items = self._document.items(schema)
            if items is None:
                return value
            parts = [self._without_nulls(item, items, depth - 1) for item in value]
            return value if all(map(operator.is_, parts, value)) else parts
        if id(schema) not in self._properties:
            self._properties[id(schema)] = declaration(schema, self._document).properties
        properties = self._properties[id(schema)]
        if not properties:
            return value
        kept = {
            key: self._without_nulls(item, properties.get(key), depth - 1)
            for key, item in value.items()
            if item is not None or not self._document.is_unset_by_null(properties.get(key))
        }
        same = len(kept) == len(value) and all(map(operator.is_, kept.values(), value.values()))
        return value if same else kept

    def _violations(self, text: str, *, quoted: bool = True) -> list[Violation]:
        """Return how arguments, as JSON text, violate the quotable schema, or the other one unquoted."""
        has_gaps = _GAP in text
        schema = self._quotable if quoted else self._schema
        explained = _explained if quoted else partial(_unquoted, names=declaration(self._quotable).properties)
        with self._lock:
            try:
                if (has_gaps, quoted) not in self._checks:
                    self._checks[has_gaps, quoted] = _compiled(schema, has_gaps=has_gaps)
                errors = islice(self._checks[has_gaps, quoted](text), _MOST)
                found = [violation for error in errors for violation in explained(error, schema)]
            except (SchemaTooLarge, RecursionError) as error:
                tool, server = self._where.tool, self._where.server
                raise McpError(
                    f"The input schema of tool {tool} on server {server} refers to itself endlessly "
                    "or expands too far; arguments cannot be checked against it",
                    where=self._where._replace(phase="arguments"),
                    next_step=f"Report this to the author of server {server}",
                    kind="validation",
                ) from error
        return list(dict.fromkeys(found))

    def problem(self, violation: Violation) -> Problem:
        whose = f"tool {self._where.tool} on server {self._where.server}"
        what = f"Argument {violation.path} of" if violation.path != _WHOLE else "The arguments of"
        return Problem(
            message=f"{what} {whose}: expected {violation.expected}, given {violation.given}",
            path=violation.argument,
            suggestion=f"`{self._where.info_command}` shows the tool's parameters",
        )

    def error(self, violations: list[Violation]) -> McpError:
        command = self._where.info_command
        start = _WRONG.format(tool=self._where.tool, server=self._where.server)
        return McpError(
            f"{start}: {'; '.join(map(str, violations))}",
            where=self._where._replace(phase="arguments"),
            next_step=f"Correct the params of the node; `{command}` shows the tool's parameters",
            violations=[attrs.asdict(violation) for violation in violations],
            kind="validation",
        )


def _compiled(schema: JSON, *, has_gaps: bool) -> Callable[[str], Iterator[Any]]:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    document = SchemaDocument(schema)
    reduction = Reduction(document)
    targets: dict[str, JSON] = {}
    # Only references make a schema infinite, so a check may follow only so many.
    left, deadline = 0, 0.0

    def follow(validator: Any, ref: str, instance: object, _schema: object) -> Iterator[Any]:
        nonlocal left
        left -= 1
        if left < 0 or monotonic() > deadline:
            raise SchemaTooLarge
        if ref not in targets:
            targets[ref] = reduction.reduce(document.target(ref))
        yield from validator.descend(instance, targets[ref])

    keywords = {**Draft202012Validator.VALIDATORS, "$ref": follow}
    if has_gaps:
        keywords = {name: _around_gaps(name, keywords) for name in keywords}
    checker = extend(Draft202012Validator, keywords)(reduction.reduce(schema))

    def errors(text: str) -> Iterator[Any]:
        nonlocal left, deadline
        # Each row of a large table may need a few references.
        left = _REFERENCES + len(text)
        deadline = monotonic() + _SECONDS + len(text) / _CHARACTERS_A_SECOND
        value = json.loads(text, object_hook=lambda it: UNKNOWN if has_gaps and it.keys() == {_GAP} else it)
        yield from (error for error in checker.iter_errors(value) if error.instance is not UNKNOWN)

    return errors


def _around_gaps(name: str, keywords: Mapping[str, Any]) -> Any:
    """Return a jsonschema keyword's check that reports only what is wrong whatever `UNKNOWN` becomes."""
    plain = keywords["anyOf" if name == "oneOf" else name]  # a gap may decide which one alternative fits

    def check(validator: Any, value: Any, instance: object, schema: Any) -> Iterator[Any]:
        if instance is UNKNOWN or (name in _DECIDED_BY_GAPS and _has_gap(instance)):
            return
        keyword = plain if _has_gap(instance) else keywords[name]
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _has_gap(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_gap, value.values()))
    return any(map(_has_gap, value)) if isinstance(value, list) else value is UNKNOWN


def _as_gap(value: object) -> dict[str, None]:
    if value is UNKNOWN:
        return {_GAP: None}
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _explained(error: Any, root: JSON) -> Iterator[Violation]:
    if error.validator in ("anyOf", "oneOf") and _is_about_type(error):
        yield _violation(error.absolute_path, SchemaDocument(root).friendly(error.schema), error.instance)
        return
    error = _closest(error)
    path = list(error.absolute_path)
    if error.validator == "required":
        for key in error.validator_value:
            if key not in error.instance:
                yield Violation(path=_path([*path, key]), expected="a value", given="nothing")
    elif error.validator == "additionalProperties" and error.validator_value is False:
        declared = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        for key in error.instance:
            if key not in declared and not any(re.search(pattern, key) for pattern in patterns):
                yield _violation([*path, key], "no such key", error.instance[key])
    else:
        yield _violation(path, _expected(error, root), error.instance)


def _unquoted(error: Any, root: JSON, names: Container[str]) -> Iterator[Violation]:
    """Yield the violations in an error without quoting the schema, except for these names."""
    if error.validator not in ("anyOf", "oneOf") or not _is_about_type(error):
        error = _closest(error)
    path = list(error.absolute_path)
    if error.validator == "required":
        declared = declaration(error.schema, SchemaDocument(root)).properties
        for key in error.validator_value:
            if key not in error.instance and key in names and not path:
                yield Violation(path=key, expected="a value", given="nothing", is_new=True)
            elif key not in error.instance:
                kind = SchemaDocument(root).friendly(declared.get(key, True))
                expected, given = f"one more required argument ({kind})", "nothing"
                yield Violation(path=_path(path), expected=expected, given=given, is_new=True)
    elif error.validator in ("type", "additionalProperties", "anyOf", "oneOf"):
        yield from (attrs.evolve(each, is_new=True) for each in _explained(error, root))
    else:
        expected = _expected(error, root) if isinstance(error.validator_value, int | float) else _ANOTHER
        yield attrs.evolve(_violation(path, expected, error.instance), is_new=True)


def _is_about_type(error: Any) -> bool:
    """Whether every alternative of `anyOf` rejects an argument's type: then they are named together."""
    alternatives = error.context  # none if an argument fits several of `oneOf`
    return bool(alternatives) and all(it.validator == "type" and not it.path for it in alternatives)


def _closest(error: Any) -> Any:
    from jsonschema.exceptions import best_match

    return best_match([error]) if error.context else error


def _expected(error: Any, root: JSON) -> str:
    value = error.validator_value
    if error.validator is None:
        return "no value, as the schema is false"
    if error.validator == "type":
        return SchemaDocument(root).friendly({"type": value})
    if error.validator in ("enum", "const"):
        return "one of " + ", ".join(
            _shown(item) for item in (value if error.validator == "enum" else [value])
        )
    if error.validator == "oneOf" and not error.context:
        return "a value that fits only one of the alternatives in its oneOf"
    words = BOUNDS.get(error.validator)
    return words.format(value) if words else f"a value allowed by its {error.validator}"


def _violation(path: Iterable[str | int], expected: str, given: JSON) -> Violation:
    kind = SchemaDocument(True).friendly({"const": given})  # noqa: FBT003 - a JSON Schema, not a flag
    return Violation(
        path=_path(path), expected=abbreviated(expected, _SHOWN), given=f"{_shown(given)} ({kind})"
    )


def _path(parts: Iterable[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".") or _WHOLE


def _not_json(path: str, value: object) -> Violation:
    given = type(value).__name__
    with suppress(ValueError, RecursionError):  # a number with thousands of digits; nested too deeply
        given = f"{abbreviated(repr(value), _SHOWN)} ({given})"
    return Violation(path=path, expected="a JSON value", given=given)


def _json(value: object) -> str | None:
    try:
        return json.dumps(value, allow_nan=False, default=_as_gap)
    except (TypeError, ValueError, RecursionError):
        return None


def _shown(value: object) -> str:
    return abbreviated(json.dumps(value, ensure_ascii=False, default=lambda _: "..."), _SHOWN)
