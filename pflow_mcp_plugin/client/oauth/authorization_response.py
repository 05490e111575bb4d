"""The answer to an authorization request, which a redirect carries: checked before its code is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from secrets import compare_digest
from typing import Literal
from urllib.parse import parse_qsl

from pflow_mcp_plugin.client.oauth.authorization_requests import place
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer
from pflow_mcp_plugin.client.oauth.token_endpoint import CLIENT_UNKNOWN, TokenRefused, error_of
from pflow_mcp_plugin.client.request_failures import NoAccessToken

_MOST_FIELDS = 50
_REMEDIES: Mapping[str, Literal["login", "later", "credentials"]] = {
    "access_denied": "login",
    "invalid_scope": "credentials",
    "server_error": "later",
    "temporarily_unavailable": "later",
}
_SCOPE_STEP = "correct the scopes: those of --scope, and scopes in auth"


def fields_of(query: str) -> Mapping[str, str]:
    """Return the fields of a redirect's query; none if it repeats one, or is no query."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return {}
    return {} if max(Counter(name for name, _ in pairs).values(), default=0) > 1 else dict(pairs)


def is_answer_to(state: str, fields: Mapping[str, str]) -> bool:
    """Whether a redirect answers the request with this state; none does before there is one."""
    return bool(state) and compare_digest(state.encode(), fields.get("state", "").encode(errors="replace"))


def code_of(fields: Mapping[str, str], found: AuthorizationServer) -> str:
    """Return the code of an answer that comes from this authorization server.

    Raises:
        NoAccessToken: It comes from another issuer (RFC 9207), or has no code.
        TokenRefused: The authorization server does not know the client.
    """
    _require_issuer(fields, found)
    error, said = error_of(fields)
    if error:
        text = f"{place(found.authorization_endpoint)} answered {said}"
        if error in CLIENT_UNKNOWN:
            raise TokenRefused(error, text)
        step = _SCOPE_STEP if error == "invalid_scope" else ""
        raise NoAccessToken(f"nobody was signed in: {text}", _REMEDIES.get(error, "operator"), step=step)
    if not fields.get("code"):
        raise NoAccessToken(f"{place(found.authorization_endpoint)} answered without a code", "operator")
    return fields["code"]


def _require_issuer(fields: Mapping[str, str], found: AuthorizationServer) -> None:
    issuer = fields.get("iss")
    if issuer is None and found.authorization_response_iss_parameter_supported:
        wrong = "does not say which issuer it is from (iss), as its metadata promises"
    elif issuer is not None and issuer != found.issuer:  # as strings: RFC 9207, section 2.4
        wrong = f"is from another issuer (iss), {place(issuer)}"
    else:
        return
    raise NoAccessToken(f"the answer of {place(found.issuer)} to the login {wrong}; refused", "operator")
