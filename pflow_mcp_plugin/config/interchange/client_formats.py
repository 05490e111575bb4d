"""The fields of each client's servers, and where they go when they are not merely renamed.

What a format does not name here is reported as lost, in both directions.
"""

from __future__ import annotations

import re

import attrs

from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.interchange.server_translation import (
    BRACED,
    CURLY,
    DOLLAR,
    INPUTS,
    NONE,
    OURS,
    PREFIXED,
    FormatField,
    NoEquivalent,
    ServerFormat,
    Table,
)
from pflow_mcp_plugin.config.server_input import URLS, transport_of_url
from pflow_mcp_plugin.config.server_schema import mapping
from pflow_mcp_plugin.variable_references import references

_MS = 0.001

_LOCAL = (FormatField("command"), FormatField("args"), FormatField("env"))
_REMOTE = (FormatField("url"), FormatField("headers"))
_CWD = FormatField("cwd", read_only=True)
_DISABLED = FormatField("disabled", read_only=True)
_WRITTEN = {"stdio": "stdio", "http": "http", "sse": "sse"}


def _one_url(table: Table) -> Table:
    """For clients whose servers have other fields for the URL: rename those, which imply a transport."""
    for key in reversed(URLS):
        url = table.pop(key, None)
        if url is not None and "url" not in table:
            table["url"] = url
            table.setdefault("type", "http" if key == "httpUrl" else transport_of_url(url))
    if "transport" in table and "type" not in table:
        table["type"] = table.pop("transport")
    return table


def _found_out(table: Table, lost: list[str]) -> Table:
    """Drop `type`, which some clients' formats lack; report it if the client infers another one."""
    if "url" in table and table.pop("type", "http") != transport_of_url(table["url"]):
        lost.append("type: it tries streamable HTTP first")
    return table


MCP_JSON = ServerFormat(
    fields=tuple(
        FormatField(key) for key in (*server_schema.FIELDS, "tools.allow", "tools.deny") if key != "type"
    ),
    types={"stdio": "", **{name: name for name in server_schema.TRANSPORTS if name != "stdio"}},
    variables=OURS,
    unpack=_one_url,
    is_ours=True,
)

PFLOW_CLI = ServerFormat(
    fields=(*_LOCAL, *_REMOTE, FormatField("auth"), FormatField("timeout"), FormatField("sse_timeout")),
    types={"stdio": "", "http": "http"},
    variables=BRACED,
    unpack=_one_url,
    is_ours=True,
)

CLAUDE_DESKTOP = ServerFormat(
    fields=(*_LOCAL, *(FormatField(key, read_only=True) for key in ("cwd", "url", "headers", "disabled"))),
    types={"stdio": ""},
    variables=NONE,
)

CLAUDE_CODE = ServerFormat(
    fields=(*_LOCAL, *_REMOTE, FormatField("timeout", "call_timeout", scale=_MS), _CWD),
    types=_WRITTEN,
    variables=BRACED,
)

CURSOR = ServerFormat(
    fields=(*_LOCAL, *_REMOTE, _CWD, _DISABLED), types=_WRITTEN, variables=PREFIXED, unpack=_one_url
)

VSCODE = ServerFormat(fields=(*_LOCAL, FormatField("cwd"), *_REMOTE), types=_WRITTEN, variables=INPUTS)


WINDSURF = ServerFormat(
    fields=(*_LOCAL, _CWD, *_REMOTE, FormatField("disabled"), FormatField("disabledTools", "tools.deny")),
    types={"stdio": "", "http": "", "sse": "sse"},
    variables=PREFIXED,
    unpack=_one_url,
    pack=lambda table, lost: {
        "serverUrl" if key == "url" else key: value for key, value in _found_out(table, lost).items()
    },
    rearranged=("serverUrl",),
)

LM_STUDIO = ServerFormat(
    fields=(*_LOCAL, *_REMOTE, _CWD, _DISABLED),
    types={"stdio": "", "http": "", "sse": "sse"},
    variables=NONE,
    unpack=_one_url,
    pack=_found_out,
)


def _from_zed(table: Table) -> Table:
    source = table.pop("source", "custom")
    command = table.get("command")
    if isinstance(command, dict):  # the form before 2026
        table |= {"command": command.get("path"), "args": command.get("args"), "env": command.get("env")}
    if not table.get("command") and "url" not in table:
        where = "an extension of Zed" if source == "extension" or "settings" in table else "Zed"
        raise NoEquivalent(f"{where} starts it, and its command is not in the file")
    return table


ZED = ServerFormat(
    fields=(
        *_LOCAL,
        *_REMOTE,
        FormatField("timeout", "call_timeout", scale=_MS),
        FormatField("enabled", "disabled", negated=True),
    ),
    types={"stdio": "", "http": ""},
    variables=NONE,
    unpack=_from_zed,
    pack=lambda table, _: {"source": "custom", **table} if "command" in table else table,
    rearranged=("source",),
)


def _from_gemini(table: Table) -> Table:
    if "url" in table and "httpUrl" not in table:
        table.setdefault("type", "sse")
    if table.get("tcp"):
        raise NoEquivalent("it is reached by a web socket")
    return _one_url(table)


def _to_gemini(table: Table, _: list[str]) -> Table:
    if "url" not in table or table.get("type") == "sse":
        return table
    return {"httpUrl" if key == "url" else key: value for key, value in table.items() if key != "type"}


