"""Turns the input of `pflow mcp add`, in any of its forms, into server tables.

Only the form is checked here; `server_schema` checks the tables when they are stored.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.config import dialects, server_schema, toml_codec
from pflow_mcp_plugin.config.dialects import Fitted
from pflow_mcp_plugin.contract import PflowError

FORMS = (
    "pflow mcp add NAME -- COMMAND ARGS...",
    "pflow mcp add NAME URL --bearer '${TOKEN}'",
    "pflow mcp add FILE.json",
    'pflow mcp add \'{"NAME": {"command": "npx", "args": ["-y", "PACKAGE"]}}\'',
)

_HINTS = (
    ("Illegal trailing comma", "Remove the comma before the closing bracket"),
    (
        "property name",
        "JSON puts names in double quotes, has no comments and no comma before a closing bracket",
    ),
    (
        "Expecting value",
        "JSON puts strings in double quotes, has no comments and no comma before a closing bracket",
    ),
    ("delimiter", "A comma, colon or closing bracket is missing before this position"),
    ("Unterminated string", "A closing double quote is missing"),
    ("Invalid \\", "Write each backslash twice"),
    ("Extra data", "One object is expected; something follows it"),
)


_LAUNCHERS = ("npx", "uvx", "bunx", "pipx")
"""Programs that download and start a server: a package follows them. They are not names of servers."""

_DESCRIBING = ("command", "url", "path", *dialects.URLS)


@attrs.frozen(kw_only=True)
class Flags:
    """The options of `add` that describe a server.

    Attributes:
        env: `NAME=VALUE` each.
        headers: `NAME: VALUE` each.
        bearer: A token or a reference to one.
        cwd: Working folder of a command.
        type: `http` or `sse`; None means http.
        insecure: Whether to allow plain http to other machines.
        trust_readonly: Whether to believe the server's `readOnlyHint`.
    """

    env: Sequence[str] = ()
    headers: Sequence[str] = ()
    bearer: str = ""
    cwd: str = ""
    type: str | None = None
    insecure: bool = False
    trust_readonly: bool = False


def read(words: Sequence[str], flags: Flags) -> Fitted:
    """Return the server tables that the arguments of `add` describe.

    Args:
        words: JSON, a file, `NAME JSON`, `NAME COMMAND ARGS...` or `NAME URL`.
        flags: The options; they are allowed with the last two forms only.

    Raises:
        PflowError: The words have none of these forms, or an option is not allowed with theirs.
        storage.CorruptFile: The file is not valid TOML.
        storage.StoreError: The file cannot be read.
    """
    first = words[0].strip() if words else ""
    if first.startswith(("{", "[")):
        return _alone(words, flags, "JSON", lambda: from_json(words[0], "The JSON"))
    if len(words) == 1 and _is_file(first):
        return _alone(words, flags, "a file", lambda: from_file(Path(first)))
    if len(words) < 2:
        raise _no_form(first)
    if words[1].lstrip().startswith(("{", "[")):
        return _alone(words[1:], flags, "JSON", lambda: _named(words[0], words[1]))
    if words[0] in _LAUNCHERS:
        raise nameless(words)
    table = _remote(words, flags) if _is_url(words[1]) else _local(words, flags)
    return Fitted(tables={words[0]: table})


def nameless(command: Sequence[str]) -> PflowError:
    """Return the error about a command without a server name before it."""
    package = next((word for word in command[1:] if not word.startswith("-")), "")
    is_known = command[0] in _LAUNCHERS and package
    name = naming.server_name(_short(package)) if is_known else "NAME"
    return PflowError(
        "The server needs a name, which is written before its command",
        kind="usage",
        suggestions=(f"pflow mcp add {name} -- {shlex.join(command)}",),
    )


def from_file(path: Path) -> Fitted:
    """Return the server tables in a JSON or TOML file.

    Raises:
        PflowError: The file does not exist, is not valid JSON, or contains no servers.
        storage.CorruptFile: The file is not valid TOML.
        storage.StoreError: The file cannot be read.
    """
    content = storage.read_bytes(path)
    if content is None:
        raise PflowError(f"File not found: {path}", suggestions=FORMS, kind="usage")
    if path.suffix == ".toml":
        return servers_in(toml_codec.decode(path, content), str(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PflowError(f"{path} is not UTF-8", suggestions=("Save it as UTF-8",), kind="usage") from error
    return from_json(text, str(path))


def from_json(text: str, origin: str) -> Fitted:
    """Return the server tables in a JSON string.

    Args:
        text: The JSON.
        origin: Where it comes from, for messages.

    Raises:
        PflowError: It is not valid JSON (the message names line and column), or contains no servers.
    """
    return servers_in(_decoded(text, origin), origin)


def servers_in(document: Any, origin: str) -> Fitted:
    """Return the server tables of a document, adapted if another client wrote them.

    Raises:
        PflowError: As for `tables_in`.
    """
    return dialects.fitted(tables_in(document, origin))


def tables_in(document: Any, origin: str) -> Mapping[str, Any]:
    """Return the server tables of a document as they stand there.

    The document has `mcpServers` or the older `servers`, maps names directly to servers, or is one
    server, or a list of servers, with a `name` field each.

    Raises:
        PflowError: The document has none of these forms, or no server.
    """
    tables = _tables(document, origin)
    if tables is None:
        raise _no_shape(document, origin)
    if not tables:
        raise PflowError(f"{origin} contains no server", suggestions=FORMS, kind="usage")
    return tables


def _decoded(text: str, origin: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise _not_json(origin, error) from error
    except RecursionError as error:
        raise PflowError(f"{origin} is nested too deeply", kind="usage") from error


def _named(name: str, text: str) -> Fitted:
    """Return the table of one server, whose name was given separately."""
    table = _decoded(text, "The JSON")
    if _tables(table, "The JSON"):
        raise PflowError(
            "The JSON already contains the names of its servers",
            suggestions=("Leave NAME out",),
            kind="usage",
        )
    return dialects.fitted_table(name, table)


def _tables(document: Any, origin: str) -> Mapping[str, Any] | None:
    if isinstance(document, list):
        return _listed(document, origin)
    if not isinstance(document, Mapping):
        return None
    if _names_itself(document):
        return _listed([document], origin)
    for key in (server_schema.SERVERS, "servers"):
        inner = document.get(key)
        if isinstance(inner, list) or (isinstance(inner, Mapping) and not _is_server(inner)):
            return _tables_below(inner, f"{key} of {origin}")
    if server_schema.SERVERS in document or _is_server(document):
        return None
    return document if any(isinstance(value, Mapping) for value in document.values()) else None


def _tables_below(inner: Mapping[str, Any] | list[Any], origin: str) -> Mapping[str, Any]:
    return _listed(inner, origin) if isinstance(inner, list) else inner


def _listed(servers: list[Any], origin: str) -> dict[str, Any]:
    """Return the tables of servers that have a `name` field."""
    tables: dict[str, Any] = {}
    for number, server in enumerate(servers, start=1):
        name = server.get("name") if isinstance(server, Mapping) else None
        if not isinstance(name, str) or not name:
            step = 'Write {"name": "NAME", "command": ...}, or {"NAME": {"command": ...}} without a list'
            raise PflowError(f"{origin}: item {number} has no name", suggestions=(step,), kind="usage")
        if name in tables:
            raise PflowError(f"{origin}: duplicate server {name}", suggestions=("Rename one",), kind="usage")
        tables[name] = {key: value for key, value in server.items() if key != "name"}
    return tables


def _names_itself(table: Mapping[str, Any]) -> bool:
    return isinstance(table.get("name"), str) and (
        _is_server(table) or any(isinstance(table.get(key), str) for key in ("type", "transport"))
    )


def _is_server(table: Mapping[str, Any]) -> bool:
    return any(isinstance(table.get(key), str) for key in _DESCRIBING)


def _no_shape(document: Any, origin: str) -> PflowError:
    if isinstance(document, Mapping) and _is_server(document):
        step = 'Put it under a name: {"NAME": {"command": ...}}'
        return PflowError(f"{origin} describes a server without a name", suggestions=(step,), kind="usage")
    wrong = f"{origin} is not a server config in any known form"
    step = 'Write {"mcpServers": {"NAME": {"command": "npx", "args": ["-y", "PACKAGE"]}}}'
    return PflowError(wrong, suggestions=(step,), kind="usage")


def _not_json(origin: str, error: json.JSONDecodeError) -> PflowError:
    hint = next((hint for words, hint in _HINTS if words in error.msg), "")
    return PflowError(
        f"{origin} is not valid, line {error.lineno}, column {error.colno}: {error.msg}",
        details={"line": error.lineno, "column": error.colno},
        suggestions=(hint,) if hint else (),
        kind="usage",
    )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise PflowError(
            f'"{repeated}" occurs twice in one JSON object', suggestions=("Keep one of them",), kind="usage"
        )
    return table


def _is_file(word: str) -> bool:
    return word.endswith((".json", ".toml")) or Path(word).is_file()


def _is_url(word: str) -> bool:
    return word.lower().startswith(("http://", "https://"))


def _short(package: str) -> str:
    """Return the short name of a package: `github` for `@modelcontextprotocol/server-github@1.2`."""
    words = package.rpartition("/")[2].partition("@")[0].partition("==")[0]
    return re.sub(r"^(mcp-)?server-|-mcp(-server)?$", "", words) or words


def _alone(words: Sequence[str], flags: Flags, what: str, read: Callable[[], Fitted]) -> Fitted:
    if len(words) > 1:
        step = "Put the whole JSON in single quotes" if what == "JSON" else FORMS[2]
        raise PflowError(f"Unexpected argument after {what}", suggestions=(step,), kind="usage")
    _refuse(flags, ("env", "headers", "bearer", "cwd", "type", "insecure", "trust_readonly"), what)
    return read()


def _local(words: Sequence[str], flags: Flags) -> dict[str, Any]:
    _refuse(flags, ("headers", "bearer", "type", "insecure"), "a command")
    table: dict[str, Any] = {"command": words[1]}
    if words[2:]:
        table["args"] = list(words[2:])
    if flags.cwd:
        table["cwd"] = flags.cwd
    return table | _shared(flags)


def _remote(words: Sequence[str], flags: Flags) -> dict[str, Any]:
    _refuse(flags, ("cwd",), "a URL")
    if words[2:]:
        raise PflowError(
            f"Unexpected argument after the URL: {words[2]}", suggestions=(FORMS[1],), kind="usage"
        )
    table: dict[str, Any] = {"type": flags.type or "http", "url": words[1]}
    if flags.headers:
        table["headers"] = dict(_pair(text, ":", "--header") for text in flags.headers)
    if flags.bearer:
        table["auth"] = {"type": "bearer", "token": flags.bearer}
    if flags.insecure:
        table["insecure"] = True
    return table | _shared(flags)


def _shared(flags: Flags) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if flags.env:
        table["env"] = dict(_pair(text, "=", "--env") for text in flags.env)
    if flags.trust_readonly:
        table["trust_readonly"] = True
    return table


def _pair(text: str, separator: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not (found and name.strip()):
        form = "NAME=VALUE" if separator == "=" else "'NAME: VALUE'"
        raise PflowError(f"{option} takes {form}", suggestions=(f"Write {option} {form}",), kind="usage")
    return name.strip(), value if separator == "=" else value.strip()


def _refuse(flags: Flags, names: Sequence[str], what: str) -> None:
    for name in names:
        if getattr(flags, name):
            option = "--" + {"headers": "header"}.get(name, name).replace("_", "-")
            raise PflowError(f"{option} cannot be used with {what}", suggestions=FORMS, kind="usage")


def _no_form(word: str) -> PflowError:
    if _is_url(word):
        return PflowError(
            "A URL needs a name before it", suggestions=(f"pflow mcp add NAME {word}",), kind="usage"
        )
    about = f"{word} is neither JSON nor a file" if word else "Nothing to add"
    return PflowError(f"{about}; add a server in one of these forms", suggestions=FORMS, kind="usage")
