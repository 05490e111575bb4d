"""Translates one server's table, from the fields and references of another client to ours and back.

Our references are `${NAME}` and `${NAME:-default}`, with `$${` for a literal `${`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin import secret_detection, variable_references
from pflow_mcp_plugin.config import field_checks, server_schema
from pflow_mcp_plugin.config.auth import with_header
from pflow_mcp_plugin.config.server_input import transport_named, transport_of_url
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.problems import fault
from pflow_mcp_plugin.types import Server
from pflow_mcp_plugin.variable_references import VariableReference, references

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_IN_BRACES = re.compile(r"\$\{(?P<inside>[^{}]*)\}|(?P<open>\$\{)")
_DOLLAR = re.compile(rf"(?<!\$)\$(?P<name>{_NAME})")
_CURLY = re.compile(rf"\{{env:(?P<name>{_NAME})\}}|\{{file:(?P<file>[^{{}}]*)\}}")
_REFERENCE = re.compile(rf"(?:env:)?(?P<name>{_NAME})(?::-(?P<default>.*))?", re.DOTALL)
_SPECIAL = re.compile(r"(?P<kind>[A-Za-z]+):")

_COMMAND_STEP = "Keep the command: pflow settings set KEY --from-command 'COMMAND', and write ${KEY}"
_STEPS = {
    "cmd": _COMMAND_STEP,
    "command": _COMMAND_STEP,
    "file": "Read it by command: pflow settings set KEY --from-command 'cat FILE', and write ${KEY}",
    "input": "The file defines no such input; write ${NAME}, and set it: pflow settings set NAME VALUE",
}
"""What to do about a reference that has no equivalent here, by its kind."""

InputOf = Callable[[VariableReference], str]
"""Returns the id of the input that a client asks the user for in place of a reference."""

PREDEFINED = frozenset(
    {"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "cwd", "file", "__dirname"}
)
"""Words that editors and bundles use for folders. They are not variables of the environment."""


@attrs.frozen(kw_only=True)
class VariableSyntax:
    """How a client writes variables, so that references in a server's table can be translated, either way."""

    reference: str = ""  # with `NAME` for the name; empty if it expands nothing
    with_default: str = ""  # empty if it has none
    dollar: bool = False  # it expands `$NAME` too
    curly: bool = False  # it expands `{env:NAME}` instead of `${...}`
    escapes: bool = False  # it has `$${` for a literal `${`
    inputs: bool = False  # it asks the user for `${input:id}`
    fields: tuple[str, ...] = ()  # in which it expands references; empty for all

    def within(self, field: str) -> VariableSyntax:
        name = field.partition(".")[0].partition("[")[0]
        return self if not self.fields or name in self.fields else NONE


NONE = VariableSyntax()
BRACED = VariableSyntax(reference="${NAME}", with_default="${NAME:-DEFAULT}")
OURS = attrs.evolve(BRACED, escapes=True)
PREFIXED = VariableSyntax(reference="${env:NAME}")
INPUTS = VariableSyntax(reference="${env:NAME}", with_default="${input:ID}", inputs=True)
DOLLAR = VariableSyntax(reference="${NAME}", with_default="${NAME:-DEFAULT}", dollar=True)
CURLY = VariableSyntax(reference="{env:NAME}", curly=True)


def variable_name(text: str) -> str:
    """Return the variable to which a client's name for a value is translated: `API_KEY` for `api-key`."""
    name = re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")
    return name if variable_references.is_variable(name) else f"VALUE_{name}".rstrip("_")


def reference_to(variable: str, default: object = None) -> str:
    """Translate to our reference to a variable, with a default if a reference can hold its text."""
    usable = isinstance(default, str) and default and not set("${}") & set(default)
    return f"${{{variable}:-{default}}}" if usable else f"${{{variable}}}"


