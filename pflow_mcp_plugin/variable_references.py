"""The syntax of references to variables in config values, such as `${NAME:-default}`.

`${NAME}` stands for a variable, `${NAME:-default}` for a variable or, when it is unset or empty,
for the default; `$${` is a literal `${`. A lone `$` is literal. References do not nest, and
their values are not expanded again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PIECE = (
    r"(?P<literal>\$\$\{)"
    rf"|\$\{{(?P<name>{_NAME})(?::-(?P<default>(?:(?!\$\{{)[^}}])*))?\}}"
    r"|(?P<malformed>\$\{[^}]{0,20}\}?)"
)
_PREFIXED = rf"\$\{{env:({_NAME})\}}"


class VariableReference(NamedTuple):
    """A `${NAME}` or `${NAME:-default}` in a config value."""

    name: str
    default: str | None = None  # used when the variable is unset or empty


def is_variable(name: str) -> bool:
    """Whether a variable of this name can be referred to as `${NAME}`."""
    return re.fullmatch(_NAME, name) is not None


def references(text: str) -> tuple[VariableReference, ...]:
    """Return the variable references in a config value, in order."""
    return tuple(_reference(piece) for piece in _pieces(text) if piece["name"])


def placed(text: str) -> tuple[tuple[int, VariableReference], ...]:
    """Return the variable references in a config value, each with its place in it."""
    return tuple((piece.start(), _reference(piece)) for piece in _pieces(text) if piece["name"])


def within(value: object) -> Iterator[VariableReference]:
    """Yield the variable references in all strings of a config value, however deep."""
    if isinstance(value, str):
        yield from references(value)
    elif isinstance(value, Mapping | list):
        for member in value.values() if isinstance(value, Mapping) else value:
            yield from within(member)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a config value in whose strings, however deep, references have the names given for theirs."""

    def reference(piece: re.Match[str]) -> str:
        name = piece["name"]
        return piece[0].replace(name, names[name], 1) if name in names else piece[0]

    if isinstance(value, str):
        return re.sub(_PIECE, reference, value)
    if isinstance(value, Mapping):
        return {key: renamed(member, names) for key, member in value.items()}
    return [renamed(member, names) for member in value] if isinstance(value, list) else value


def malformed(text: str) -> str:
    """Return the start of the first malformed `${...}` in a config value; empty if all are well formed."""
    return next((piece["malformed"] for piece in _pieces(text) if piece["malformed"]), "")


def remedy(piece: str) -> str:
    """Return how to correct a malformed reference to a variable in a config value."""
    prefixed = re.fullmatch(_PREFIXED, piece)
    if prefixed:
        return f"Write ${{{prefixed[1]}}}"
    if piece.startswith("${cmd:"):
        return "Keep the command: pflow settings set KEY --from-command 'COMMAND', and write ${KEY}"
    return "Write ${NAME} or ${NAME:-default}, without a reference inside; $${ is a literal ${"


def substitute(text: str, value: Callable[[VariableReference], str]) -> str:
    """Return text in which `value` gives what replaces each reference `${...}` to a variable, in one pass."""

    def replacement(piece: re.Match[str]) -> str:
        if piece["name"]:
            return value(_reference(piece))
        return "${" if piece["literal"] else piece[0]

    return re.sub(_PIECE, replacement, text)


def _pieces(text: str) -> Iterable[re.Match[str]]:
    return re.finditer(_PIECE, text) if "${" in text else ()  # compiled, which takes 0.5 ms, if it is needed


def _reference(piece: re.Match[str]) -> VariableReference:
    return VariableReference(piece["name"], piece["default"])
