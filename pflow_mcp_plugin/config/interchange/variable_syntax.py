"""References to variables: from the syntax of another client to ours and back, or in place of secrets.

Ours is `${NAME}` and `${NAME:-default}`, with `$${` for a literal `${`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin import secret_detection, variable_references
from pflow_mcp_plugin.config import auth, display, field_checks
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
    """Return a value of a client in our syntax."""
    problems: list[Problem] = []

    def braced(piece: re.Match[str]) -> str:
        inside = piece["inside"]
        if inside is None:
            return "$${"
        if inside in known:
            return known[inside]
        reference = _REFERENCE.fullmatch(inside)
        if reference and inside not in PREDEFINED:
            name, default = reference["name"], reference["default"]
            return f"${{{name}}}" if default is None else f"${{{name}:-{default}}}"
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


def _no_equivalent(path: str, piece: str, kind: str) -> Problem:
    step = {
        "cmd": "Keep the command: pflow settings set KEY --from-command 'COMMAND', and write ${KEY}",
        "command": "Keep the command: pflow settings set KEY --from-command 'COMMAND', and write ${KEY}",
        "file": "Read it by command: pflow settings set KEY --from-command 'cat FILE', and write ${KEY}",
        "input": "The file defines no such input; write ${NAME}, and set it: pflow settings set NAME VALUE",
    }.get(kind, "Write the folder itself")
    shown = f"${{{kind}:...}}" if kind and piece.startswith("$") else piece  # a command may contain secrets
    return fault(path, f"{shown} has no equivalent", step)


_SHORTEST = 4

IsTaken = Callable[[str, str], bool]
"""Tells whether a variable has a value other than the one given."""


@attrs.frozen(kw_only=True)
class LiteralSecret:
    """A secret that is written out.

    Attributes:
        field: Its field in the table, such as `env.API_KEY`.
        variable: The variable that could hold it.
        value: The secret.
    """

    field: str
    variable: str
    value: str = attrs.field(repr=False)


@attrs.frozen
class _Span:
    """A secret in a string: the field's path, a word for it, its start and end."""

    field: str
    word: str
    text: str
    start: int
    end: int


def extracted(
    server: str, table: dict[str, Any], is_taken: IsTaken
) -> tuple[dict[str, Any], tuple[LiteralSecret, ...]]:
    """Return a table with a reference in place of each literal secret, and the secrets.

    A variable of the server's `env` is called the same outside; anything else, and a name that is taken,
    begins with the server's name.
    """
    secrets: list[LiteralSecret] = []
    given: dict[str, str] = {}

    def replaced(spans: list[_Span], text: str) -> str:
        for span in sorted(spans, key=lambda span: -span.start):
            value = text[span.start : span.end].replace("$${", "${")
            name = _free_name(
                server,
                span,
                value,
                lambda name, value: is_taken(name, value) or given.get(name, value) != value,
            )
            given[name] = value
            secrets.append(LiteralSecret(field=span.field, variable=name, value=value))
            text = f"{text[: span.start]}${{{name}}}{text[span.end :]}"
        return text

    changed = dict(table)
    for key in ("env", "headers", "auth"):
        if isinstance(changed.get(key), Mapping):
            changed[key] = {
                name: replaced(list(_spans(key, name, value)), value) if isinstance(value, str) else value
                for name, value in changed[key].items()
            }
    args = changed.get("args")
    if isinstance(args, list) and all(isinstance(item, str) for item in args):
        changed["args"] = _in_args(str(changed.get("command", "")), args, replaced)
    if isinstance(changed.get("url"), str):
        changed["url"] = replaced(list(_in_url("url", changed["url"])), changed["url"])
    return changed, tuple(secrets)


def _spans(key: str, name: str, value: str) -> Iterator[_Span]:
    if variable_references.references(value):
        return
    field = field_checks.join(key, name)
    is_whole = (
        name in auth.SECRET and name != "username" if key == "auth" else secret_detection.is_secret(name)
    )
    if not is_whole:
        yield from _in_url(field, value)
        return
    start = value.rstrip().rfind(" ") + 1 if key == "headers" else 0  # after `Bearer`
    if len(value) - start >= _SHORTEST:
        yield _Span(field, name if key == "env" else f"_{name}", value, start, len(value))


def _in_args(command: str, args: list[str], replaced: Callable[[list[_Span], str], str]) -> list[str]:
    """Return the arguments with references for secrets, but none for what may be a program or its code."""
    spans: dict[int, list[_Span]] = {}
    started = display.startable([command, *args])
    for index, start in secret_detection.in_arguments(args):
        text = args[index]
        is_word = len(text[start:].split()) == 1 or display.is_secret_only(text[start:])
        if not is_word or (start == 0 and index in started):
            continue
        option = text[:start].strip("-=: ") or args[index - 1].strip("-")
        if len(text) - start >= _SHORTEST and not variable_references.references(text):
            at = start + text[start:].rstrip().rfind(" ") + 1
            spans[index] = [_Span(f"args[{index}]", f"_{option}", text, at, len(text))]
    for index, text in enumerate(args):
        spans.setdefault(index, list(_in_url(f"args[{index}]", text)))
    return [replaced(spans[index], text) for index, text in enumerate(args)]


def _in_url(field: str, text: str) -> Iterator[_Span]:
    """Yield the secrets of URLs in a string: passwords, and values of the query."""
    end = 0
    for value in sorted(set(secret_detection.in_urls(text)), key=text.index):
        start = text.find(value, end)
        if start >= 0 and len(value) >= _SHORTEST and not variable_references.references(value):
            before = text[:start].rstrip("=")
            in_query = text[start - 1 : start] == "="
            word = before[max(before.rfind("?"), before.rfind("&")) + 1 :] if in_query else "password"
            end = start + len(value)
            yield _Span(field, f"_{word}", text, start, end)


def _free_name(server: str, span: _Span, value: str, is_taken: IsTaken) -> str:
    own = variable_name(f"{server}_{span.word}")
    names = [own] if span.word.startswith("_") else [variable_name(span.word), own]
    names += [f"{own}_{number}" for number in range(2, 100)]
    return next((name for name in names if not is_taken(name, value)), own)
