"""One server's table, from the fields of another client to ours and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.config import field_checks, server_schema
from pflow_mcp_plugin.config.interchange import variable_syntax
from pflow_mcp_plugin.config.interchange.variable_syntax import VariableSyntax
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.types import Server
from pflow_mcp_plugin.variable_references import VariableReference, references

Table = dict[str, Any]
Rearrange = Callable[[Table], Table]
"""Moves fields that are not merely renamed. It may change its argument, a copy."""

_TRANSPORTS = {
    **{name.replace("-", ""): transport for name, transport in server_schema.SPELLINGS.items()},
    "local": "stdio",
    "httpstream": "http",
}
_GLOB = re.compile(r"[*?\[]")
_LONGEST: float = 600
"""Seconds; the default of `call_timeout_max`."""
_TEXTS = (*server_schema.REACH, "env", "ca_bundle", "client_cert", "tls_pins")


class NoEquivalent(Exception):
    """A server's table in another client's format has no equivalent in ours; the message says why."""


@attrs.frozen
class FormatField:
    """A field of a client and ours.

    Attributes:
        theirs: Its name there.
        ours: Its name here; `tools.allow` is `allow` in `tools`.
        scale: Ours is theirs times this; for milliseconds 0.001.
        negated: Whether it says the opposite, as `enabled` does of `disabled`.
        read_only: Whether it is read but not written.
    """

    theirs: str
    ours: str = attrs.field(default=attrs.Factory(lambda self: self.theirs, takes_self=True))
    scale: float = 1
    negated: bool = False
    read_only: bool = False


@attrs.frozen(kw_only=True)
class ServerFormat:
    """The format of one server's table in another client, to convert it to ours and back.

    Attributes:
        fields: The fields it has in common with us.
        types: Its transports, each with what it writes as `type`; empty for nothing.
        variables: How it writes references.
        unpack: Applied to its table before the fields are read; may raise `NoEquivalent`.
        pack: Applied to a table in our references and its field names, before references are translated.
        rearranged: The other fields that `unpack` and `pack` use.
        names_itself: Whether a server's table contains its name.
        is_ours: Whether it is pflow's own format, with `auth` and globs; others get a header and plain names.
    """

    fields: tuple[FormatField, ...]
    types: Mapping[str, str]
    variables: VariableSyntax = variable_syntax.NONE
    unpack: Rearrange = dict
    pack: Callable[[Table, list[str]], Table] = attrs.field(default=lambda table, _: table)
    rearranged: tuple[str, ...] = ()
    names_itself: bool = False
    is_ours: bool = False

    def owns(self, key: str) -> bool:
        """Whether this format writes a field of a server's table from ours; it leaves others as they are."""
        return key == "type" or key in self.rearranged or any(field.theirs == key for field in self.fields)


@attrs.frozen(kw_only=True)
class ServerReading:
    """A server of a client in our fields.

    Attributes:
        table: Its table; empty if it has no equivalent here.
        lost: Its fields that have no equivalent.
        problems: What prevents it from being used, and warnings.
        reason: Why it has no equivalent, if it has none.
    """

    table: Table = attrs.field(factory=dict)
    lost: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    reason: str = ""


@attrs.frozen(kw_only=True)
class ServerWriting:
    """A server of ours in the fields of a client.

    Attributes:
        table: Its table.
        lost: What the client cannot say, in words that begin with the field.
        inputs: The references that the client asks the user for.
        reason: Why the client cannot have this server at all, if so.
    """

    table: Table = attrs.field(factory=dict)
    lost: tuple[str, ...] = ()
    inputs: tuple[VariableReference, ...] = ()
    reason: str = ""


def read_server(path: str, given: Any, form: ServerFormat, known: Mapping[str, str]) -> ServerReading:
    """Return a client's server in our fields."""
    if not isinstance(given, Mapping):
        return ServerReading(reason=f"it is {field_checks.kind_of(given)}, not a table")
    try:
        theirs = form.unpack(dict(given))
    except NoEquivalent as error:
        return ServerReading(reason=str(error))
    table, lost = _renamed(theirs, form)
    _set_type(table)
    _set_longest(table)
    _make_strings(table)
    _drop_empty(table)
    problems: list[Problem] = []

    def translated(field: str, text: str) -> str:
        converted, found = variable_syntax.read(f"{path}.{field}", text, form.variables.within(field), known)
        problems.extend(found)
        return converted

    table = _with_texts(table, translated)
    return ServerReading(table=table, lost=lost, problems=tuple(problems))


