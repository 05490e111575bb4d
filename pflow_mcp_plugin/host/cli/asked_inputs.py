"""Inputs of a workflow that are asked for on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import click

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch
from pflow_mcp_plugin.host.workflow.document_reader import read_document
from pflow_mcp_plugin.host.workflow.findings import Findings
from pflow_mcp_plugin.host.workflow.workflow_document import InputSpec, normalise, parse_input
from pflow_mcp_plugin.terminal.printable_text import printable


def lacking(document: JSONObject, given: Mapping[str, object]) -> list[InputSpec]:
    """Return the inputs that a run needs and was not given."""
    inputs = read_document(normalise({"inputs": document.get("inputs"), "nodes": []}), Findings()).inputs
    return [
        spec for spec in inputs.values() if spec.required and not spec.has_default and spec.name not in given
    ]


def ask(spec: InputSpec) -> object:
    """Ask for an input until its value has the declared type; a secret one is not shown.

    Raises:
        click.Abort: The user ended the program instead.
        PflowError: The user ended the input instead.
    """
    about = f" ({spec.description})" if spec.description else ""
    kind = "" if spec.type in ("any", "str", "string") else f" [{spec.type}]"
    question = printable(f"{spec.name}{about}{kind}")
    # Whatever is typed is taken, also what looks like a type that click knows.
    try:
        return click.prompt(question, hide_input=spec.secret, value_proc=partial(_value, spec), err=True)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
        message = f"Input {spec.name} is required, and the input from the terminal ended"
        raise PflowError(message, suggestions=(f"Pass {spec.name}=VALUE",), kind="usage") from abort


def _value(spec: InputSpec, text: str) -> object:
    try:
        return parse_input(text, spec)
    except TypeMismatch as error:
        given = "that is not" if spec.secret else f"got {error.given}"
        raise click.UsageError(f"{spec.name} must be {error.expected}, {given}") from error
