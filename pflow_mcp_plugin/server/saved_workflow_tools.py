"""Saved workflows as tools that pflow serves, one for each, with the types of its inputs and outputs."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import attrs

from pflow_mcp_plugin import workflow_chain
from pflow_mcp_plugin.contract import Field, Host, Interface, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON, JSONObject
from pflow_mcp_plugin.contract.problems import Kind, errors_in
from pflow_mcp_plugin.server import envelopes
from pflow_mcp_plugin.server.served_tool import (
    Answer,
    Claims,
    ServedRequest,
    ServedTool,
    library_of,
    runner_of,
)
from pflow_mcp_plugin.server.workflow_argument import GivenWorkflow
from pflow_mcp_plugin.server.workflow_tools import beside_run, ended

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""A valid name of a tool (protocol 2025-11-25, "Tool Names")."""
_STAYS_HERE = frozenset(
    {
        *("write-file", "read-file", "list-files", "copy-file", "move-file", "delete-file"),
        *("ask", "branch", "echo", "fail", "transform"),
    }
)
"""The nodes of pflow itself that do not reach beyond this machine."""
_SHOWN = 200


class SavedWorkflowTools:
    """The tools that serve the saved workflows of a library, and follow its changes and those of nodes.

    Without patterns such as `daily-*` they are all served. `taken` are the names of other tools.
    """

    def __init__(self, host: Host, patterns: Sequence[str] = (), taken: Collection[str] = ()) -> None:
        self._host = host
        self._patterns = patterns
        self._taken = frozenset(taken)
        self._lock = threading.Lock()
        self._fingerprint = ""
        self._tools: tuple[ServedTool, ...] = ()

    def __call__(self) -> tuple[ServedTool, ...]:
        library = self._host.library
        if library is None:
            return ()
        with self._lock:
            # What a tool claims, such as to be read-only, is what the registry says of its nodes.
            fingerprint = f"{library.fingerprint()}\n{self._host.registry.fingerprint()}"
            if fingerprint != self._fingerprint:
                names = library.names()
                self._tools = tuple(self._built(names))
                self._fingerprint = fingerprint
                for pattern in self._patterns:
                    if not any(fnmatchcase(name, pattern) for name in names):
                        message = f"--workflows {pattern} matches no saved workflow yet"
                        self._warn(message, "not_found", "See: pflow workflow list")
            return self._tools

    def _built(self, names: Sequence[str]) -> Iterator[ServedTool]:
        for name in names:
            if self._patterns and not any(fnmatchcase(name, pattern) for pattern in self._patterns):
                continue
            try:
                tool = f"workflow-{name}" if name in self._taken else name
                given = GivenWorkflow(library_of(self._host).get(name), name, saved=True)
                yield workflow_tool(self._host, given, tool)
            except PflowError as error:
                message = f"Workflow {name} is not served as a tool: {error.message}"
                self._warn(message, error.kind, f"See: pflow validate {name}")

    def _warn(self, message: str, kind: Kind, step: str) -> None:
        problem = Problem(message=message, severity="warning", kind=kind, suggestion=step, source="mcp")
        self._host.report(problem)


def workflow_tool(host: Host, given: GivenWorkflow, name: str = "", description: str = "") -> ServedTool:
    """Return the tool that a saved workflow is: its result is the outputs, or the failure's envelope."""
    runner = runner_of(host)
    name = name or given.name
    if not _NAME.fullmatch(name):
        raise PflowError(f"{name!r} is not a valid tool name", kind="usage")
    errors = errors_in(runner.validate(given.workflow))
    if errors:
        place = f"{errors[0].path}: " if errors[0].path else ""
        raise PflowError(f"{place}{errors[0].message}", kind="validation", problems=tuple(errors))
    interface = runner.interface(given.workflow)
    nodes: Any = runner.normalise(given.workflow).get("nodes", ())
    entries = [host.registry.find(str(node.get("type") or node.get("id"))) for node in nodes]
    # The effects are the worst of the nodes'; an unknown node may do anything.
    read_only = all(entry is not None and entry.purity == "flow_safe" for entry in entries)
    own = description or given.workflow.get("description")
    does = own.strip() if isinstance(own, str) and own.strip() else f"Run the workflow {given.name}."
    returns = [
        f"- {field.key} ({type_words(field)}){': ' + field.description if field.description else ''}"
        for field in interface.outputs
    ]
    return ServedTool(
        name=name,
        title=given.name.replace("-", " ").replace("_", " ").capitalize(),
        description=("\n".join([does, "", "Returns:", *returns]) if returns else does),
        input_schema=input_schema(interface),
        output_schema=output_schema(interface),
        claims=Claims(
            read_only=read_only,
            destructive=not read_only,
            idempotent=read_only,
            open_world=any(entry is None or entry.node not in _STAYS_HERE for entry in entries),
        ),
        answer=_answer(given, output_schema(interface)),
        bare=True,
    )


