"""The params of a node, as `pflow registry run` takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pflow_mcp_plugin.contract import Entry, Field, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, typed
from pflow_mcp_plugin.host.workflow.findings import did_you_mean, listing
from pflow_mcp_plugin.host.workflow.templates import literal


def read_params(entry: Entry, given: Mapping[str, str]) -> dict[str, JSON]:
    """Convert a node's typed params to their declared types, with `${` escaped: they are not templates.

    Args:
        entry: The node type.
        given: The typed string of each parameter.

    Raises:
        PflowError: Some are missing, unknown, or of the wrong type; names each.
    """
    fields = {field.key: field for field in entry.interface.params}
    meant = {name: typed(text, fields[name]) if name in fields else text for name, text in given.items()}
    problems = tuple(_problems(entry, fields, meant))
    if problems:
        raise _misused(entry, problems)
    return {name: literal(value) for name, value in meant.items()}


def _problems(entry: Entry, fields: Mapping[str, Field], meant: Mapping[str, object]) -> Iterator[Problem]:
    for name, value in meant.items():
        if name not in fields:
            if not entry.interface.open:
                hint = did_you_mean(name, fields, f"It takes {listing(fields)}")
                yield Problem(message=f"Node {entry.node} has no parameter {name}", suggestion=hint)
            continue
        try:
            coerce(value, fields[name])
        except TypeMismatch as error:
            message = f"Parameter {name} of node {entry.node} must be {error.expected}, got {error.given}"
            yield Problem(message=message, suggestion=_see(entry))
    lacking = [key for key, field in fields.items() if field.required and key not in meant]
    if lacking:
        names = "parameter" if len(lacking) == 1 else "parameters"
        message = f"Node {entry.node} needs {names} {', '.join(lacking)}"
        yield Problem(message=message, suggestion=f"Give {lacking[0]}=...; {_see(entry, 'run')}")


def _see(entry: Entry, word: str = "Run") -> str:
    return f"{word}: pflow registry describe {entry.node}"


def _misused(entry: Entry, problems: tuple[Problem, ...]) -> PflowError:
    if len(problems) > 1:
        message = f"Node {entry.node} cannot be run with these params: {len(problems)} problems"
        return PflowError(message, problems=problems, kind="usage")
    return PflowError(
        problems[0].message, suggestions=(problems[0].suggestion,), problems=problems, kind="usage"
    )
