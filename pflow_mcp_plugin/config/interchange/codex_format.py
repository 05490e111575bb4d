"""Codex names variables in fields of their own; it expands none in values."""

from __future__ import annotations

import re
from typing import Any

from pflow_mcp_plugin.config.interchange.server_format import Table

_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_BEARER = re.compile(r"Bearer \$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}", re.IGNORECASE)
_AUTHORIZATION = "Authorization"


def unpack(table: Table) -> Table:
    """Return a server of Codex with references in its values, instead of variables named in fields."""
    forwarded = table.pop("env_vars", None)
    for entry in forwarded if isinstance(forwarded, list) else ():
        name = entry.get("name") if isinstance(entry, dict) else entry
        table["env"] = {str(name): f"${{{name}}}", **_mapping(table.get("env"))}
    headers = {
        name: f"${{{variable}}}" for name, variable in _mapping(table.pop("env_http_headers", None)).items()
    }
    token = table.pop("bearer_token_env_var", None)
    if token:
        headers[_AUTHORIZATION] = f"Bearer ${{{token}}}"
    if headers:
        table["http_headers"] = {**_mapping(table.get("http_headers")), **headers}
    return table


def pack(table: Table, _: list[str]) -> Table:
    """Return a server with its references in the fields that name variables."""
    env = table.pop("env", {})
    passed = [name for name, value in env.items() if value == f"${{{name}}}"]
    headers = table.pop("http_headers", {})
    named: dict[str, str] = {}
    for name, value in headers.items():
        bearer = _BEARER.fullmatch(value) if name.lower() == "authorization" else None
        reference = _REFERENCE.fullmatch(value)
        if bearer:
            table["bearer_token_env_var"] = bearer["name"]
        elif reference:
            named[name] = reference["name"]
    written = {
        name: value for name, value in headers.items() if name not in named and not _is_bearer(name, value)
    }
    kept = {name: value for name, value in env.items() if name not in passed}
    extra = {"env": kept, "env_vars": passed, "http_headers": written, "env_http_headers": named}
    return {**table, **{key: value for key, value in extra.items() if value}}


def _is_bearer(name: str, value: str) -> bool:
    return name.lower() == "authorization" and _BEARER.fullmatch(value) is not None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