def _answer(given: GivenWorkflow, schema: JSONObject) -> Answer:
    @cache
    def validator() -> Any:
        from jsonschema import Draft202012Validator

        return Draft202012Validator(schema)

    def answer(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
        if given.saved:
            workflow_chain.require_no_circle(request.host, request.origin.above, given.name)
        outcome = request.runner.run(
            given.workflow, arguments, name=given.name, origin=request.origin, control=request.control
        )
        if outcome.error is not None:
            return ended(outcome, request)
        ran = envelopes.success(dict(outcome.outputs), run_id=outcome.run_id, **beside_run(outcome, request))
        envelope: dict[str, Any] = envelopes.encoded(ran)[0]
        misfits = tuple(
            Problem(message=each.message[:_SHOWN], path=each.json_path, kind="execution")
            for each in validator().iter_errors(envelope["data"])
        )
        if misfits:
            said = f"Workflow {given.name} ended, but its outputs do not have the declared types"
            error = PflowError(
                f"{said}: {misfits[0].path}: {misfits[0].message}",
                problems=misfits,
                suggestions=(
                    "A tool returned something other than it declares; sync its server: pflow mcp sync",
                ),
            )
            return ended(attrs.evolve(outcome, success=False, error=error), request)
        return envelope

    return answer


_NAMES = {friendly: name for name, friendly in FRIENDLY_NAMES.items()}
_STATED = ("enum", "minimum", "maximum", "pattern", "default")
"""What a tool's schema says of a workflow's input besides its type and description."""
_DEEPEST = 8
"""The levels of a nested schema that a tool declares; what is deeper may be anything."""


def input_schema(interface: Interface) -> dict[str, Any]:
    """Return the input schema of a saved workflow as one of pflow's tools, with the types of its inputs."""
    properties: dict[str, Any] = {}
    for field in interface.params:
        schema = field.schema if isinstance(field.schema, Mapping) else {}
        stated: dict[str, Any] = {word: schema[word] for word in _STATED if word in schema}
        if "enum" in stated and "None" in field.types and None not in stated["enum"]:
            stated["enum"] = [*stated["enum"], None]
        properties[field.key] = {**_declared(field), **stated}
    required = [field.key for field in interface.params if field.required]
    return {**envelopes.object_of(properties, required), "additionalProperties": interface.open}


def output_schema(interface: Interface) -> dict[str, Any]:
    """Return the output schema of a saved workflow as one of pflow's tools, with the types of its outputs."""
    properties: dict[str, Any] = {}
    for field in interface.outputs:
        inside = _structure(field.schema, 1)
        inside.pop("type", None)  # the field's own type may also include null
        properties[field.key] = {**inside, **_declared(field)}
    return {**envelopes.object_of(properties), "additionalProperties": bool(interface.open_outputs)}


def type_words(field: Field) -> str:
    """Return an output's type as a saved workflow's tool describes it: `integer or null`, `any value`."""
    return " or ".join(_types(field)) or "any value"


def _declared(field: Field) -> dict[str, Any]:
    types = _types(field)
    declared: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
    return {**declared, "description": field.description} if field.description else declared


def _types(field: Field) -> list[str]:
    types = [_NAMES.get(name, name) for name in field.types]
    return list(dict.fromkeys(types)) if FRIENDLY_NAMES.keys() >= set(types) else []


def _structure(schema: JSON, depth: int) -> dict[str, Any]:
    # References, choices and limits are left out: a tool must not reject a result because of details that no
    # node checks, and a reference would not resolve inside another schema.
    if not isinstance(schema, Mapping) or depth > _DEEPEST or schema.get("nullable"):
        return {}
    stated = schema.get("type")
    names = stated if isinstance(stated, list) else [stated]
    known = bool(names) and all(isinstance(name, str) and name in FRIENDLY_NAMES for name in names)
    kept: dict[str, Any] = {"type": stated} if known else {}
    if isinstance(schema.get("description"), str):
        kept["description"] = schema["description"]
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        kept["properties"] = {str(key): _structure(value, depth + 1) for key, value in properties.items()}
    required = schema.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        kept["required"] = list(dict.fromkeys(required))
    if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
        kept["items"] = _structure(schema["items"], depth + 1)
    return kept