def read_references(
    path: str, text: str, syntax: VariableSyntax, known: Mapping[str, str]
) -> tuple[str, list[Problem]]:
    """Translate the references in a value of a client's server to ours; not to be used if there are problems.

    `${NAME}` is read as a reference whether the client expands it or not; `known` gives our text for what has
    a meaning of its own between `${` and `}`.
    """
    problems: list[Problem] = []

    def braced(piece: re.Match[str]) -> str:
        inside = piece["inside"]
        if syntax.escapes and text[: piece.start()].endswith("$"):
            return piece[0]
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
            kind = special["kind"] if special else ""
            shown = f"${{{kind}:...}}" if kind else piece[0]  # a command may contain secrets
            problems.append(
                fault(path, f"{shown} has no equivalent", _STEPS.get(kind, "Write the folder itself"))
            )
        return "$" + piece[0]

    def curly(piece: re.Match[str]) -> str:
        if piece["name"]:
            return f"${{{piece['name']}}}"
        problems.append(fault(path, f"{piece[0]} has no equivalent", _STEPS["file"]))
        return piece[0]

    converted = _IN_BRACES.sub(braced, text)
    if syntax.dollar:
        converted = _DOLLAR.sub(r"${\g<name>}", converted)
    return _CURLY.sub(curly, converted) if syntax.curly else converted, problems


def write_references(
    text: str, syntax: VariableSyntax, input_of: InputOf | None = None
) -> tuple[str, list[str]]:
    """Translate the references in a value of our server to a client's; return what is lost too, in words."""
    lost: list[str] = []
    if syntax.escapes:
        return text, lost

    def reference(ref: VariableReference) -> str:
        form = syntax.reference
        if not form:
            lost.append(f"it does not expand ${{{ref.name}}}")
            return f"${{{ref.name}}}"
        if is_input(ref, syntax):
            return f"${{input:{(input_of or input_id)(ref)}}}"
        if ref.default is not None:
            if syntax.with_default:
                return syntax.with_default.replace("NAME", ref.name).replace("DEFAULT", ref.default)
            lost.append(f"the default of ${{{ref.name}}}")
        return form.replace("NAME", ref.name)

    converted = variable_references.substitute(text, reference)
    if syntax.reference and not syntax.curly and "$${" in text:
        lost.append("a literal ${, which it would expand")
    literal = variable_references.substitute(text, lambda _: "") if syntax.curly else ""
    lost += [f"a literal {it}, which it would expand" for it in ("{env:", "{file:") if it in literal]
    if syntax.dollar and _DOLLAR.search(text):
        lost.append("a literal $, which it would expand")
    return converted, lost


def is_input(ref: VariableReference, syntax: VariableSyntax) -> bool:
    """Whether a reference of ours is translated to `${input:id}`: one to a secret, or with a default."""
    return syntax.inputs and (ref.default is not None or secret_detection.is_secret(ref.name))


def input_id(ref: VariableReference) -> str:
    """Translate the name in a reference to the id in `${input:id}`: `api-key` for `API_KEY`."""
    return ref.name.lower().replace("_", "-")


def input_definition(given: str, ref: VariableReference) -> dict[str, Any]:
    """Translate a reference into an input, `${input:id}` with the id given; return the input's definition."""
    default = {} if ref.default is None else {"default": ref.default}
    about = {"type": "promptString", "id": given, "description": ref.name}
    return {**about, **default} if default else {**about, "password": True}


Table = dict[str, Any]
Rearrange = Callable[[Table], Table]
"""Moves fields that are not merely renamed. It may change its argument, a copy."""

_GLOB = re.compile(r"[*?\[]")
_LONGEST: float = 600
"""Seconds; the default of `call_timeout_max`."""
_TEXTS = (*server_schema.REACH, "env", "ca_bundle", "client_cert", "tls_pins")


class NoEquivalent(Exception):
    """A server's table cannot be translated from another client's fields to ours; the message says why."""


@attrs.frozen
class FormatField:
    """How to translate one field of a server's table: its name there, and its equivalent in ours."""

    theirs: str  # its name there
    # `tools.allow` is `allow` in `tools`.
    ours: str = attrs.field(default=attrs.Factory(lambda self: self.theirs, takes_self=True))
    scale: float = 1  # ours is theirs times this; for milliseconds 0.001
    negated: bool = False  # it says the opposite, as `enabled` does of `disabled`
    read_only: bool = False  # it is not written


