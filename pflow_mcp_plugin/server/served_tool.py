"""A tool that pflow serves to MCP clients: its declaration, how patterns choose it, the check of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import attrs

from pflow_mcp_plugin.contract import (
    THE_USER,
    Host,
    Library,
    PflowError,
    Problem,
    RunControl,
    Runner,
    RunOptions,
    RunOrigin,
    Settings,
    Traces,
)
from pflow_mcp_plugin.contract.json_types import PYTHON_TYPES, JSONObject
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.contract.run_requests import USUAL_OPTIONS
from pflow_mcp_plugin.terminal.looks import abbreviated
from pflow_mcp_plugin.terminal.similar_names import closest

_MOST_STEPS = 10
_CALLS = (
    ("registry_list", r"pflow registry list$", "registry_list"),
    ("registry_describe", r"pflow registry describe (\S+)$", r'registry_describe with nodes ["\1"]'),
    ("registry_describe", r"`?pflow mcp info ([\w.-]+)`?", r'registry_describe with nodes ["\1"]'),
    ("registry_search", r"pflow mcp tools (\S+)$", r"registry_search with pattern \1"),
    ("workflow_list", r"pflow workflow list$", "workflow_list"),
    ("workflow_save", r"\(pflow workflow save\)", "(workflow_save)"),
    (
        "workflow_execute",
        r"^(Pass \S+=...), or set it: .*",
        r"\1 in parameters: no setting is read here",
    ),
    ("trace_read", r"pflow trace show (\S+).*$", r"trace_read with trace_file \1"),
    ("trace_read", r"pflow resume (\S+) --dry-run$", r"trace_read with trace_file \1"),
    (
        "workflow_execute",
        r"(To go on[^:]*|then): pflow resume ([\w-]+)$",
        r"\1: call workflow_execute with resume \2",
    ),
)
"""The tools that do what commands in suggestions do: their names, the commands, and the words for a call."""


@attrs.frozen(kw_only=True)
class ServedRequest:
    """A client's call of a served tool, as the function that answers it sees it.

    Attributes:
        root: The only folder from which files may be read; None over HTTP, where no file may.
        origin: Who calls, and through which workflows.
        control: Receives the progress of a run; cancelled when the client cancels its request.
        allow_decisions: Whether it may say what became of a step whose outcome is unknown.
        hidden: The names of pflow's own tools that are not served.
        running: The ids of the caller's runs that have not ended.
    """

    host: Host
    root: Path | None = None
    origin: RunOrigin = THE_USER
    control: RunControl = attrs.field(factory=RunControl)
    show_secrets: bool = False
    allow_decisions: bool = False
    run_options: RunOptions = USUAL_OPTIONS
    hidden: Collection[str] = ()
    running: Sequence[str] = ()

    @property
    def runner(self) -> Runner:
        return runner_of(self.host).with_options(self.run_options)

    def step(self, suggestion: str) -> str:
        """Return a suggestion that names served tools in place of commands; empty if one is not served."""
        for tool, command, call in _CALLS:
            if tool not in self.hidden:
                suggestion = re.sub(command, call, suggestion)
        return without(self.hidden, suggestion)

    def advised(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """Return problems with suggestions that the caller of a served tool can follow."""
        return tuple(attrs.evolve(it, suggestion=self.step(it.suggestion)) for it in problems)

    def told(self, error: PflowError) -> PflowError:
        """Return an error with suggestions, else its problems', that a served tool's caller can follow."""
        error.problems = self.advised(error.problems)
        steps = error.suggestions or [it.suggestion for it in errors_in(error.problems)]
        error.suggestions = tuple(dict.fromkeys(filter(None, map(self.step, steps))))[:_MOST_STEPS]
        return error


@attrs.frozen(kw_only=True)
class Claims:
    """What a served tool says of its effects, as MCP annotations.

    Attributes:
        read_only: It changes nothing.
        destructive: It may delete or overwrite; false if it only adds.
        idempotent: Called twice with the same arguments, it has no further effect.
        open_world: It reaches beyond this machine.
    """

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


Answer = Callable[[ServedRequest, Mapping[str, Any]], JSONObject]
"""Answers a call of a served tool: returns the envelope, or raises PflowError. Runs in a worker thread."""


@attrs.frozen(kw_only=True)
class ServedTool:
    """A tool that pflow serves to MCP clients.

    Attributes:
        description: What it does and when to call it, written for an agent.
        bare: Whether its structured result is the `data` of the envelope alone, as `output_schema` says;
            a failure is the envelope in any case.
        reveals: Whether its answer is not redacted while the user's config allows secrets to be shown.
        beside_error: What the envelopes of its failures also have.
    """

    name: str
    title: str
    description: str
    input_schema: JSONObject
    output_schema: JSONObject
    claims: Claims
    answer: Answer
    bare: bool = False
    reveals: bool = False
    beside_error: JSONObject = attrs.field(factory=dict)


def without(hidden: Collection[str], text: str) -> str:
    """Return a text on served tools, for agents, without sentences that name tools that are not served."""
    sentences = re.split(r"(?<=[.]) ", text)
    return " ".join(it for it in sentences if not any(name in it for name in hidden))


_SHOWN = 200
_COMPARED = 80


def shown(name: str) -> str:
    """Return a name in the call of a served tool as messages quote it: at most 200 characters."""
    return abbreviated(name, _SHOWN)


def nearest(name: str, names: Collection[str], otherwise: str = "") -> str:
    """Return `Did you mean ...?` with the name most similar to the one in a call of a served tool."""
    lowered = {known.lower(): known for known in names}
    close = closest(name[:_COMPARED].lower(), lowered)
    return f"Did you mean {lowered[close[0]]}?" if close else otherwise


def checked_arguments(tool: ServedTool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of a served tool, checked: names, required ones, types and sizes.

    What is inside an object or list is left to the tool, except that the items of a list have a type. Where
    an integer is wanted, 3.0 is one, as in JSON Schema.
    """
    schema: Mapping[str, Any] = tool.input_schema
    properties = schema.get("properties", {})
    whole = {
        name: int(value)
        for name, value in given.items()
        if isinstance(value, float)
        and value.is_integer()
        and properties.get(name, {}).get("type") in ("integer", ["integer", "null"])
    }
    arguments = {**given, **whole}
    problems = tuple(_problems(schema, arguments))
    if problems:
        names = ", ".join(schema.get("properties", {})) or "none"
        raise PflowError(
            f"Invalid arguments for {tool.name}: {'; '.join(problem.message for problem in problems)}",
            kind="validation",
            problems=problems,
            suggestions=(*(it.suggestion for it in problems if it.suggestion), f"Its arguments: {names}"),
        )
    return arguments


