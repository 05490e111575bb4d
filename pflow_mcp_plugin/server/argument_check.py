"""Checks the arguments of a served tool against its input schema before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.json_types import PYTHON_TYPES
from pflow_mcp_plugin.server.given_names import nearest, shown
from pflow_mcp_plugin.server.served_tool import ServedTool

_Schema = Mapping[str, Any]


def check_arguments(tool: ServedTool, arguments: Mapping[str, Any]) -> None:
    """Check the arguments of a call: their names, which are required, their types and sizes.

    What is inside an object or list is left to the tool, except that the items of a list have a type.

    Raises:
        PflowError: Kind `validation`, with a problem for each argument.
    """
    schema: _Schema = tool.input_schema
    problems = tuple(_problems(schema, arguments))
    if problems:
        names = ", ".join(schema.get("properties", {})) or "none"
        raise PflowError(
            f"Invalid arguments for {tool.name}: {'; '.join(problem.message for problem in problems)}",
            kind="validation",
            problems=problems,
            suggestions=(*(it.suggestion for it in problems if it.suggestion), f"Its arguments: {names}"),
        )


def _problems(schema: _Schema, arguments: Mapping[str, Any]) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            yield Problem(message=f"{name} is missing", path=f"$.{name}", suggestion=f"Pass {name}")
    for name, value in arguments.items():
        if name in properties:
            yield from _wrong_type(f"$.{name}", name, properties[name], value)
        elif schema.get("additionalProperties") is False:
            close = nearest(name, properties)
            hint = f"Did you mean {close}?" if close else ""
            unknown = shown(name)
            yield Problem(message=f"there is no argument {unknown}", path=f"$.{unknown}", suggestion=hint)


def _wrong_type(path: str, name: str, schema: _Schema, value: object) -> Iterator[Problem]:
    wanted = schema.get("type", ())
    types = (wanted,) if isinstance(wanted, str) else wanted
    # type(value) instead of isinstance: in Python, unlike JSON, True is an int
    if types and not any(type(value) in PYTHON_TYPES[kind] for kind in types):
        expected = " or ".join(types)
        yield Problem(message=f"{name} must be of type {expected}, not {_kind(value)}", path=path)
    elif isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        said = f"{name} has {len(value):,} characters, at most {schema['maxLength']:,} are accepted"
        yield Problem(message=said, path=path)
    elif isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        said = f"{name} has {len(value):,} items, at most {schema['maxItems']:,} are accepted"
        yield Problem(message=said, path=path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _wrong_type(f"{path}[{index}]", f"{name}[{index}]", schema["items"], item)


def _kind(value: object) -> str:
    return next(name for name, types in PYTHON_TYPES.items() if type(value) in types)
