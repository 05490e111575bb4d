"""The inputs of a run: from text to typed values, and held against what the workflow declares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, type_name
from pflow_mcp_plugin.host.workflow.document import Document, InputSpec
from pflow_mcp_plugin.host.workflow.findings import Findings, at, did_you_mean, listing, refusal
from pflow_mcp_plugin.host.workflow.reading import read_document


def stdin_input(workflow: Any) -> str | None:
    """Return the name of the input that takes standard input, None if none does."""
    inputs = read_document(workflow, Findings()).inputs
    return next((name for name, spec in inputs.items() if spec.stdin), None)


def parse_inputs(workflow: Any, texts: Mapping[str, str], *, name: str = "") -> dict[str, Any]:
    """Return inputs given as text in the types that the workflow declares.

    Lists and objects are read as JSON, booleans as `true` or `false`. Names that the workflow does
    not declare are passed on as text for the run to judge.

    Args:
        workflow: The workflow as loaded.
        texts: What the user wrote, by input name.
        name: The workflow's name, for messages.

    Raises:
        WorkflowInvalid: Texts do not fit their types; names all of them.
    """
    declared = read_document(workflow, Findings()).inputs
    findings = Findings()
    values = {}
    for key, text in texts.items():
        try:
            values[key] = _parse(text, declared[key]) if key in declared else text
        except TypeMismatch as error:
            message = f"Input {key} must be {error.expected}, got {json.dumps(text, ensure_ascii=False)}"
            findings.error(at("$.inputs", key), message, _spelling(declared[key]))
    if findings.problems:
        raise refusal(name, findings.problems)
    return values


def _parse(text: str, spec: InputSpec) -> Any:
    alternatives = [type_name(part) for part in spec.field.types]
    if "bool" in alternatives and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    if "None" in alternatives and "str" not in alternatives and text.strip() in ("", "null"):
        return None
    # A number or JSON text may stand between blanks; a text keeps them.
    return coerce(text if {"str", "any"} & set(alternatives) else text.strip(), spec.field)


def _spelling(spec: InputSpec) -> str:
    kind = type_name(spec.type)
    if kind in ("list", "dict"):
        return f"Write it as JSON, {spec.name}='{'[...]' if kind == 'list' else '{...}'}'"
    return "Write true or false" if kind == "bool" else ""


def bind_inputs(document: Document, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values that a run starts with, defaults filled in, and what is wrong with them.

    Without namespacing a run may be given more than is declared: nodes find it at the root of the
    shared store.
    """
    findings = Findings()
    declared = document.inputs
    for name in given:
        if name not in declared and (document.namespaced or name.startswith("__")):
            hint = did_you_mean(name, declared, f"The inputs are {listing(declared)}")
            findings.error(at("$.inputs", name), f"The workflow has no input {name}", hint)
    defaults = {name: _default(spec) for name, spec in declared.items() if spec.has_default}
    for name, spec in declared.items():
        if spec.required and name not in given and not spec.has_default:
            about = f" ({spec.description})" if spec.description else ""
            findings.error(spec.path, f"Input {name} is required{about}", f"Pass {name}=...")
    return {**defaults, **given}, findings.problems


def _default(spec: InputSpec) -> Any:
    """Return an input's default in its declared type; one that does not fit has been reported."""
    try:
        return spec.default if spec.default is None else coerce(spec.default, spec.field)
    except TypeMismatch:
        return spec.default
