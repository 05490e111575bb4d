"""Requests to the token endpoint of an authorization server."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from http import HTTPStatus

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import Answer, AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.client_assertion import PrivateKey
from pflow_mcp_plugin.client.oauth.client_authentication import authentication
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.redaction import Redactor

CLIENT_UNKNOWN = ("invalid_client", "unauthorized_client")
"""The `error` of a request by a client that the authorization server does not know, or no longer."""

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
"""The grant of the device flow, at the token endpoint and in the metadata of clients."""

_TOKEN = re.compile(r"[\x21-\x7e]+")
_SECRET = frozenset(
    {"client_secret", "client_assertion", "refresh_token", "code", "code_verifier", "device_code", "token"}
)
_SHOWN = 200
_CLOCK_SECONDS = 60.0
"""How far this machine's clock may be off before a refusal says so."""
_LONGEST_LIFE = 10 * 365 * 86_400


class TokenRefused(Exception):
    """The token endpoint, or one that belongs to it, refused a request, for good.

    Args:
        code: The `error` of RFC 6749, such as `invalid_grant`; empty if the answer names none.
        text: What it said, for people.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return self.text


async def requested_tokens(
    requests: AuthorizationRequests, sign_in: SignIn, form: Mapping[str, str]
) -> Tokens:
    """Request tokens from the token endpoint, for the resource of a sign-in and by its client.

    Args:
        requests: Makes the request.
        sign_in: The sign-in, with the metadata of the authorization server.
        form: The grant, and what belongs to it.

    Returns:
        The tokens; what the answer leaves out is that of the sign-in. Without scopes in either, those that
        were requested are granted (RFC 6749, 5.1).

    Raises:
        TokenRefused: It refused.
        NoAccessToken: It gave no answer that could be used; the request may be repeated later.
        HostRefused: The endpoint must not be requested.
    """
    found = sign_in.authorization_server
    fields, headers = authentication(sign_in.registration, found, PrivateKey.of(requests.server.auth))
    sent = time.time()
    answer = await requests.post(
        found.token_endpoint, {**form, **fields, "resource": sign_in.resource}, headers
    )
    content = answer.content or {}
    # Some, such as GitHub's, refuse with the status 200.
    if answer.status != HTTPStatus.OK or ("error" in content and "access_token" not in content):
        raise refusal(answer, "token endpoint", {**form, **fields})
    tokens = _tokens(answer, sent)
    former = sign_in.tokens or Tokens(scopes=form.get("scope", "").split())
    return attrs.evolve(
        tokens, refresh=tokens.refresh or former.refresh, scopes=tokens.scopes or former.scopes
    )


def _tokens(answer: Answer, sent: float) -> Tokens:
    content = answer.content or {}
    access, kind = content.get("access_token"), content.get("token_type")
    if not isinstance(access, str) or not _TOKEN.fullmatch(access):
        raise NoAccessToken(f"the token endpoint {place(answer.url)} answered without a token", "later")
    if isinstance(kind, str) and kind.lower() != "bearer":
        raise NoAccessToken(f"the token endpoint {place(answer.url)} issued no bearer token", "operator")
    refresh, scope = content.get("refresh_token"), content.get("scope")
    seconds = seconds_of(content.get("expires_in"))
    if seconds is not None and not 0 < seconds <= _LONGEST_LIFE:  # some mean by 0 that it does not expire
        seconds = None
    return Tokens(
        access=access,
        refresh=refresh if isinstance(refresh, str) and _TOKEN.fullmatch(refresh) else "",
        expires_at=None if seconds is None else sent + seconds,
        issued_at=sent,
        scopes=_scopes(scope),
    )


def _scopes(value: JSON) -> list[str]:
    """Return the scopes in an answer; some servers send a list of them."""
    words = value if isinstance(value, list) else [value]
    return [scope for word in words if isinstance(word, str) for scope in word.split()]


def seconds_of(value: JSON) -> float | None:
    """Return a number of seconds in an answer, None if it is none; some servers send it as a string."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def refusal(answer: Answer, what: str, form: Mapping[str, str]) -> TokenRefused:
    """Return the refusal of a request in words, without the secrets that were sent.

    Args:
        answer: The answer.
        what: The endpoint, such as `token endpoint`.
        form: What was sent.
    """
    redactor = Redactor(value for key, value in form.items() if key in _SECRET)
    content = redactor.value(answer.content or {})
    code, text = error_of(content, f"HTTP {answer.status}")
    note = _clock_note(answer) if "client_assertion" in form else ""
    return TokenRefused(code, f"the {what} {place(answer.url)} answered {text}{note}")


def _clock_note(answer: Answer) -> str:
    """Return a note on this machine's clock, by which an assertion is valid, empty if it is right."""
    off = 0.0 if answer.date is None else time.time() - answer.date
    if abs(off) < _CLOCK_SECONDS:
        return ""
    where = "ahead of" if off > 0 else "behind"
    return f"; this machine's clock is {abs(off) / 60:.0f} minutes {where} that of the authorization server"


def error_of(content: JSONObject, otherwise: str = "") -> tuple[str, str]:
    """Return the error in an answer (RFC 6749, 5.2), and the same with its description, for messages.

    Args:
        content: The answer.
        otherwise: What messages say in place of an error that the answer does not name.
    """
    code = _as_said(content.get("error"))
    description = _as_said(content.get("error_description"))
    text = code or otherwise
    return code, f"{text} ({description})" if description else text


def _as_said(value: JSON) -> str:
    """Return a text of an authorization server for messages: one printable line, cut."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return "".join(char if char.isprintable() else "?" for char in text)[:_SHOWN]
