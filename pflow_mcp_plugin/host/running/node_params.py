"""The params of a single node: checked before it runs, and never templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pflow_mcp_plugin.contract import Entry, Field, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, typed
from pflow_mcp_plugin.host.workflow.document_reader import is_deep
from pflow_mcp_plugin.host.workflow.findings import did_you_mean, listing
from pflow_mcp_plugin.host.workflow.templates import literal


def typed_params(entry: Entry, given: Mapping[str, str]) -> dict[str, Any]:
    """Convert the params of a single node from strings as typed on a command line.

    Args:
        entry: The node type.
        given: The typed string of each parameter; unknown ones stay strings.
    """
    fields = entry.interface.fields
    return {name: typed(text, fields[name]) if name in fields else text for name, text in given.items()}


def checked_params(entry: Entry, given: JSONObject) -> dict[str, JSON]:
    """Return the params of a single node with `${` escaped: they are values, not templates.

    Args:
        entry: The node type.
        given: The value of each parameter.

    Raises:
        PflowError: Some are missing, unknown, or of the wrong type; names each.
    """
    problems = tuple(_problems(entry, given))
    if problems:
        raise _misused(entry, problems)
    return {name: literal(value) for name, value in given.items()}


def _problems(entry: Entry, given: JSONObject) -> Iterator[Problem]:
    fields, shown = entry.interface.fields, [field.key for field in entry.interface.params]
    for name, value in given.items():
        if is_deep(value):
            message = f"Parameter {name} of node {entry.node} is nested too deeply"
            yield Problem(message=message, suggestion="Flatten it")
        elif name in fields:
            yield from _mismatch(entry, fields[name], value)
        elif not entry.interface.open:
            hint = did_you_mean(name, shown, f"It takes {listing(shown)}")
            yield Problem(message=f"Node {entry.node} has no parameter {name}", suggestion=hint)
    lacking = [it.key for it in entry.interface.params if it.required and it.key not in given]
    if lacking:
        names = "parameter" if len(lacking) == 1 else "parameters"
        message = f"Node {entry.node} needs {names} {', '.join(lacking)}"
        yield Problem(message=message, suggestion=f"Give {lacking[0]}=...; {_see(entry, 'run')}")


def _mismatch(entry: Entry, field: Field, value: JSON) -> Iterator[Problem]:
    try:
        coerce(value, field)
    except TypeMismatch as error:
        message = f"Parameter {field.key} of node {entry.node} must be {error.expected}, got {error.given}"
        yield Problem(message=message, suggestion=_see(entry))


def _see(entry: Entry, word: str = "Run") -> str:
    return f"{word}: pflow registry describe {entry.node}"


def _misused(entry: Entry, problems: tuple[Problem, ...]) -> PflowError:
    if len(problems) > 1:
        message = f"Node {entry.node} cannot be run with these params: {len(problems)} problems"
        return PflowError(message, problems=problems, kind="usage")
    return PflowError(
        problems[0].message, suggestions=(problems[0].suggestion,), problems=problems, kind="usage"
    )
