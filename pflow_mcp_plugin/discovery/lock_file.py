"""The lock file of a team: what its workflows were made with, as TOML to commit beside them.

For each server it has the launch, the version that the server reports and the hashes of tools, never the
value of a secret or variable. The same servers give the same bytes: tables are sorted and nothing depends
on time or place. Reading it is a function of its content alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard, cast

import attrs

from pflow_mcp_plugin import naming, storage, variable_references
from pflow_mcp_plugin.catalog.json_values import tool_hash
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.field_checks import Check, join, kind_of, refuse_errors
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import advice, fault
from pflow_mcp_plugin.storage.json_and_toml import decode_toml, encode_toml
from pflow_mcp_plugin.terminal.looks import one_line
from pflow_mcp_plugin.terminal.similar_names import did_you_mean
from pflow_mcp_plugin.trust.launch_identity import launch_identity
from pflow_mcp_plugin.types import Server, Tool

NAME = "mcp-lock.toml"
"""The name under which a lock file is looked for."""
SCHEMA_VERSION = 1

_HEAD = b"# Written by `pflow mcp lock`: commit it. `pflow mcp lock --check` compares it with the servers.\n"
_AGAIN = "Regenerate the file: pflow mcp lock"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@attrs.frozen(kw_only=True)
class LockedServer:
    """A server as a lock file has it."""

    launch: Mapping[str, str | tuple[str, ...]] = attrs.field(factory=dict)  # by field, see `LAUNCH`
    version: str = ""  # as it reports it; empty if it reports none
    tools: Mapping[str, str] = attrs.field(factory=dict)  # the hash of each locked tool, by raw name


LockedServers = Mapping[str, LockedServer]
"""The servers of a lock file by name."""


@attrs.frozen(kw_only=True)
class LockFile:
    """The content of a lock file."""

    path: Path
    servers: LockedServers = attrs.field(factory=dict)
    warnings: tuple[Problem, ...] = ()  # harmless problems of the file


def locked_server(server: Server, version: str, tools: Iterable[Tool]) -> LockedServer:
    """Return a server as a lock file has it, from its unexpanded config and what it says of itself."""
    return LockedServer(
        launch=dict(_launch(server)), version=version, tools={tool.name: tool_hash(tool) for tool in tools}
    )


def encode(servers: LockedServers) -> bytes:
    """Return the bytes of a lock file, in which invisible characters are escaped.

    Raises `ValueError` for a string that UTF-8 cannot represent.
    """
    tables: dict[str, JSON] = {}
    for name, server in sorted(servers.items()):
        launch = {key: value if isinstance(value, str) else [*value] for key, value in server.launch.items()}
        version = {"version": server.version} if server.version else {}
        tables[name] = {**launch, **version, "tools": dict(sorted(server.tools.items()))}
    written = encode_toml({"schema_version": SCHEMA_VERSION, "servers": tables}).decode()
    # Whatever is not printable is inside a quoted string.
    printable = (it if it.isprintable() or it == "\n" else f"\\U{ord(it):08x}" for it in written)
    return _HEAD + "".join(printable).encode()


def decode(path: Path, content: bytes) -> LockFile:
    """Decode a lock file; an `McpError` lists all its mistakes in `problems`."""
    document = _document(path, content)
    found = [attrs.evolve(problem, source=str(path)) for problem in _check(document)]
    refuse_errors(str(path), found)
    tables = cast("Mapping[str, Mapping[str, Any]]", document.get("servers", {}))  # checked above
    servers: dict[str, LockedServer] = {}
    for name, table in tables.items():
        launch = {
            key: value if isinstance(value, str) else (*value,)
            for key, value in table.items()
            if key in LAUNCH
        }
        servers[name] = LockedServer(
            launch=launch, version=table.get("version", ""), tools=table.get("tools", {})
        )
    return LockFile(path=path, servers=servers, warnings=tuple(found))


def is_lock_file(path: Path, content: bytes) -> bool:
    """Whether the content of a file is that of a lock file, perhaps with mistakes or nothing in it."""
    document = _document(path, content)
    tables = document.get("servers")
    if not (_is_whole(document.get("schema_version")) and isinstance(tables, Mapping)):
        return not document and not content.strip()
    return all(isinstance(table, Mapping) and "tools" in table for table in tables.values())


def place(path: str, key: str) -> str:
    """Return the path of `key` below `path` in a lock file, in printable characters."""
    return join(path, one_line(key))


def _launch(server: Server) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    # Masked first: a secret that is written out may differ for each member of a team.
    args = tuple(display.arguments(server.args, widely=True))
    masked = attrs.evolve(server, args=args, url=display.url(server.url, widely=True))
    for key, value in launch_identity(masked).items():
        if isinstance(value, str):
            yield key, display.url(value, widely=True)
        elif key == "args" and isinstance(value, Iterable):
            yield key, tuple(map(str, value))
    auth = [value for value in server.auth.values() if isinstance(value, str)]
    texts = (server.command, *server.args, server.cwd or "", server.path, server.url, *auth)
    texts = (*texts, *server.env.values(), *server.headers.values())
    variables = [it.name for text in texts for it in variable_references.references(text)]
    if isinstance(named := server.auth.get("token_env"), str):
        variables.append(named)
    names = {"env": sorted(server.env), "variables": sorted(variables)}
    yield from ((key, tuple(value)) for key, value in names.items() if value)


def _document(path: Path, content: bytes) -> dict[str, JSON]:
    document = decode_toml(path, content)
    version = document.get("schema_version")
    if _is_whole(version) and version > SCHEMA_VERSION:
        reason = f"written by a newer pflow: its schema_version is greater than {SCHEMA_VERSION}"
        raise storage.StoreError(path, reason, suggestion="Upgrade pflow")
    return document


def _check(document: JSONObject) -> Iterator[Problem]:
    version = document.get("schema_version")
    if version is None:
        yield fault("schema_version", "Missing, so this is not a lock file", _AGAIN)
    elif not _is_whole(version) or version < 1:
        yield fault("schema_version", f"Must be {SCHEMA_VERSION}", _AGAIN)
    yield from _unknown("", document, ("schema_version", "servers"))
    servers = document.get("servers", {})
    if not isinstance(servers, Mapping):
        yield fault("servers", f"Must be a table, not {kind_of(servers)}", _AGAIN)
        return
    for name, table in servers.items():
        path = place("servers", name)
        if not naming.is_server_name(name):
            yield fault(path, "Invalid server name", "Use lowercase letters, digits and hyphens")
        if not isinstance(table, Mapping):
            yield fault(path, f"Must be a table, not {kind_of(table)}", _AGAIN)
            continue
        yield from _unknown(path, table, _FIELDS)
        for key, value in table.items():
            if key in _FIELDS:
                yield from _FIELDS[key](place(path, key), value)


def _is_whole(value: JSON) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _unknown(path: str, table: JSONObject, known: Iterable[str]) -> Iterator[Problem]:
    for key in table:
        if key not in known:
            step = did_you_mean(key.lower(), known, "Remove it")
            yield advice(place(path, key), f"Unknown field {key!a}", step)


def _text(path: str, value: JSON) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield fault(path, f"Must be a string, not {kind_of(value)}", _AGAIN)


def _texts(path: str, value: JSON) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield fault(path, f"Must be a list of strings, not {kind_of(value)}", _AGAIN)
        return
    for index, item in enumerate(value):
        yield from _text(f"{path}[{index}]", item)


def _hashes(path: str, value: JSON) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield fault(path, f"Must be a table, not {kind_of(value)}", _AGAIN)
        return
    for tool, found in value.items():
        if not (isinstance(found, str) and _HASH.fullmatch(found)):
            yield fault(place(path, tool), "Must be sha256: and 64 hexadecimal digits", _AGAIN)


LAUNCH: Mapping[str, Check] = {
    "transport": _text,
    "command": _text,
    "args": _texts,
    "cwd": _text,
    "path": _text,
    "url": _text,
    "env": _texts,
    "variables": _texts,
}
"""The fields of a launch in a lock file, in the order in which differences are reported."""
_FIELDS: Mapping[str, Check] = {**LAUNCH, "version": _text, "tools": _hashes}