GEMINI_CLI = ServerFormat(
    fields=(
        *_LOCAL,
        FormatField("cwd"),
        *_REMOTE,
        FormatField("timeout", "call_timeout", scale=_MS),
        FormatField("includeTools", "tools.allow"),
        FormatField("excludeTools", "tools.deny"),
    ),
    types={"stdio": "", "http": "http", "sse": "sse"},
    variables=DOLLAR,
    unpack=_from_gemini,
    pack=_to_gemini,
    rearranged=("httpUrl",),
)


def _from_opencode(table: Table) -> Table:
    command = table.get("command")
    if isinstance(command, list) and command:
        table |= {"command": command[0], "args": command[1:]}
    if not (command or table.get("url")):
        raise NoEquivalent("it only turns a server of an organisation on or off")
    return table


def _to_opencode(table: Table, lost: list[str]) -> Table:
    remote = "url" in _found_out(table, lost)
    table["type"] = "remote" if remote else "local"
    if not remote:
        table["command"] = [table["command"], *table.pop("args", [])]
    return table


OPENCODE = ServerFormat(
    fields=(
        FormatField("command"),
        FormatField("args"),
        FormatField("environment", "env"),
        *_REMOTE,
        _CWD,
        FormatField("timeout", "list_timeout", scale=_MS),
        FormatField("enabled", "disabled", negated=True),
        _DISABLED,
    ),
    types={"stdio": "local", "http": "http", "sse": "sse"},
    variables=CURLY,
    unpack=_from_opencode,
    pack=_to_opencode,
)


def _from_goose(table: Table) -> Table:
    if table.get("type") not in ("stdio", "sse", "streamable_http"):
        raise NoEquivalent(f"it is part of Goose (type {table.get('type')})")
    keys = table.pop("env_keys", None)
    named = {key: f"${{{key}}}" for key in (keys if isinstance(keys, list) else ()) if isinstance(key, str)}
    if table["type"] == "stdio":
        envs = table.get("envs") or {}
        table["envs"] = {**named, **envs} if isinstance(envs, dict) else envs
    for key in ("name", "display_name", "description", "bundled"):
        table.pop(key, None)
    return table


def _to_goose(table: Table, _: list[str]) -> Table:
    """Write Goose's format: secrets in its keyring by name; a server gets them under their own names only."""
    envs = table.pop("envs", {})
    keys = [key for key, value in envs.items() if value == f"${{{key}}}"]
    keys += [ref.name for value in table.get("headers", {}).values() for ref in references(value)]
    rest = {key: value for key, value in envs.items() if key not in keys}
    table.setdefault("enabled", True)
    table |= {"envs": rest} if rest else {}
    return table | ({"env_keys": list(dict.fromkeys(keys))} if keys else {})


GOOSE = ServerFormat(
    fields=(
        FormatField("cmd", "command"),
        FormatField("args"),
        FormatField("envs", "env"),
        FormatField("uri", "url"),
        FormatField("headers"),
        FormatField("timeout", "call_timeout"),
        FormatField("enabled", "disabled", negated=True),
        FormatField("available_tools", "tools.allow"),
    ),
    types={"stdio": "stdio", "http": "streamable_http", "sse": "sse"},
    variables=attrs.evolve(DOLLAR, with_default="", fields=("headers",)),
    unpack=_from_goose,
    pack=_to_goose,
    rearranged=("env_keys",),
    names_itself=True,
)

# Codex names variables in fields of their own; it expands none in values.
_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_BEARER = re.compile(r"Bearer \$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}", re.IGNORECASE)


def _codex_unpacked(table: Table) -> Table:
    forwarded = table.pop("env_vars", None)
    for entry in forwarded if isinstance(forwarded, list) else ():
        name = entry.get("name") if isinstance(entry, dict) else entry
        table["env"] = {str(name): f"${{{name}}}", **mapping(table.get("env"))}
    headers = {
        name: f"${{{variable}}}" for name, variable in mapping(table.pop("env_http_headers", None)).items()
    }
    token = table.pop("bearer_token_env_var", None)
    if token:
        headers["Authorization"] = f"Bearer ${{{token}}}"
    if headers:
        table["http_headers"] = {**mapping(table.get("http_headers")), **headers}
    return table


def _codex_packed(table: Table, _: list[str]) -> Table:
    env = table.pop("env", {})
    passed = [name for name, value in env.items() if value == f"${{{name}}}"]
    headers = table.pop("http_headers", {})
    named: dict[str, str] = {}
    written: dict[str, str] = {}
    for name, value in headers.items():
        bearer = _BEARER.fullmatch(value) if name.lower() == "authorization" else None
        reference = _REFERENCE.fullmatch(value)
        if bearer:
            table["bearer_token_env_var"] = bearer["name"]
        elif reference:
            named[name] = reference["name"]
        else:
            written[name] = value
    kept = {name: value for name, value in env.items() if name not in passed}
    extra = {"env": kept, "env_vars": passed, "http_headers": written, "env_http_headers": named}
    return {**table, **{key: value for key, value in extra.items() if value}}


CODEX = ServerFormat(
    fields=(
        *_LOCAL,
        FormatField("cwd"),
        FormatField("url"),
        FormatField("http_headers", "headers"),
        FormatField("startup_timeout_sec", "startup_timeout"),
        FormatField("startup_timeout_ms", "startup_timeout", scale=_MS, read_only=True),
        FormatField("tool_timeout_sec", "call_timeout"),
        FormatField("enabled", "disabled", negated=True),
        FormatField("enabled_tools", "tools.allow"),
        FormatField("disabled_tools", "tools.deny"),
    ),
    types={"stdio": "", "http": ""},
    variables=NONE,
    unpack=_codex_unpacked,
    pack=_codex_packed,
    rearranged=("env_vars", "env_http_headers", "bearer_token_env_var"),
)
