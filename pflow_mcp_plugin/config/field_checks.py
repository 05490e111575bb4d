"""Checks of one config value: first its type, strictly, then its content.

A check receives the path of a value and the value from the file, and yields a problem for each
mistake in it. Messages never repeat values except numbers, because values may be secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflow_mcp_plugin import variable_references
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.problems import advice, errors_in, fault
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.terminal import looks

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Kind
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

Check = Callable[[str, "JSON"], Iterator[Problem]]

SCHEMA_FILE = Path(__file__).with_name("mcp-servers.schema.json")
"""The path of the server config's JSON Schema, for editors."""
RULES: Any = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
"""The JSON Schema of the config: which fields there are, their types, limits and patterns."""

_DEFS = RULES["$defs"]
DAY = _DEFS["seconds"]["maximum"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STEPS: Mapping[str, str] = {
    "trust": 'Write "pin" to be asked about changes, or "auto" to approve all',
    "policy": 'Write policy = "registered" to allow the hosts of configured servers only',
    "flow": 'Remove it, or write "client_credentials" for a machine',
}
"""What to write in a field that takes one of a few words."""


def join(path: str, key: str) -> str:
    """Return the config path of a field, `key` below `path`, quoted where TOML would quote it."""
    quoted = key if _BARE_KEY.fullmatch(key) else '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{path}.{quoted}" if path else quoted


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known field name most similar to a word, an empty string if none is."""
    from pflow_mcp_plugin.terminal.similar_names import closest

    return next(iter(closest(word.lower(), known, cutoff)), "")


def kind_of(value: object) -> str:
    """Return the type of a field's value in words, such as `a table` or `a list`."""
    # In this order: true is an int to Python.
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"),
        (str, "a string"),
        ((int, float), "a number"),
        (Mapping, "a table"),
        (list, "a list"),
        ((date, time), "a date or time"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def text(path: str, value: JSON, *, filled: bool = False, one_line: bool = False) -> Iterator[Problem]:
    """Check that a field is a string, in which every `${` is well formed; also not blank, or one line."""
    if not isinstance(value, str):
        yield from _not_string(path, value)
        return
    piece = variable_references.malformed(value)
    if piece:
        shown = looks.one_line(piece)
        yield fault(path, f"{shown} is not a reference to a variable", variable_references.remedy(piece))
    if "\x00" in value:
        yield fault(path, "Must not contain a NUL character", "Remove it")
    if filled and not value.strip():
        yield fault(path, "Must not be empty", f"Give {path.rpartition('.')[2]} a value, or remove the line")
    if one_line and has_control(value):
        yield fault(path, "Must not contain line breaks or control characters", "Write it on one line")


def url(path: str, value: JSON, *, encrypted: bool = False) -> Iterator[Problem]:
    """Check that a field is a web address, only of https if `encrypted`, or begins with a reference."""
    if encrypted and isinstance(value, str) and value[:5].lower() == "http:":
        yield fault(path, "Must be an https address", "Give the address that begins with https://")
        return
    yield from text(path, value)
    if isinstance(value, str) and not is_url(value):
        yield fault(path, "Must be an address that begins with http:// or https://", "Give the whole address")
    elif isinstance(value, str) and not has_host_and_port(value):
        yield fault(path, "The host or port is invalid", "Correct what follows ://; a port is at most 65535")


def is_url(value: str) -> bool:
    """Whether a field's value is an http or https address, or begins with a reference."""
    return _fits(_DEFS["url"], value)


def has_host_and_port(value: str) -> bool:
    """Whether an address in a field names a host and has no impossible port; references may be either."""
    from urllib.parse import urlsplit

    if variable_references.references(value):
        return True
    try:
        parts = urlsplit(value)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # from `port` too
        return False


def has_control(value: str) -> bool:
    """Whether a config value fails the check for line breaks and control characters."""
    return not _fits(_DEFS["line"], value)


def _fits(rule: Any, value: str) -> bool:
    excluded = rule.get("not", {}).get("pattern")
    return (
        len(value) >= rule.get("minLength", 0)
        and re.search(rule.get("pattern", ""), value) is not None
        and (excluded is None or re.search(excluded, value) is None)
    )


def _formed(rule: Any, wrong: str, step: str, path: str, value: JSON) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield from _not_string(path, value)
    elif not _fits(rule, value):
        yield fault(path, wrong, step)


def variable(path: str, value: JSON) -> Iterator[Problem]:
    """Check that the value of a config field is the bare name of a variable."""
    named = variable_references.references(value) if isinstance(value, str) else ()
    step = f'Write the bare name: "{named[0].name}"' if named else 'Write a name such as "API_TOKEN"'
    rule = _DEFS["auth"]["properties"]["token_env"]
    yield from _formed(rule, "Must be the name of a variable, not a value", step, path, value)


def port(path: str, value: JSON) -> Iterator[Problem]:
    """Check that a field is the number of a port."""
    last = _DEFS["auth"]["properties"]["redirect_port"]["maximum"]
    number = 0.0 if isinstance(value, bool) or not isinstance(value, int | float) else value
    if not (1 <= number <= last and number == int(number)):
        yield fault(path, "Must be the number of a port", f"Write a number from 1 to {last}")


def _flag(path: str, value: JSON) -> Iterator[Problem]:
    if not isinstance(value, bool):
        wrong = f"Must be true or false, not {kind_of(value)}"
        yield fault(path, wrong, "Write true or false, without quotes")


def _one_of(words: Sequence[str], path: str, value: JSON) -> Iterator[Problem]:
    if value not in words:
        yield fault(path, f"Must be {' or '.join(words)}", _STEPS[path.rpartition(".")[2]])


def _number(rule: Any, path: str, value: JSON) -> Iterator[Problem]:
    # In Python, True is an int.
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield fault(path, f"Must be a number, not {kind_of(value)}", "Write a number, without quotes")
        return
    above, most = rule.get("exclusiveMinimum"), rule["maximum"]
    is_high_enough = value >= rule["minimum"] if above is None else value > above
    if not (is_high_enough and value <= most):
        # Python refuses to format very long integers.
        is_long = isinstance(value, int) and abs(value) >= 10**12
        shown = "a number with many digits" if is_long else f"{value:g}"
        low = f"at least {rule['minimum']:g}" if above is None else f"greater than {above:g}"
        wrong = f"Must be {low} and at most {most:.10g}, not {shown}"
        of = "of " if above is None else ""
        yield fault(path, wrong, f"Write a number {of}{low}, at most {most:.10g}")


def pins(path: str, value: JSON) -> Iterator[Problem]:
    """Check the config field `tls_pins`: its type, a list or the path of a file, and the form of each pin."""
    if isinstance(value, str):
        yield from text(path, value, filled=True)
        return
    step = "Write 44 characters of base64; a refused connection shows the pin of the server's key"
    rule = _DEFS["tls_pins"]["else"]["items"]
    yield from _list_of(partial(_formed, rule, "Not a SHA-256 hash in base64", step), path, value)
    if value == []:
        yield fault(path, "Must not be empty", "Remove it, or add the pin of the server's key")


def client_cert(path: str, value: JSON) -> Iterator[Problem]:
    """Check that a field is a file with certificate and key, or a table of two files."""
    if isinstance(value, str):
        yield from text(path, value, filled=True)
        return
    example = '{ cert = "client.pem", key = "client.key" }'
    wrong, needs = "Must be a file, or a table of two files", ("A client_cert table needs a", "FILE")
    yield from _record(_DEFS["client_cert"]["else"], example, path, value, wrong=wrong, needs=needs)


def _record(
    rule: Any,
    example: str,
    path: str,
    value: JSON,
    *,
    wrong: str = "Must be a table",
    needs: tuple[str, str] = ("", ""),
) -> Iterator[Problem]:
    """Check that a field is a table with the fields of a rule of the schema.

    `needs` has the beginning of the message about a missing required field, and a value to suggest.
    """
    if not isinstance(value, Mapping):
        yield fault(path, f"{wrong}, not {kind_of(value)}", f"Write {path.rpartition('.')[2]} = {example}")
        return
    for key in rule.get("required", ()):
        if key not in value:
            yield fault(join(path, key), f"{needs[0]} {key}", f'Add {key} = "{needs[1]}"')
    yield from fields(path, value, checks_of(rule["properties"]))


def _host(path: str, value: JSON) -> Iterator[Problem]:
    step = 'Write a name, address or network: "api.example.com", "*.example.com", "10.0.0.0/8"'
    if not isinstance(value, str):
        yield from _not_string(path, value)
    elif not _fits(_DEFS["hosts"]["items"], value):
        yield fault(path, "Must be a host in ASCII, without scheme, port and path", step)
    elif "/" in value or ":" in value:
        from ipaddress import ip_network

        try:
            ip_network(value, strict=False)
        except ValueError:
            yield fault(path, "Not a valid address or network", step)


def fields(
    path: str, table: JSONObject, known: Mapping[str, Check], *, strict: bool = False
) -> Iterator[Problem]:
    """Check each field of a table; unknown fields are problems too."""
    for key, item in table.items():
        place = join(path, key)
        yield from known[key](place, item) if key in known else [unknown(place, key, known, strict=strict)]


def unknown(path: str, key: str, known: Mapping[str, object], *, strict: bool = False) -> Problem:
    """Return a table check's warning about an unknown field, which is kept; with `strict`, an error."""
    close = nearest(key, known)
    step = f"Did you mean {close}?" if close else f"Known here: {', '.join(known)}"
    if strict:
        return fault(path, f"Unknown field {key}", step)
    return advice(path, f"Unknown field {key}, kept but not used", step)


def checks_of(properties: Any, own: Mapping[str, Check] | None = None) -> dict[str, Check]:
    """Return the check of each field in a config table; `own` holds those that the schema cannot tell."""
    special = {**_BY_FIELD, **(own or {})}
    return {key: special.get(key) or _check_of(rule) for key, rule in properties.items() if rule is not False}


def _check_of(rule: Any) -> Check:
    if "$ref" in rule:
        name = rule["$ref"].rpartition("/")[2]
        return _BY_DEFINITION.get(name) or _check_of(_DEFS[name])
    if "enum" in rule:
        return partial(_one_of, rule["enum"])
    if rule["type"] == "boolean":
        return _flag
    if rule["type"] == "number":
        return partial(_number, rule)
    if rule["type"] == "array":
        return partial(_list_of, _check_of(rule["items"]))
    return partial(_table_of, _check_of(rule["additionalProperties"]))


def _list_of(check: Check, path: str, value: JSON) -> Iterator[Problem]:
    if not isinstance(value, list):
        wrong = f"Must be a list of strings, not {kind_of(value)}"
        yield fault(path, wrong, f'Write {path.rpartition(".")[2]} = ["...", "..."], one string for each')
        return
    for index, item in enumerate(value):
        yield from check(f"{path}[{index}]", item)


def _table_of(check: Check, path: str, value: JSON, name: Check | None = None) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        wrong = f"Must be a table of strings, not {kind_of(value)}"
        yield fault(path, wrong, f'Write {path.rpartition(".")[2]} = {{ NAME = "value" }}')
        return
    for key, item in value.items():
        yield from check(join(path, key), item)
    if name:
        for key in value:
            yield from name(join(path, key), key)


def _not_string(path: str, value: JSON) -> Iterator[Problem]:
    step = "Write one string, in quotes" if isinstance(value, Mapping | list) else "Put it in quotes"
    yield fault(path, f"Must be a string, not {kind_of(value)}", step)


def refusal(
    subject: str, problems: Sequence[Problem], *, server: str = "", kind: Kind = "config"
) -> McpError:
    """Return the error for the problems that checks of fields found; a single one is in its message."""
    message, step = f"{subject}: {len(problems)} problems", ""
    if len(problems) == 1:
        (problem,) = problems
        place = f" ({problem.path})" if problem.path else ""
        message, step = f"{subject}: {problem.message}{place}", problem.suggestion
    where = Where(server=server, phase="config")
    return McpError(message, where=where, next_step=step, problems=tuple(problems), kind=kind)


def refuse_errors(
    subject: str, problems: Sequence[Problem], *, server: str = "", kind: Kind = "config"
) -> None:
    """Refuse config fields, or another subject, if their checks found more than warnings: raise the error."""
    errors = errors_in(problems)
    if errors:
        raise refusal(subject, errors, server=server, kind=kind)


_variable_name = partial(
    _formed,
    _DEFS["server"]["properties"]["env"]["propertyNames"],
    "Not the name of a variable",
    "Use letters, digits and underscores",
)
_header_name = partial(
    _formed,
    _DEFS["headerName"],
    "Not the name of an HTTP header",
    "Use letters, digits and hyphens, as in X-API-Key",
)

_BY_DEFINITION: Mapping[str, Check] = {
    "text": text,
    "filled": partial(text, filled=True),
    "line": partial(text, one_line=True),
    "credential": partial(text, filled=True, one_line=True),
    "url": url,
    "headerName": _header_name,
    "hosts": partial(_list_of, _host),
    "tls_pins": pins,
    "client_cert": client_cert,
    "protocol": partial(
        _formed,
        _DEFS["protocol"],
        "Must be auto, handshake or a protocol version",
        'Write "auto", or a version such as "2025-11-25"',
    ),
    "tools": partial(_record, _DEFS["tools"], '{ allow = ["get_*"], deny = [] }'),
    "recipe": partial(
        _record, _DEFS["recipe"], '{ tool = "...", happened = "..." }', needs=("A recipe needs", "...")
    ),
}
"""The checks of what the schema defines by name, where there is more to say about a mistake."""
_BY_FIELD: Mapping[str, Check] = {
    "type": text,  # what else is wrong with it depends on the other fields
    "env": partial(_table_of, text, name=_variable_name),
    "headers": partial(_table_of, partial(text, one_line=True), name=_header_name),
    "token_env": variable,
    "client_metadata_url": partial(url, encrypted=True),
    "redirect_port": port,
}
"""The same, by the name of a field."""
