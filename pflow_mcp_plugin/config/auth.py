"""The `auth` table of an http or sse server: its fields, its checks, and the scopes that it wants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pflow_mcp_plugin.config.field_checks import RULES, checks_of, fields, join, kind_of
from pflow_mcp_plugin.contract.problems import advice, fault

if TYPE_CHECKING:
    from pflow_mcp_plugin.config.field_checks import Check
    from pflow_mcp_plugin.contract import Problem
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

DEVICE = "device_code"
"""The flow by which a person signs in on another device, with a code."""

MACHINE = "client_credentials"
"""The flow by which `auth` of type oauth gets its tokens without a person."""

FIELDS: Mapping[str, Check] = checks_of(RULES["$defs"]["auth"]["properties"])

USED: Mapping[str, tuple[str, ...]] = {
    "bearer": ("token", "token_env", "scopes"),
    "api_key": ("key", "header"),
    "basic": ("username", "password"),
    "oauth": (
        "flow",
        "client_id",
        "client_secret",
        "private_key",
        "private_key_id",
        "issuer",
        "scopes",
        "client_metadata_url",
        "redirect_port",
    ),
}
"""The fields that each type of `auth` uses."""

SECRET = ("token", "key", "username", "password", "client_secret")
"""Fields of `auth` whose values are never shown, and may hold references."""

PUBLIC = ("client_id", "private_key", "private_key_id", "issuer", "client_metadata_url")
"""Fields of `auth` that may hold references too, whose values are not secret."""

_REQUIRED: Mapping[str, tuple[str, ...]] = {"api_key": ("key",), "basic": ("username", "password")}
_STEPS: Mapping[str, str] = {
    "client_id": 'Add client_id = "...", as the authorization server knows this client',
    "private_key": 'Add private_key = "FILE", the key of this id',
    "issuer": 'Add issuer = "https://...", the authorization server that the credentials are for',
}
_EXAMPLE = 'auth = { type = "bearer", token = "${API_TOKEN}" }'


def check(path: str, value: JSON) -> Iterator[Problem]:
    """Yield every problem of an `auth` table."""
    if not isinstance(value, Mapping):
        yield fault(path, f"Must be a table, not {kind_of(value)}", f"Write {_EXAMPLE}")
        return
    yield from fields(path, value, FIELDS)
    named = kind(value)
    if not isinstance(value.get("type", ""), str):
        return  # the check of that field says so
    if not named:
        fitting = next((name for name, used in USED.items() if set(used) & value.keys()), "bearer")
        yield fault(path, "auth has no type", f'Add type = "{fitting}"; known: {", ".join(USED)}')
    elif named not in USED:
        known = f"known: {', '.join(USED)}"
        yield fault(f"{path}.type", f"Unknown type of auth; {known}", f"Write for example {_EXAMPLE}")
    else:
        yield from _check_combination(path, named, value)


def kind(value: JSONObject) -> str:
    """Return the type of an `auth` table; `token_env` alone means bearer. Empty when it does not say."""
    return str(value.get("type", "bearer" if "token_env" in value else ""))


def header_of(auth: JSONObject) -> str:
    """Return the name of the header in which an `auth` table sends its credentials."""
    return str(auth.get("header", "X-API-Key")) if kind(auth) == "api_key" else "Authorization"


def with_header(headers: Mapping[str, str], auth: JSONObject) -> dict[str, str]:
    """Return headers with that made from an `auth` table, in place of any whose name differs only in case."""
    own = header_of(auth)
    if not auth or signs_in(auth):
        return dict(headers)
    if auth.get("type") == "api_key":
        value = str(auth["key"])
    elif auth.get("type") == "basic":
        from base64 import b64encode

        value = "Basic " + b64encode(f"{auth['username']}:{auth['password']}".encode()).decode()
    else:
        token = auth.get("token") or f"${{{auth['token_env']}}}"
        value = f"Bearer {token}"
    return {**{name: text for name, text in headers.items() if name.lower() != own.lower()}, own: value}


def signs_in(auth: JSONObject) -> bool:
    """Whether an `auth` table gets its access tokens by signing in, as a person or a machine."""
    return auth.get("type") == "oauth"


def is_machine(auth: JSONObject) -> bool:
    """Whether an `auth` table gets its tokens without a person."""
    return auth.get("flow") == MACHINE


def wanted_scopes(auth: JSONObject) -> list[str]:
    """Return the scopes that an `auth` table asks for, one word each."""
    wanted = auth.get("scopes")
    return " ".join(map(str, wanted)).split() if isinstance(wanted, list) else []


def missing_scopes(wanted: Iterable[str], granted: Collection[str]) -> list[str]:
    """Return the scopes in a server's `auth` table that are not among `granted`; none if that is empty."""
    # Authorization servers grant those with such endings without naming them, or under other names.
    untold = ("offline_access", "/.default")
    return [scope for scope in wanted if granted and scope not in granted and not scope.endswith(untold)]


def _check_combination(path: str, named: str, value: JSONObject) -> Iterator[Problem]:
    if named == "bearer":
        given = [key for key in ("token", "token_env") if key in value]
        if not given:
            yield fault(f"{path}.token", "auth of type bearer needs a token", 'Add token = "${API_TOKEN}"')
        elif len(given) > 1:
            yield fault(path, "auth has both token and token_env", "Keep one of them")
    elif named == "oauth":
        yield from _check_oauth(path, value)
    yield from _missing(path, f"auth of type {named}", value, _REQUIRED.get(named, ()))
    for key in value:
        if key in FIELDS and key not in ("type", *USED[named]):
            yield advice(join(path, key), f"{key} has no effect on auth of type {named}", "Remove it")


def _check_oauth(path: str, value: JSONObject) -> Iterator[Problem]:
    given = [key for key in ("client_secret", "private_key") if key in value]
    if len(given) > 1:
        yield fault(path, "auth has both client_secret and private_key", "Keep one of them")
    if "private_key_id" in value:
        yield from _missing(path, "private_key_id", value, ("private_key",))
    if value.get("flow") == MACHINE:
        yield from _missing(path, f"flow {MACHINE}", value, ("client_id", "issuer"))
        if not given:
            wrong = f"flow {MACHINE} needs a client_secret or a private_key"
            step = 'Add client_secret = "${CLIENT_SECRET}", or private_key = "FILE"'
            yield fault(f"{path}.client_secret", wrong, step)
    elif given:
        yield from _missing(path, given[0], value, ("client_id",))
        if "issuer" not in value:
            message = f"Without issuer, the first login gives {given[0]} to whichever one the server names"
            step = f"{_STEPS['issuer']}; pflow mcp auth shows that of the last login"
            yield advice(join(path, "issuer"), message, step)


def _missing(path: str, what: str, value: JSONObject, keys: Iterable[str]) -> Iterator[Problem]:
    for key in keys:
        if key not in value:
            step = _STEPS.get(key, f'Add {key} = "${{API_{key.upper()}}}"')
            yield fault(join(path, key), f"{what} needs {key}", step)
