"""The inputs of a run: converted to the declared types and checked against the declarations."""

from __future__ import annotations

from collections.abc import Mapping

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, type_name
from pflow_mcp_plugin.host.workflow.findings import Findings, at, did_you_mean, listing
from pflow_mcp_plugin.host.workflow.workflow_document import InputSpec, WorkflowDocument

STILL_TO_COME = object()
"""A placeholder for an input that has not been read yet, so it is not checked."""


def bind_inputs(
    document: WorkflowDocument, given: Mapping[str, object]
) -> tuple[dict[str, object], list[Problem]]:
    """Bind the inputs of a run: return the values that it starts with, and the problems of the given ones.

    A string for an input of another type is parsed as that type: lists and objects as JSON, booleans
    as `true` or `false`. Other values are converted where nothing is lost. None, given or as default,
    for an optional input whose type excludes it counts as not given. Defaults are filled in.
    Without namespacing a run may be given more than is declared: nodes find it at the root of the
    shared store.
    """
    findings = Findings()
    declared = document.inputs
    given = {name: value for name, value in given.items() if not _is_left_out(value, declared.get(name))}
    for name in given:
        if name not in declared and (document.namespaced or is_reserved(name)):
            hint = did_you_mean(name, declared, f"The inputs are {listing(declared)}")
            findings.error(at("$.inputs", name), f"The workflow has no input {name}", hint)
    for name, spec in declared.items():
        if spec.required and name not in given and not spec.has_default:
            about = f" ({spec.description})" if spec.description else ""
            step = f", or set it: pflow settings set {spec.setting} VALUE" if spec.setting else ""
            findings.error(spec.path, f"Input {name} is required{about}", f"Pass {name}=...{step}")
    filled = (spec for spec in declared.values() if spec.has_default and not _is_left_out(spec.default, spec))
    defaults = {spec.name: _default(spec) for spec in filled}
    return {**defaults, **_typed(declared, given, findings)}, findings.problems


def _is_left_out(value: object, spec: InputSpec | None) -> bool:
    if value is not None or spec is None or (spec.required and not spec.has_default):
        return False
    return {type_name(part) for part in spec.field.types}.isdisjoint({"None", "any"})


def _typed(
    declared: Mapping[str, InputSpec], given: Mapping[str, object], findings: Findings
) -> dict[str, object]:
    values = dict(given)
    for name, spec in declared.items():
        value = given.get(name, STILL_TO_COME)
        if value is STILL_TO_COME:
            continue
        try:
            values[name] = parse_input(value, spec) if isinstance(value, str) else coerce(value, spec.field)
        except TypeMismatch as error:
            message = f"Input {name} must be {error.expected}, got {error.given}"
            findings.error(spec.path, message, _spelling(spec, value) if isinstance(value, str) else "")
    return values


def secret_values(document: WorkflowDocument, values: Mapping[str, object]) -> list[str]:
    """Return the values of the inputs of a run that are secret."""
    secret = (values.get(name) for name, spec in document.inputs.items() if spec.secret)
    return [value for value in secret if isinstance(value, str) and value]


def parse_input(text: str, spec: InputSpec) -> object:
    """Return an input of a run as typed, in its declared type.

    Raises:
        TypeMismatch: It is not of that type.
    """
    alternatives = [type_name(part) for part in spec.field.types]
    if "str" in alternatives or "any" in alternatives:
        return text
    if "bool" in alternatives and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    if "None" in alternatives and text.strip() in ("", "null"):
        return None
    return coerce(text.strip(), spec.field)


def _spelling(spec: InputSpec, text: str) -> str:
    kind = type_name(spec.type)
    if kind == "list" and "\n" in text.strip():
        return f"Write it as JSON, or declare {spec.name} as str and take lines({spec.name}) in a transform"
    if kind in ("list", "dict"):
        return f"Write it as JSON, {spec.name}='{'[...]' if kind == 'list' else '{...}'}'"
    return _SPELLINGS.get(kind, f"Write a value that is {spec.type}")


_SPELLINGS = {
    "bool": "Write true or false",
    "int": "Write a whole number in digits, such as 12",
    "float": "Write a number, such as 1.5",
}


def _default(spec: InputSpec) -> object:
    """Return an input's default in its declared type; an invalid one has been reported."""
    try:
        return coerce(spec.default, spec.field)
    except TypeMismatch:
        return spec.default
