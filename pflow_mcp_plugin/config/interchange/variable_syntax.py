"""References to variables, from the syntax of another client to ours and back.

Ours is `${NAME}` and `${NAME:-default}`, with `$${` for a literal `${`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from pflow_mcp_plugin import variable_references
from pflow_mcp_plugin.config.field_checks import fault
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.variable_references import VariableReference

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_BRACED = re.compile(r"\$\{(?P<inside>[^{}]*)\}|(?P<open>\$\{)")
_DOLLAR = re.compile(rf"(?<!\$)\$(?P<name>{_NAME})")
_CURLY = re.compile(rf"\{{env:(?P<name>{_NAME})\}}|\{{file:(?P<file>[^{{}}]*)\}}")
_REFERENCE = re.compile(rf"(?:env:)?(?P<name>{_NAME})(?::-(?P<default>.*))?", re.DOTALL)
_SPECIAL = re.compile(r"(?P<kind>[A-Za-z]+):")

PREDEFINED = frozenset(
    {"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "cwd", "file", "__dirname"}
)
"""Words that editors and bundles use for folders. They are not variables of the environment."""


@attrs.frozen(kw_only=True)
class VariableSyntax:
    """How a client writes references.

    Attributes:
        reference: The form of one, with `NAME` for the name; empty if the client expands nothing.
        with_default: The form of one with a default, empty if it has none.
        dollar: Whether it expands `$NAME` too.
        curly: Whether it expands `{env:NAME}` instead of `${...}`.
        inputs: Whether it asks the user for `${input:id}`.
        fields: The fields in which it expands references; empty for all.
    """

    reference: str = ""
    with_default: str = ""
    dollar: bool = False
    curly: bool = False
    inputs: bool = False
    fields: tuple[str, ...] = ()

    def within(self, field: str) -> VariableSyntax:
        """Return the syntax in a field, such as `headers.Authorization`."""
        name = field.partition(".")[0].partition("[")[0]
        return self if not self.fields or name in self.fields else NONE


NONE = VariableSyntax()
OURS = VariableSyntax(reference="${NAME}", with_default="${NAME:-DEFAULT}")
PREFIXED = VariableSyntax(reference="${env:NAME}")
INPUTS = VariableSyntax(reference="${env:NAME}", with_default="${input:ID}", inputs=True)
DOLLAR = VariableSyntax(reference="${NAME}", with_default="${NAME:-DEFAULT}", dollar=True)
CURLY = VariableSyntax(reference="{env:NAME}", curly=True)


def variable_name(text: str) -> str:
    """Return a name for the variable that holds what a client calls `text`: `API_KEY` for `api-key`."""
    name = re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")
    return name if variable_references.is_variable(name) else f"VALUE_{name}".rstrip("_")


def read(path: str, text: str, syntax: VariableSyntax, known: Mapping[str, str]) -> tuple[str, list[Problem]]:
    """Return a value of a client in our syntax.

    Args:
        path: Its config path, for problems.
        text: The value.
        syntax: The client's syntax. `${NAME}` is read as a reference whether the client expands it or not.
        known: What stands between `${` and `}`, with the text in our syntax that takes its place.

    Returns:
        The value, and the problems of what has no equivalent. It must not be used if there are any.
    """
    problems: list[Problem] = []

    def braced(piece: re.Match[str]) -> str:
        inside = piece["inside"]
        if inside is None:
            return "$${"
        if inside in known:
            return known[inside]
        reference = _REFERENCE.fullmatch(inside)
        if reference and inside not in PREDEFINED:
            return _ours(reference["name"], reference["default"])
        special = _SPECIAL.match(inside)
        if special or inside in PREDEFINED:
            problems.append(_no_equivalent(path, piece[0], special["kind"] if special else ""))
        return "$" + piece[0]

    def curly(piece: re.Match[str]) -> str:
        if piece["name"]:
            return f"${{{piece['name']}}}"
        problems.append(_no_equivalent(path, piece[0], "file"))
        return piece[0]

    converted = _BRACED.sub(braced, text)
    if syntax.dollar:
        converted = _DOLLAR.sub(r"${\g<name>}", converted)
    return _CURLY.sub(curly, converted) if syntax.curly else converted, problems


def write(text: str, syntax: VariableSyntax) -> tuple[str, list[str]]:
    """Return a value of ours in a client's syntax, and what the client cannot say, in words."""
    lost: list[str] = []

    def reference(ref: VariableReference) -> str:
        form = syntax.reference
        if not form:
            lost.append(f"it does not expand ${{{ref.name}}}")
            return f"${{{ref.name}}}"
        if is_input(ref, syntax):
            return f"${{input:{input_id(ref.name)}}}"
        if ref.default is not None:
            if syntax.with_default:
                return syntax.with_default.replace("NAME", ref.name).replace("DEFAULT", ref.default)
            lost.append(f"the default of ${{{ref.name}}}")
        return form.replace("NAME", ref.name)

    converted = variable_references.substitute(text, reference)
    if syntax.reference and not syntax.curly and "$${" in text:
        lost.append("a literal ${, which it would expand")
    if syntax.dollar and _DOLLAR.search(text):
        lost.append("a literal $, which it would expand")
    return converted, lost


def is_input(ref: VariableReference, syntax: VariableSyntax) -> bool:
    """Whether a client's syntax refers to a variable as an input: a secret, or one with a default."""
    from pflow_mcp_plugin import secret_detection

    return syntax.inputs and (ref.default is not None or secret_detection.is_secret(ref.name))


def input_id(name: str) -> str:
    """Return the id of the input that stands for a variable: `api-key` for `API_KEY`."""
    return name.lower().replace("_", "-")


def input_definition(ref: VariableReference) -> dict[str, Any]:
    """Return the definition of the input to which a variable's reference `${input:id}` refers."""
    default = {} if ref.default is None else {"default": ref.default}
    about = {"type": "promptString", "id": input_id(ref.name), "description": ref.name}
    return {**about, **default} if default else {**about, "password": True}


def _ours(name: str, default: str | None) -> str:
    return f"${{{name}}}" if default is None else f"${{{name}:-{default}}}"


def _no_equivalent(path: str, piece: str, kind: str) -> Problem:
    step = {
        "cmd": "Keep the command: pflow settings set KEY --from-command 'COMMAND', and write ${KEY}",
        "command": "Keep the command: pflow settings set KEY --from-command 'COMMAND', and write ${KEY}",
        "file": "Read it by command: pflow settings set KEY --from-command 'cat FILE', and write ${KEY}",
        "input": "The file defines no such input; write ${NAME}, and set it: pflow settings set NAME VALUE",
    }.get(kind, "Write the folder itself")
    shown = f"${{{kind}:...}}" if kind and piece.startswith("$") else piece  # a command may contain secrets
    return fault(path, f"{shown} has no equivalent", step)