@attrs.frozen(kw_only=True)
class ServerFormat:
    """What is needed to translate one server's table from another client's fields to ours and back."""

    fields: tuple[FormatField, ...]
    types: Mapping[str, str]  # the transports, each with what it writes as `type`; empty for nothing
    variables: VariableSyntax = NONE
    unpack: Rearrange = dict  # applied before the fields are read; may raise `NoEquivalent`
    # Applied to a table in our references and its field names, before references are translated.
    pack: Callable[[Table, list[str]], Table] = attrs.field(default=lambda table, _: table)
    rearranged: tuple[str, ...] = ()  # the other fields that `unpack` and `pack` use
    names_itself: bool = False  # a server's table contains its name
    is_ours: bool = False  # it has `auth` and globs; others get a header and plain names

    def owns(self, key: str) -> bool:
        return key == "type" or key in self.rearranged or any(field.theirs == key for field in self.fields)


@attrs.frozen(kw_only=True)
class ServerReading:
    """One server's table, translated from another client's fields to ours."""

    table: Table = attrs.field(factory=dict)
    lost: tuple[str, ...] = ()  # its fields that have no equivalent
    problems: tuple[Problem, ...] = ()  # what prevents it from being used, and warnings
    reason: str = ""  # why it has no equivalent, if it has none


@attrs.frozen(kw_only=True)
class ServerWriting:
    """One server's table, translated from our fields to another client's."""

    name: str = ""
    table: Table = attrs.field(factory=dict)
    lost: tuple[str, ...] = ()  # what the client's format cannot express, in words that begin with the field
    inputs: tuple[VariableReference, ...] = ()  # references that it asks the user for
    reason: str = ""  # why the client cannot have this server at all, if so
    literals: tuple[str, ...] = ()  # fields whose secrets are written out in our config, and so there


def read_server(path: str, given: Any, form: ServerFormat, known: Mapping[str, str]) -> ServerReading:
    """Translate one server's table from another client's fields to ours."""
    if not isinstance(given, Mapping):
        return ServerReading(reason=f"it is {field_checks.kind_of(given)}, not a table")
    try:
        theirs = form.unpack(dict(given))
    except NoEquivalent as error:
        return ServerReading(reason=str(error))
    table, lost = _renamed(theirs, form)
    _set_type(table)
    # Other clients have one limit for a call; we have two, and the second must not be shorter.
    limit, longest = table.get("call_timeout"), table.get("call_timeout_max", _LONGEST)
    if isinstance(limit, int | float) and isinstance(longest, int | float) and limit > longest:
        table["call_timeout_max"] = limit
    lost += server_schema.nulls(table)
    # Numbers and booleans become strings in these fields.
    for key in ("env", "headers"):
        if isinstance(table.get(key), Mapping):
            table[key] = {str(it): _string(value) for it, value in table[key].items() if value is not None}
    if isinstance(table.get("args"), list):
        table["args"] = [_string(value) for value in table["args"]]
    for key, empty in (("args", []), ("env", {}), ("headers", {}), ("disabled", False)):
        if table.get(key) == empty:  # the default
            del table[key]
    problems: list[Problem] = []

    own = {name: f"$${{{name}}}" for name in server_schema.mapping(table.get("env"))}

    def translated(field: str, text: str) -> str:
        syntax = form.variables.within(field)
        # What a client does not expand, a program may, such as mcp-remote: from the `env` that it gets.
        stays = {} if syntax.reference == BRACED.reference or field.startswith("env") else own
        converted, found = read_references(f"{path}.{field}", text, syntax, {**known, **stays})
        problems.extend(found)
        return converted

    table = _with_texts(table, translated)
    return ServerReading(table=table, lost=lost, problems=tuple(problems))


