"""Inputs of a workflow and params of a node, as they are typed or piped in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.direct.link_words import file_text
from pflow_mcp_plugin.host.standard_streams import is_terminal, piped_text, whole_input
from pflow_mcp_plugin.terminal.printable_text import printable

if TYPE_CHECKING:  # `registry` has params, too, and loads nothing of workflows
    from pflow_mcp_plugin.host.workflow.workflow_document import InputSpec

Check = Callable[[Mapping[str, object]], object]
"""Raises if the workflow or its inputs are invalid."""
Lookup = Callable[[str], str | None]
"""Returns a setting, None if it is not set."""


def parse_inputs(words: Sequence[str]) -> dict[str, str]:
    """Parse `name=value` words of the command line; a repeated name is an error."""
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            message = f"Invalid input {word!r}"
            raise PflowError(message, suggestions=("Write NAME=VALUE",), kind="usage")
        if name in values:
            message = f"The input {name} is given twice"
            raise PflowError(message, kind="usage")
        values[name] = value
    return values


def complete_inputs(
    document: JSONObject, typed: Mapping[str, str], file: str | None, check: Check, setting: Lookup
) -> dict[str, object]:
    """Return the inputs of a run: typed, from files, from settings, from standard input, and asked for.

    A typed value `-` is standard input, and `@FILE` the text of a file; `@@` begins a text that starts with
    `@`. The workflow is checked before anything is read from standard input or asked, so that a mistake is
    reported without waiting; `STILL_TO_COME` stands for the values that follow.
    """
    from pflow_mcp_plugin.host.workflow import STILL_TO_COME

    piped = [name for name, text in typed.items() if text == "-"]
    if len(piped) + (file == "-") > 1:
        message = "Standard input can be the value of only one input"
        raise PflowError(message, suggestions=("Read the others from files: NAME=@FILE",), kind="usage")
    values: dict[str, object] = {name: _text(text) for name, text in typed.items() if text != "-"}
    waiting = dict.fromkeys(piped, STILL_TO_COME)
    if file is not None:
        if file == "-":
            check({**dict.fromkeys(_declared(document), STILL_TO_COME), **values})
        found = _object(file)
        values = {**{name: value for name, value in found.items() if name not in typed}, **values}
    values |= _from_settings(document, {**values, **waiting}, setting)
    values |= _asked(document, {**values, **waiting}, check)
    if piped:
        check({**values, **waiting})
        values[piped[0]] = whole_input()
    elif file != "-":
        values |= piped_inputs(document, values, check)
    return values


def _text(word: str) -> str:
    if word.startswith("@@"):
        return word[1:]
    return file_text(Path(word[1:]), word) if word.startswith("@") and len(word) > 1 else word


def _object(file: str) -> JSONObject:
    from pflow_mcp_plugin.host.workflow import load_workflow
    from pflow_mcp_plugin.host.workflow.workflow_text import read_text

    text = whole_input() if file == "-" else read_text(Path(file).expanduser())
    return load_workflow(text, "standard input" if file == "-" else file, "the value of --inputs")


def _declared(document: JSONObject) -> dict[str, JSONObject]:
    inputs = document.get("inputs")
    declared = inputs.items() if isinstance(inputs, dict) else ()
    return {name: spec for name, spec in declared if isinstance(spec, dict)}


def _from_settings(document: JSONObject, given: Mapping[str, object], setting: Lookup) -> dict[str, object]:
    """Return the inputs that name a setting: the environment variable of that name, else the setting."""
    found: dict[str, object] = {}
    for name, spec in _declared(document).items():
        key = spec.get("setting")
        if isinstance(key, str) and key and name not in given:
            value = os.environ.get(key) or setting(key)
            if value is not None:
                found[name] = value
    return found


def _asked(document: JSONObject, given: Mapping[str, object], check: Check) -> dict[str, object]:
    """Return the required inputs that nobody gave, asked for on a terminal; none off a terminal."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return {}
    from pflow_mcp_plugin.host.workflow import STILL_TO_COME

    specs = lacking(document, given)
    if not specs:
        return {}
    check({**given, **dict.fromkeys((spec.name for spec in specs), STILL_TO_COME)})
    return {spec.name: ask(spec) for spec in specs}


def piped_inputs(document: JSONObject, given: Mapping[str, object], check: Check) -> dict[str, str]:
    """Read the input that the workflow declares with `"stdin": true` as it is piped in.

    Only if its value is not given, and after the check, so that a mistake is reported without waiting. Empty
    standard input counts as no value if the input can do without. A single line comes without its end.
    """
    declared = _declared(document)
    wanted = [name for name, spec in declared.items() if spec.get("stdin") is True]
    if not wanted or wanted[0] in given or sys.stdin is None or sys.stdin.isatty():
        return {}
    from pflow_mcp_plugin.host.workflow import STILL_TO_COME

    name = wanted[0]
    check({**given, name: STILL_TO_COME})
    text = piped_text()
    spec = declared[name]
    can_do_without = "default" in spec or spec.get("required") is False
    return {} if not text and can_do_without else {name: text}


def lacking(document: JSONObject, given: Mapping[str, object]) -> list[InputSpec]:
    """Return the inputs that a run needs and was not given."""
    from pflow_mcp_plugin.host.workflow.document_reader import read_document
    from pflow_mcp_plugin.host.workflow.findings import Findings
    from pflow_mcp_plugin.host.workflow.workflow_document import normalise

    inputs = read_document(normalise({"inputs": document.get("inputs"), "nodes": []}), Findings()).inputs
    return [
        spec for spec in inputs.values() if spec.required and not spec.has_default and spec.name not in given
    ]


def ask(spec: InputSpec) -> object:
    """Ask for an input until its value has the declared type; a secret is not shown."""
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
    from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch
    from pflow_mcp_plugin.host.workflow.workflow_document import parse_input

    try:
        return parse_input(text, spec)
    except TypeMismatch as error:
        given = "that is not" if spec.secret else f"got {error.given}"
        raise click.UsageError(f"{spec.name} must be {error.expected}, {given}") from error
