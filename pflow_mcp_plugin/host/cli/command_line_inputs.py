"""Inputs of a workflow and params of a node, as they are typed or piped in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.direct.link_words import PIPED, file_text
from pflow_mcp_plugin.host.standard_streams import is_terminal, piped_text, whole_input
from pflow_mcp_plugin.host.workflow import STILL_TO_COME, load_workflow
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch
from pflow_mcp_plugin.host.workflow.document_reader import read_document
from pflow_mcp_plugin.host.workflow.findings import Findings, TooManyProblems
from pflow_mcp_plugin.host.workflow.workflow_document import InputSpec, normalise
from pflow_mcp_plugin.host.workflow.workflow_text import read_text
from pflow_mcp_plugin.terminal.looks import printable

Check = Callable[[Mapping[str, object]], object]
"""Raises if the workflow or its inputs are invalid."""
Lookup = Callable[[str], str | None]
"""Returns a setting, None if it is not set."""


def parse_inputs(words: Sequence[str]) -> dict[str, str]:
    """Parse `name=value` words of the command line as inputs; a repeated name is an error."""
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise PflowError(f"Invalid input {word!r}", suggestions=("Write NAME=VALUE",), kind="usage")
        if name in values:
            raise PflowError(f"The input {name} is given twice", kind="usage")
        values[name] = value
    return values


def complete_inputs(
    document: JSONObject,
    typed: Mapping[str, str],
    file: str | None,
    check: Check,
    setting: Lookup,
    known: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return the inputs of a run: known, typed, from files, settings or standard input, or asked for.

    A typed value `-` is standard input, and `@FILE` the text of a file; `@@` begins a text that starts with
    `@`. The workflow is checked before anything is read from standard input or asked, so that a mistake is
    reported without waiting; `STILL_TO_COME` stands for the values that follow.
    """
    piped = _piped(typed, file)
    declared = declared_inputs(document)
    values: dict[str, object] = dict(known or {})
    values |= {name: _text(text) for name, text in typed.items() if text not in PIPED}
    waiting = dict.fromkeys(piped, STILL_TO_COME)
    if file is not None:
        if file == "-":
            check({**dict.fromkeys(declared, STILL_TO_COME), **values})
        text = whole_input() if file == "-" else read_text(Path(file).expanduser())
        found = load_workflow(text, "standard input" if file == "-" else file, "the value of --inputs")
        values = {**{name: value for name, value in found.items() if name not in typed}, **values}
    for name, spec in declared.items():
        if spec.setting and name not in values and name not in waiting:
            saved = os.environ.get(spec.setting) or setting(spec.setting)
            values |= {} if saved is None else {name: saved}
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        needed = [spec for spec in declared.values() if spec.required and not spec.has_default]
        lacking = [spec for spec in needed if spec.name not in values and spec.name not in waiting]
        if lacking:
            check({**values, **waiting, **dict.fromkeys((spec.name for spec in lacking), STILL_TO_COME)})
        values |= {spec.name: _ask(spec) for spec in lacking}
    if piped:
        check({**values, **waiting})
        values[piped[0]] = whole_input()
    elif file != "-":
        values |= _piped_input(declared, values, check)
    return values


def typed_values(typed: Mapping[str, str]) -> dict[str, str]:
    """Return the values typed as inputs of one node: `-` is standard input, `@FILE` the text of a file."""
    _piped(typed)
    return {name: whole_input() if text in PIPED else _text(text) for name, text in typed.items()}


def _piped(typed: Mapping[str, str], file: str | None = None) -> list[str]:
    piped = [name for name, text in typed.items() if text in PIPED]
    if len(piped) + (file == "-") > 1:
        message = "Standard input can be the value of only one input"
        raise PflowError(message, suggestions=("Read the others from files: NAME=@FILE",), kind="usage")
    return piped


def _text(word: str) -> str:
    if word.startswith("@@"):
        return word[1:]
    return file_text(Path(word[1:]), word) if word.startswith("@") and len(word) > 1 else word


def _piped_input(
    declared: Mapping[str, InputSpec], given: Mapping[str, object], check: Check
) -> dict[str, str]:
    """Read the input declared with `"stdin": true` from standard input, if it is piped in and not given.

    Empty standard input counts as no value if the input is optional. A single line comes without its line
    end.
    """
    spec = next((spec for spec in declared.values() if spec.stdin), None)
    if spec is None or spec.name in given or sys.stdin is None or sys.stdin.isatty():
        return {}
    check({**given, spec.name: STILL_TO_COME})
    text = piped_text()
    return {spec.name: text} if text or (spec.required and not spec.has_default) else {}


def declared_inputs(document: JSONObject) -> Mapping[str, InputSpec]:
    """Return the workflow's inputs that a command line may give; malformed ones are left out."""
    try:
        return read_document(normalise({"inputs": document.get("inputs"), "nodes": []}), Findings()).inputs
    except TooManyProblems:  # the check of the workflow says so
        return {}


def _ask(spec: InputSpec) -> object:
    """Ask for an input that the command line lacks until its value has the declared type; hide a secret."""
    about = f" ({spec.description})" if spec.description else ""
    kinds = ", ".join([*([] if spec.type in ("any", "str", "string") else [spec.type]), *spec.limits])
    question = printable(f"{spec.name}{about}{f' [{kinds}]' if kinds else ''}")
    # The text is taken as typed: click must not guess a type for it.
    try:
        return click.prompt(question, hide_input=spec.secret, value_proc=partial(_value, spec), err=True)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
        message = f"Input {spec.name} is required, and the input from the terminal ended"
        raise PflowError(message, suggestions=(f"Pass {spec.name}=VALUE",), kind="usage") from abort


def _value(spec: InputSpec, text: str) -> object:
    try:
        return spec.value(text)
    except TypeMismatch as error:
        given = "that is not" if spec.secret else f"got {error.given}"
        raise click.UsageError(f"{spec.name} must be {error.expected}, {given}") from error