def write_server(table: Mapping[str, Any], form: ServerFormat) -> ServerWriting:
    """Return a server of ours in the fields of a client."""
    transport = server_schema.transport_of(table) or "stdio"
    if transport not in form.types:
        return ServerWriting(reason=f"it has no {transport} servers")
    ours = dict(table) if form.is_ours else _with_header(dict(table))
    if ours is None:
        kind = table["auth"]["type"]
        why = "without writing the password out" if kind == "basic" else "in a header"
        return ServerWriting(reason=f"it cannot say auth of type {kind} {why}")
    lost: list[str] = []
    theirs = {"type": form.types[transport]} if form.types[transport] else {}
    theirs |= _their_fields(ours, form, lost)
    theirs = form.pack(theirs, lost)
    inputs: list[VariableReference] = []

    def translated(field: str, text: str) -> str:
        syntax = form.variables.within(field)
        inputs.extend(ref for ref in references(text) if variable_syntax.is_input(ref, syntax))
        converted, found = variable_syntax.write(text, syntax)
        lost.extend(f"{field}: {each}" for each in found)
        return converted

    theirs = _with_texts(theirs, translated, every=True)
    return ServerWriting(table=theirs, lost=tuple(lost), inputs=tuple(dict.fromkeys(inputs)))


def transport_named(spelling: object) -> str | None:
    """Return the transport that `type` names in another format of a server's table, None if unknown."""
    return _TRANSPORTS.get(re.sub(r"[^a-z]", "", spelling.lower())) if isinstance(spelling, str) else None


def transport_of_url(url: object) -> str:
    """Return the transport of a server whose format has a URL, but no type: clients then try both.

    The URL of an event stream ends in `/sse`.
    """
    is_stream = isinstance(url, str) and url.partition("?")[0].rstrip("/").endswith("/sse")
    return "sse" if is_stream else "http"


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
    """Write the transport out, as our config wants it."""
    given = table.get("type")
    transport = transport_named(given)
    if (
        transport is None
        and (given is None or given == "remote")
        and "command" not in table
        and "url" in table
    ):
        transport = transport_of_url(table["url"])
    if transport:
        table["type"] = transport
    if table.get("type") in (None, "stdio"):
        table.pop("type", None)


def _set_longest(table: Table) -> None:
    """Other clients have one limit for a call; ours has two, of which the second must not be shorter."""
    limit, longest = table.get("call_timeout"), table.get("call_timeout_max", _LONGEST)
    if isinstance(limit, int | float) and isinstance(longest, int | float) and limit > longest:
        table["call_timeout_max"] = limit


def _make_strings(table: Table) -> None:
    """Turn numbers and booleans in `env`, `headers` and `args` into the strings that they become there."""
    for key in ("env", "headers"):
        if isinstance(table.get(key), Mapping):
            table[key] = {str(name): _string(value) for name, value in table[key].items()}
    if isinstance(table.get("args"), list):
        table["args"] = [_string(value) for value in table["args"]]


def _drop_empty(table: Table) -> None:
    """Remove fields that say what a server has without them."""
    for key, empty in (("args", []), ("env", {}), ("headers", {}), ("disabled", False)):
        if table.get(key) == empty:
            del table[key]


def _string(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) and abs(value) < 10**300 else value


def _with_texts(table: Table, change: Callable[[str, str], str], *, every: bool = False) -> Table:
    """Return a table with the strings changed that may contain references."""
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


def _with_header(table: Table) -> Table | None:
    """Return a table with the header that its `auth` sends; None if no reference can stand in the header."""
    auth = table.pop("auth", None)
    if not auth:
        return table
    kind = auth.get("type", "bearer")
    if kind in ("basic", "oauth"):
        return None
    if kind == "api_key":
        header = {auth.get("header", "X-API-Key"): auth.get("key", "")}
    else:
        token = auth.get("token") or f"${{{auth.get('token_env')}}}"
        header = {"Authorization": f"Bearer {token}"}
    return {**table, "headers": {**table.get("headers", {}), **header}}


def _their_fields(ours: Mapping[str, Any], form: ServerFormat, lost: list[str]) -> Table:
    """Return our fields under the client's names; list those it does not have."""
    names = {field.ours: field for field in form.fields if not field.read_only}
    theirs: Table = {}
    for path, value in _leaves(ours):
        field = names.get(path)
        if field and not (path.startswith("tools.") and any(map(_GLOB.search, value)) and not form.is_ours):
            _put(theirs, field.theirs, _converted(value, field, reading=False))
        elif not _says_nothing(path, value, ours, names):
            lost.append(path)
    return theirs


def _leaves(ours: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in ours.items():
        if key == "tools" and isinstance(value, Mapping):
            yield from ((f"tools.{inner}", globs) for inner, globs in value.items())
        elif key != "type":
            yield key, value


def _says_nothing(path: str, value: Any, ours: Mapping[str, Any], names: Mapping[str, FormatField]) -> bool:
    """Whether a value is the one that a server has without it."""
    if path == "call_timeout_max" and "call_timeout" in names and "call_timeout" in ours:
        return bool(value == max(_LONGEST, ours["call_timeout"]))
    known = attrs.fields_dict(Server).get(path)
    return value in ({}, [], ()) or (known is not None and value == known.default)