def _problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            yield Problem(message=f"{name} is missing", path=f"$.{name}", suggestion=f"Pass {name}")
    for name, value in arguments.items():
        if name in properties:
            yield from _wrong_type(f"$.{name}", name, properties[name], value)
        elif schema.get("additionalProperties") is False:
            unknown, hint = shown(name), nearest(name, properties)
            yield Problem(message=f"there is no argument {unknown}", path=f"$.{unknown}", suggestion=hint)


def _wrong_type(path: str, name: str, schema: Mapping[str, Any], value: object) -> Iterator[Problem]:
    wanted = schema.get("type", ())
    types = (wanted,) if isinstance(wanted, str) else wanted
    # type(value) instead of isinstance: in Python, unlike JSON, True is an int
    if types and not any(type(value) in PYTHON_TYPES[kind] for kind in types):
        expected = " or ".join(types)
        found = next(kind for kind, types in PYTHON_TYPES.items() if type(value) in types)
        yield Problem(message=f"{name} must be of type {expected}, not {found}", path=path)
    elif isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        said = f"{name} has {len(value):,} characters, at most {schema['maxLength']:,} are accepted"
        yield Problem(message=said, path=path)
    elif isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        said = f"{name} has {len(value):,} items, at most {schema['maxItems']:,} are accepted"
        yield Problem(message=said, path=path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _wrong_type(f"{path}[{index}]", f"{name}[{index}]", schema["items"], item)


def selected(
    tools: Sequence[ServedTool], patterns: Sequence[str], *, read_only: bool = False
) -> tuple[ServedTool, ...]:
    """Return the served tools that patterns choose by name, such as `registry_*`; all without patterns."""
    for pattern in patterns:
        if not matching(tools, [pattern]):
            names = [tool.name for tool in tools]
            hint = nearest(pattern, names, f"The tools: {', '.join(names)}")
            raise PflowError(f"There is no tool {pattern}", kind="usage", suggestions=(hint,))
        if not matching(tools, [pattern], read_only=read_only):
            hint = "Name other tools, or leave out --read-only"
            raise PflowError(f"--read-only leaves no tool {pattern}", kind="usage", suggestions=(hint,))
    return matching(tools, patterns, read_only=read_only)


def matching(
    tools: Sequence[ServedTool], patterns: Sequence[str], *, read_only: bool = False
) -> tuple[ServedTool, ...]:
    """Return the served tools that patterns choose by name; unlike in `selected`, one may match no tool."""
    return tuple(
        tool
        for tool in tools
        if (not patterns or any(fnmatchcase(tool.name, pattern) for pattern in patterns))
        and (tool.claims.read_only or not read_only)
    )


_Part = TypeVar("_Part")


def runner_of(host: Host) -> Runner:
    """Return the host's runner, which a served tool needs; raise `PflowError` if the host has none."""
    return _present(host.runner, "run workflows")


def library_of(host: Host) -> Library:
    """Return the host's library for the call of a served tool; raise `PflowError` if the host has none."""
    return _present(host.library, "save workflows")


def settings_of(host: Host) -> Settings:
    """Return the host's settings, which a served tool needs; raise `PflowError` if the host has none."""
    return _present(host.settings, "save settings")


def traces_of(host: Host) -> Traces:
    """Return the host's traces, which a served tool needs; raise `PflowError` if the host has none."""
    return _present(host.traces, "write traces")


def _present(part: _Part | None, purpose: str) -> _Part:
    if part is None:
        raise PflowError(f"This pflow does not {purpose}", kind="usage")
    return part
