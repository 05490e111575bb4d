"""Turns the input of `pflow mcp add`, in any of its forms, into server tables.

Only the form is checked here; `server_schema` checks the tables when they are stored.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import cast

import attrs

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.config import display, server_schema
from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.storage.json_and_toml import decode_toml, is_too_deep, json_hint
from pflow_mcp_plugin.terminal.human_units import count_text

URLS = ("serverUrl", "httpUrl")
"""Names that other clients use for `url`; the name implies the transport."""

_TRANSPORTS = {
    **{name.replace("-", ""): transport for name, transport in server_schema.SPELLINGS.items()},
    "local": "stdio",
    "httpstream": "http",
}


@attrs.frozen(kw_only=True)
class Fitted:
    """Server input turned into tables of ours, adapted from another client, with a note about each change."""

    tables: dict[str, JSON] = attrs.field(repr=False)
    notes: tuple[Problem, ...] = ()


def fitted_table(name: str, table: JSON) -> Fitted:
    """Adapt the transport and URL of a server table given as input, from another client; its name is kept."""
    if not isinstance(table, Mapping):
        return Fitted(tables={name: table})
    notes: list[Problem] = []
    is_older = "transport" in table and "type" not in table
    named = {"type" if is_older and key == "transport" else key: value for key, value in table.items()}
    place = server_schema.server_path(name)
    given = named.get("type")
    transport = None if given in server_schema.SPELLINGS else transport_named(given)
    if transport:
        notes.append(advice(f"{place}.type", f"The type {given} is read as {transport}"))
        named["type"] = transport
    key = next((key for key in URLS if isinstance(named.get(key), str)), "")
    if key and "url" not in named:
        url = named[key]
        implied = transport_of_url(url) if key == "serverUrl" else "http"
        used = named.get("type", implied)
        notes.append(advice(f"{place}.url", f"{key} is read as url, with the type {used}"))
        rest = {other: value for other, value in named.items() if other not in (key, "type")}
        named = {"type": used, "url": url, **rest}
    return Fitted(tables={name: named}, notes=tuple(notes))


def transport_named(spelling: object) -> str | None:
    """Return the transport that `type` names in the input for a server, in any spelling; None if unknown."""
    return _TRANSPORTS.get(re.sub(r"[^a-z]", "", spelling.lower())) if isinstance(spelling, str) else None


def transport_of_url(url: object) -> str:
    """Return the transport of server input with a URL, but no type: clients then try both."""
    # The URL of an event stream ends in `/sse`.
    is_stream = isinstance(url, str) and url.partition("?")[0].rstrip("/").endswith("/sse")
    return "sse" if is_stream else "http"


def fitted_names(given: Iterable[str]) -> dict[str, str]:
    """Map the names in server input to valid ones, all different."""
    # Valid names first: they are kept, and a renamed server must not take one.
    names = {name: name for name in given if naming.is_server_name(name)}
    for name in given:
        if name not in names:
            near = naming.server_name(name)
            free = (near if number == 1 else f"{near}-{number}" for number in count(1))
            names[name] = next(candidate for candidate in free if candidate not in names.values())
    return names


_URL_FORM = "pflow mcp add NAME URL --bearer '${TOKEN}'"
_FILE_FORM = "pflow mcp add FILE.json"
FORMS = (
    "pflow mcp add PRESET",
    "pflow mcp add NAME -- COMMAND ARGS...",
    _URL_FORM,
    _FILE_FORM,
    'pflow mcp add \'{"NAME": {"command": "npx", "args": ["-y", "PACKAGE"]}}\'',
)


_LAUNCHERS = ("npx", "uvx", "bunx", "pipx")
"""Programs that download and start a server, so they are not taken for the NAME given to `add`."""

_NAMES = ("name", "server_id")
"""The fields in which a server may have its name; the second is from an older pflow."""


@attrs.frozen(kw_only=True)
class Flags:
    """Options given with server input, and turned into parts of its table; only few apply to a preset."""

    env: Sequence[str] = attrs.field(default=(), repr=False)  # `NAME=VALUE` each
    headers: Sequence[str] = attrs.field(default=(), repr=False)  # `NAME: VALUE` each
    bearer: str = attrs.field(default="", repr=False)  # a token or a reference to one
    cwd: str = ""  # of a command
    type: str | None = None  # `http` or `sse`; None means http
    insecure: bool = False  # allow plain http to other machines
    trust_readonly: bool = False  # believe the server's `readOnlyHint`
    startup_timeout: float | None = None  # in seconds; None is the usual


def refuse_flags(flags: Flags, what: str, names: Sequence[str] = ()) -> None:
    """Refuse options that server input of one form (`what`, such as a url) cannot have; by default all."""
    for name in names or [field.name for field in attrs.fields(Flags)]:
        if getattr(flags, name):
            option = "--" + {"headers": "header"}.get(name, name).replace("_", "-")
            raise PflowError(f"{option} cannot be used with {what}", suggestions=FORMS, kind="usage")


def read(words: Sequence[str], flags: Flags) -> Fitted:
    """Return the server tables made from an input: a URL, a command, a file or JSON."""
    first = words[0].strip() if words else ""
    if first.startswith(("{", "[")):
        _refuse_others(words, flags, "JSON")
        return from_json(words[0], "The JSON")
    # Not Path.is_file, which fails for a name that is too long.
    if len(words) == 1 and (first.endswith((".json", ".toml")) or os.path.isfile(first)):  # noqa: PTH113
        _refuse_others(words, flags, "a file")
        return from_file(Path(first))
    if len(words) < 2:
        if is_url(first):
            step = f"pflow mcp add NAME {first}"
            raise PflowError("A URL needs a name before it", suggestions=(step,), kind="usage")
        about = f"{first} is neither JSON nor a file" if first else "Nothing to add"
        raise PflowError(f"{about}; add a server in one of these forms", suggestions=FORMS, kind="usage")
    if words[1].lstrip().startswith(("{", "[")):
        _refuse_others(words[1:], flags, "JSON")
        document = _decoded(words[1], "The JSON")
        if _tables(document, "The JSON"):
            message = "The JSON already contains the names of its servers"
            raise PflowError(message, suggestions=("Leave NAME out",), kind="usage")
        return fitted_table(words[0], document)
    if words[0] in _LAUNCHERS:
        raise nameless(words)
    table = _described(words, flags)
    return Fitted(tables={words[0]: table}, notes=tuple(_fixed(words[0], table)))


def _described(words: Sequence[str], flags: Flags) -> dict[str, JSON]:
    table: dict[str, JSON]
    if not is_url(words[1]):
        refuse_flags(flags, "a command", ("headers", "bearer", "type", "insecure"))
        table = {"command": words[1], "args": list(words[2:]), "cwd": flags.cwd}
    elif words[2:]:
        message = f"Unexpected argument after the URL: {words[2]}"
        raise PflowError(message, suggestions=(_URL_FORM,), kind="usage")
    else:
        refuse_flags(flags, "a URL", ("cwd",))
        if flags.insecure:
            require_plain_http(*words[:2])
        table = {
            "type": flags.type or "http",
            "url": words[1],
            "headers": dict(_pair(text, ":", "--header") for text in flags.headers),
            "auth": {"type": "bearer", "token": flags.bearer} if flags.bearer else None,
            "insecure": flags.insecure,
        }
    table["env"] = dict(_pair(text, "=", "--env") for text in flags.env)
    return {key: value for key, value in table.items() if value} | decided(flags)


def _fixed(name: str, table: dict[str, JSON]) -> Iterator[Problem]:
    """Pin down in server input what depends on where it was typed: a relative folder, which Python runs."""
    words = [str(table.get("command", "")), *cast(list[str], table.get("args", []))]
    here = [word for word in words if word in (".", "..") or word.startswith(("./", "../"))]
    if here and "cwd" not in table:
        table["cwd"] = str(storage.absolute(Path()))
        message = f"{here[0]} means a folder: the server is always started in {table['cwd']}"
        yield advice(f"{server_schema.server_path(name)}.cwd", message, "Another folder: --cwd FOLDER")
    found = shutil.which(words[0]) if words[0] in ("python", "python3") else None
    if found:
        table["command"] = found
        message = f"{words[0]} means {found} here, and may mean another elsewhere: its path is kept"
        yield advice(f"{server_schema.server_path(name)}.command", message)


def nameless(command: Sequence[str]) -> PflowError:
    """Return the error about server input that is a command without a name before it."""
    package = next((word for word in command[1:] if not word.startswith("-")), "")
    is_known = command[0] in _LAUNCHERS and package
    # A short name: `github` for `@modelcontextprotocol/server-github@1.2`.
    bare = package.rpartition("/")[2].partition("@")[0].partition("==")[0]
    short = re.sub(r"^(mcp-)?server-|-mcp(-server)?$", "", bare) or bare
    name = naming.server_name(short) if is_known else "NAME"
    return PflowError(
        "The server needs a name, which is written before its command",
        kind="usage",
        suggestions=(f"pflow mcp add {name} -- {shlex.join(display.arguments(command))}",),
    )


def from_file(path: Path) -> Fitted:
    """Turn server input from a JSON or TOML file, which must exist, into tables."""
    content = storage.read_bytes(path)
    if content is None:
        raise PflowError(f"File not found: {path}", suggestions=FORMS, kind="usage")
    if path.suffix == ".toml":
        return servers_in(decode_toml(path, content), str(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PflowError(f"{path} is not UTF-8", suggestions=("Save it as UTF-8",), kind="usage") from error
    return from_json(text, str(path))


def unmigrated(home: Path, configured: Collection[str]) -> Iterator[Problem]:
    """Yield a warning for each file of an older pflow that, as server input, would give more servers."""
    for path in (home / ".pflow" / name for name in ("mcp-servers.json", "mcp.json")):
        try:
            missing = [name for name in from_file(path).tables if name not in configured]
        except PflowError:
            continue
        if missing:
            command = f"pflow registry migrate-mcp --from {shlex.quote(str(path))}"
            has = count_text(len(missing), "server")
            message = f"{path} of an older pflow is not used; it has {has}: {', '.join(missing[:3])}"
            yield advice("", message, f"Configure what it has: {command}", source=str(path))


def from_json(text: str, origin: str) -> Fitted:
    """Turn server input from a JSON string into tables; `origin` says in messages where it comes from."""
    return servers_in(_decoded(text, origin), origin)


def servers_in(document: JSON, origin: str) -> Fitted:
    """Turn a parsed document of server input into tables; what another client names otherwise is adapted."""
    tables = tables_in(document, origin)
    names = fitted_names(tables)
    notes = [
        advice(server_schema.server_path(name), f"The server {given!r} is renamed to {name}")
        for given, name in names.items()
        if name != given
    ]
    adapted: dict[str, JSON] = {}
    for given, table in tables.items():
        server = fitted_table(names[given], table)
        adapted |= server.tables
        notes += server.notes
    return Fitted(tables=adapted, notes=tuple(notes))


def tables_in(document: JSON, origin: str) -> JSONObject:
    """Return the server tables in a document given as server input, as they stand there.

    The document has `mcpServers` or the older `servers`, maps names directly to servers, or is one
    server, or a list of servers, with a `name` field each.
    """
    tables = _tables(document, origin)
    if tables:
        return tables
    wrong = f"{origin} contains no server"
    steps: tuple[str, ...] = FORMS
    if tables is None and isinstance(document, Mapping) and _is_server(document):
        wrong = f"{origin} describes a server without a name"
        steps = ('Put it under a name: {"NAME": {"command": ...}}',)
    elif tables is None:
        wrong = f"{origin} is not a server config in any known form"
        steps = ('Write {"mcpServers": {"NAME": {"command": "npx", "args": ["-y", "PACKAGE"]}}}',)
    raise PflowError(wrong, suggestions=steps, kind="usage")


def _decoded(text: str, origin: str) -> JSON:
    too_deep = PflowError(f"{origin} is nested too deeply", kind="usage")
    try:
        decoded: JSON = json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        hint = json_hint(error)
        raise PflowError(
            f"{origin} is not valid, line {error.lineno}, column {error.colno}: {error.msg}",
            details={"line": error.lineno, "column": error.colno},
            suggestions=(hint,) if hint else (),
            kind="usage",
        ) from error
    except RecursionError as error:
        raise too_deep from error
    if is_too_deep(decoded):
        raise too_deep
    return decoded


def _tables(document: JSON, origin: str) -> JSONObject | None:
    if isinstance(document, list):
        return _listed(document, origin)
    if not isinstance(document, Mapping):
        return None
    has_type = any(isinstance(document.get(key), str) for key in ("type", "transport"))
    if isinstance(_own_name(document), str) and (has_type or _is_server(document)):
        return _listed([document], origin)
    for key in (server_schema.SERVERS, "servers"):
        inner = document.get(key)
        # `{"servers": {"command": ...}}` is a single server named `servers`.
        if isinstance(inner, list) or (isinstance(inner, Mapping) and not _is_server(inner)):
            return _listed(inner, f"{key} of {origin}") if isinstance(inner, list) else inner
    if server_schema.SERVERS in document or _is_server(document):
        return None
    return document if any(isinstance(value, Mapping) for value in document.values()) else None


def _listed(servers: list[JSON], origin: str) -> dict[str, JSON]:
    tables: dict[str, JSON] = {}
    for number, server in enumerate(servers, start=1):
        table = server_schema.mapping(server)
        name = _own_name(table)
        if not isinstance(name, str) or not name:
            step = 'Write {"name": "NAME", "command": ...}, or {"NAME": {"command": ...}} without a list'
            raise PflowError(f"{origin}: item {number} has no name", suggestions=(step,), kind="usage")
        if name in tables:
            raise PflowError(f"{origin}: duplicate server {name}", suggestions=("Rename one",), kind="usage")
        tables[name] = {key: value for key, value in table.items() if key not in _NAMES}
    return tables


def _own_name(table: JSONObject) -> JSON:
    return next((table[key] for key in _NAMES if key in table), None)


def _is_server(table: JSONObject) -> bool:
    return any(isinstance(table.get(key), str) for key in ("command", "url", "path", *URLS))


def _without_repeats(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    table: dict[str, JSON] = {}
    for key, value in pairs:
        if key in table:
            message = f'"{key}" occurs twice in one JSON object'
            raise PflowError(message, suggestions=("Keep one of them",), kind="usage")
        table[key] = value
    return table


def is_url(word: str) -> bool:
    """Whether a word in server input is a URL, if only one of a scheme that the check of servers refuses."""
    return re.match(r"[A-Za-z][\w+.-]*://", word) is not None


def _refuse_others(words: Sequence[str], flags: Flags, what: str) -> None:
    # The first word describes servers in full.
    if len(words) > 1:
        step = "Put the whole JSON in single quotes" if what == "JSON" else _FILE_FORM
        raise PflowError(f"Unexpected argument after {what}", suggestions=(step,), kind="usage")
    refuse_flags(flags, what)


def require_plain_http(server: str, url: str) -> None:
    """Refuse server input with `--insecure` and an https URL: certificates are always checked."""
    if url.lower().startswith("https:"):
        from pflow_mcp_plugin.network.certificates import trusting_steps

        message = "--insecure allows plain http only, and the URL uses https"
        raise PflowError(message, suggestions=trusting_steps(server, url), kind="usage")


def decided(flags: Flags) -> dict[str, JSON]:
    """Turn the options that go with any form of input, even a preset, into their part of a server table."""
    table: dict[str, JSON] = {}
    if flags.trust_readonly:
        table["trust_readonly"] = True
    if flags.startup_timeout is not None:
        table["startup_timeout"] = flags.startup_timeout
    return table


def _pair(text: str, separator: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not (found and name.strip()):
        form = "NAME=VALUE" if separator == "=" else "'NAME: VALUE'"
        raise PflowError(f"{option} takes {form}", suggestions=(f"Write {option} {form}",), kind="usage")
    return name.strip(), value if separator == "=" else value.strip()