def write_server(
    table: Mapping[str, Any], form: ServerFormat, input_of: InputOf | None = None
) -> ServerWriting:
    """Translate one server's table from our fields to another client's."""
    transport = server_schema.transport_of(table) or "stdio"
    if transport not in form.types:
        return ServerWriting(reason=f"it has no {transport} servers")
    ours = dict(table)
    auth = {} if form.is_ours else ours.pop("auth", {})
    kind = auth.get("type")
    if kind in ("basic", "oauth"):
        why = "without writing the password out" if kind == "basic" else "in a header"
        return ServerWriting(reason=f"it cannot express auth of type {kind} {why}")
    if auth:
        ours["headers"] = with_header(ours.get("headers", {}), auth)
    lost: list[str] = []
    theirs = {"type": form.types[transport]} if form.types[transport] else {}
    theirs |= _their_fields(ours, form, lost)
    theirs = form.pack(theirs, lost)
    inputs: list[VariableReference] = []

    def translated(field: str, text: str) -> str:
        syntax = form.variables.within(field)
        inputs.extend(ref for ref in references(text) if is_input(ref, syntax))
        converted, found = write_references(text, syntax, input_of)
        lost.extend(f"{field}: {each}" for each in found)
        return converted

    theirs = _with_texts(theirs, translated, every=True)
    return ServerWriting(table=theirs, lost=tuple(lost), inputs=tuple(dict.fromkeys(inputs)))


def _renamed(theirs: Mapping[str, Any], form: ServerFormat) -> tuple[Table, tuple[str, ...]]:
    known = {field.theirs: field for field in form.fields}
    table: Table = {"type": theirs["type"]} if "type" in theirs else {}
    for key, value in theirs.items():
        if key in known and value is not None:
            _put(table, known[key].ours, _converted(value, known[key], reading=True))
    lost = (str(key) for key, value in theirs.items() if key not in known and key != "type" and value)
    return table, tuple(lost)


def _put(table: Table, path: str, value: Any) -> None:
    above, _, key = path.rpartition(".")
    (table.setdefault(above, {}) if above else table)[key] = value


def _converted(value: Any, field: FormatField, *, reading: bool) -> Any:
    if field.negated and isinstance(value, bool):
        return not value
    if field.scale == 1 or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        scaled = round(value * field.scale if reading else value / field.scale, 6)
    except OverflowError:  # the check of the table reports it
        return value
    return int(scaled) if scaled.is_integer() else scaled


def _set_type(table: Table) -> None:
    given = table.get("type")
    transport = transport_named(given)
    if transport is None and given in (None, "remote") and "command" not in table and "url" in table:
        transport = transport_of_url(table["url"])
    if transport:
        table["type"] = transport
    if table.get("type") in (None, "stdio"):
        table.pop("type", None)


def _string(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) and abs(value) < 10**300 else value


def _with_texts(table: Table, change: Callable[[str, str], str], *, every: bool = False) -> Table:
    return {
        key: _changed(key, value, change) if every or key in _TEXTS else value for key, value in table.items()
    }


def _changed(field: str, value: Any, change: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return change(field, value)
    if isinstance(value, list):
        return [_changed(f"{field}[{index}]", item, change) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            key: _changed(field_checks.join(field, str(key)), item, change) for key, item in value.items()
        }
    return value


def _their_fields(ours: Mapping[str, Any], form: ServerFormat, lost: list[str]) -> Table:
    names = {field.ours: field for field in form.fields if not field.read_only}
    theirs: Table = {}
    leaves = {key: value for key, value in ours.items() if key not in ("type", "tools")}
    leaves |= {f"tools.{key}": it for key, it in server_schema.mapping(ours.get("tools")).items()}
    usual = {key: field.default for key, field in attrs.fields_dict(Server).items()}
    if "call_timeout" in names and "call_timeout" in ours:
        usual["call_timeout_max"] = max(_LONGEST, ours["call_timeout"])
    for path, value in leaves.items():
        field = names.get(path)
        if field and not (path.startswith("tools.") and any(map(_GLOB.search, value)) and not form.is_ours):
            _put(theirs, field.theirs, _converted(value, field, reading=False))
        elif value not in ({}, [], ()) and not (path in usual and value == usual[path]):
            lost.append(path)
    return theirs
