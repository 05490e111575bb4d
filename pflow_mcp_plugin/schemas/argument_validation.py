"""Validates arguments against the input schema of a tool, before anything is sent."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from time import monotonic
from typing import Any

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.schemas.quick_check import plainly_fits
from pflow_mcp_plugin.schemas.schema_document import SchemaDocument
from pflow_mcp_plugin.schemas.schema_reduction import Reduction, SchemaTooLarge

_MOST = 20  # errors of one check that are reported
_REFERENCES = 20_000
_SECONDS = 1.0
_CHARACTERS_A_SECOND = 10_000
_SHOWN = 80
_WRONG = "Arguments of tool {tool} on server {server} do not fit its input schema"


@attrs.frozen(kw_only=True)
class Violation:
    """One argument, or part of one, that does not fit the input schema.

    Attributes:
        path: Path of the value: `title`, `labels[2].name`.
        expected: What the schema requires, in words.
        given: The given value, shortened.
    """

    path: str
    expected: str
    given: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, given {self.given}"


class Validator:
    """Validates arguments against the input schema of one tool; created once for each tool of a run.

    References are followed within the schema only. A schema with infinite recursion or excessive
    expansion is an error after about a second (more for very large arguments), never a hang.

    Args:
        schema: The tool's input schema.
        where: The tool, for errors.
    """

    def __init__(self, schema: JSON, where: Where) -> None:
        self._schema = schema
        self._where = where
        self._lock = threading.Lock()  # the compiled check keeps a budget, which threads must not share
        self._check: Callable[[str], Iterator[Any]] | None = None

    def check(self, arguments: object) -> None:
        """Validate the arguments of one call.

        Raises:
            McpError: They are invalid; `facts["violations"]` has path, expected and given of each violation.
        """
        text = _json(arguments)
        if text is None:
            raise self._error(list(_not_json(arguments)))
        if plainly_fits(self._schema, arguments):
            return
        violations = self._violations(text)
        if violations:
            raise self._error(violations)

    def _violations(self, text: str) -> list[Violation]:
        """Return the violations of the arguments in their JSON form, where a tuple is a list."""
        with self._lock:
            try:
                if self._check is None:
                    self._check = _compiled(self._schema)
                errors = islice(self._check(text), _MOST)
                found = [violation for error in errors for violation in _explained(error, self._schema)]
            except (SchemaTooLarge, RecursionError) as error:
                raise self._endless() from error
        return list(dict.fromkeys(found))

    def _error(self, violations: list[Violation]) -> McpError:
        command = self._where.info_command
        start = _WRONG.format(tool=self._where.tool, server=self._where.server)
        return McpError(
            f"{start}: {'; '.join(map(str, violations))}",
            where=attrs.evolve(self._where, phase="arguments"),
            next_step=f"Correct the params of the node; `{command}` shows the tool's parameters",
            violations=[attrs.asdict(violation) for violation in violations],
            kind="validation",
        )

    def _endless(self) -> McpError:
        tool, server = self._where.tool, self._where.server
        return McpError(
            f"The input schema of tool {tool} on server {server} refers to itself endlessly "
            "or expands too far; arguments cannot be checked against it",
            where=attrs.evolve(self._where, phase="arguments"),
            next_step=f"Report this to the author of server {server}",
            kind="validation",
        )


class _Budget:
    """Bounds how many references one check may follow: only they can make a schema infinite.

    Args:
        size: Length of the checked value as JSON; each row of a large table may need a few references.
    """

    def __init__(self, size: int = 0) -> None:
        self._left = _REFERENCES + size
        self._deadline = monotonic() + _SECONDS + size / _CHARACTERS_A_SECOND

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0 or monotonic() > self._deadline:
            raise SchemaTooLarge


def _compiled(schema: JSON) -> Callable[[str], Iterator[Any]]:
    """Return a function that yields the errors of a JSON text; loads jsonschema.

    jsonschema-rs (0.60.3) would match more patterns in linear time. But it cannot be interrupted
    while references expand, rejects a whole schema because of one malformed keyword, and takes four
    times the memory for a few hundred alternatives to a large argument; if memory runs out, it
    aborts the process.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    document, reduction = SchemaDocument(schema), Reduction()
    targets: dict[str, JSON] = {}
    budgets = [_Budget()]

    def follow(validator: Any, ref: str, instance: object, _schema: object) -> Iterator[Any]:
        budgets[-1].spend()
        if ref not in targets:
            targets[ref] = reduction.reduce(document.target(ref))
        yield from validator.descend(instance, targets[ref])

    checker = extend(Draft202012Validator, {"$ref": follow})(reduction.reduce(schema))

    def errors(text: str) -> Iterator[Any]:
        budgets[-1] = _Budget(len(text))
        yield from checker.iter_errors(json.loads(text))

    return errors


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
        for key in error.instance:
            if not _is_declared(key, error.schema):
                yield _violation([*path, key], "no such key", error.instance[key])
    else:
        yield _violation(path, _expected(error, root), error.instance)


def _is_declared(key: str, schema: Mapping[str, Any]) -> bool:
    patterns = schema.get("patternProperties", {})
    return key in schema.get("properties", {}) or any(re.search(pattern, key) for pattern in patterns)


def _is_about_type(error: Any) -> bool:
    """Whether every alternative rejects the type of the whole value: then they are named together."""
    return all(inner.validator == "type" and not inner.path for inner in error.context)


def _closest(error: Any) -> Any:
    """Return the error inside the alternative that was most likely meant."""
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
    words = _PHRASES.get(error.validator)
    return words.format(value) if words else f"a value allowed by its {error.validator}"


_PHRASES: Mapping[str, str] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "{} characters or more",
    "maxLength": "{} characters or fewer",
    "minItems": "{} items or more",
    "maxItems": "{} items or fewer",
    "minProperties": "{} keys or more",
    "maxProperties": "{} keys or fewer",
    "pattern": "a string that matches {}",
}


def _violation(path: Iterable[str | int], expected: str, given: JSON) -> Violation:
    kind = SchemaDocument(True).friendly({"const": given})  # noqa: FBT003 - a JSON Schema, not a flag
    return Violation(path=_path(path), expected=_short(expected), given=f"{_shown(given)} ({kind})")


def _path(parts: Iterable[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".") or "arguments"


def _not_json(arguments: object) -> Iterator[Violation]:
    members = arguments.items() if isinstance(arguments, Mapping) else ()
    wrong = [(str(key), value) for key, value in members if _json(value) is None]
    for key, value in wrong or [("arguments", arguments)]:
        yield Violation(path=key, expected="a JSON value", given=_represented(value))


def _represented(value: object) -> str:
    kind = type(value).__name__
    try:
        return f"{_short(repr(value))} ({kind})"
    except (ValueError, RecursionError):  # a number with thousands of digits; nested too deeply
        return kind


def _json(value: object) -> str | None:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


def _shown(value: object) -> str:
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
