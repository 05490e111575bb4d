"""Checks of the `auth` table of an http or sse server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pflow_mcp_plugin.config.field_checks import (
    Check,
    advice,
    credential,
    fault,
    header_name,
    join,
    kind_of,
    text,
    unknown,
    variable,
    words,
)
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

FIELDS: Mapping[str, Check] = {
    "type": text,
    "token": credential,
    "token_env": variable,
    "scopes": words,
    "key": credential,
    "header": header_name,
    "username": credential,
    "password": text,
}

USED: Mapping[str, tuple[str, ...]] = {
    "bearer": ("token", "token_env", "scopes"),
    "api_key": ("key", "header"),
    "basic": ("username", "password"),
}
"""The fields that each type of `auth` uses."""

SECRET = ("token", "key", "username", "password")
"""Fields of `auth` whose values are never shown, and may hold references."""

_REQUIRED: Mapping[str, tuple[str, ...]] = {"api_key": ("key",), "basic": ("username", "password")}
_EXAMPLE = 'auth = { type = "bearer", token = "${API_TOKEN}" }'


def check(path: str, value: JSON) -> Iterator[Problem]:
    """Yield every problem of an `auth` table."""
    if not isinstance(value, Mapping):
        yield fault(path, f"Must be a table, not {kind_of(value)}", f"Write {_EXAMPLE}")
        return
    for key, item in value.items():
        place = join(path, key)
        yield from FIELDS[key](place, item) if key in FIELDS else [unknown(place, key, FIELDS)]
    if isinstance(value.get("type", ""), str):
        yield from _check_type(path, value)


def kind(value: JSONObject) -> str:
    """Return the type of an `auth` table; `token_env` alone means bearer. Empty when it does not say."""
    return str(value.get("type", "bearer" if "token_env" in value else ""))


def _check_type(path: str, value: JSONObject) -> Iterator[Problem]:
    named = kind(value)
    if not named:
        fitting = next((name for name, used in USED.items() if set(used) & value.keys()), "bearer")
        yield fault(path, "auth has no type", f'Add type = "{fitting}"; known: {", ".join(USED)}')
    elif named not in USED:
        known = f"known: {', '.join(USED)}"
        yield fault(f"{path}.type", f"Unknown type of auth; {known}", f"Write for example {_EXAMPLE}")
    else:
        yield from _check_use(path, named, value)


def _check_use(path: str, named: str, value: JSONObject) -> Iterator[Problem]:
    if named == "bearer":
        yield from _check_bearer(path, value)
    for key in _REQUIRED.get(named, ()):
        if key not in value:
            step = f'Add {key} = "${{API_{key.upper()}}}"'
            yield fault(join(path, key), f"auth of type {named} needs {key}", step)
    for key in value:
        if key in FIELDS and key not in ("type", *USED[named]):
            yield advice(join(path, key), f"{key} has no effect on auth of type {named}", "Remove it")


def _check_bearer(path: str, value: JSONObject) -> Iterator[Problem]:
    given = [key for key in ("token", "token_env") if key in value]
    if not given:
        yield fault(f"{path}.token", "auth of type bearer needs a token", 'Add token = "${API_TOKEN}"')
    elif len(given) > 1:
        yield fault(path, "auth has both token and token_env", "Keep one of them")
