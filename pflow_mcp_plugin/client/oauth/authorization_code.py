"""The authorization code grant with PKCE (RFC 6749, 4.1; RFC 7636): a person signs in, in a browser."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from secrets import token_urlsafe
from typing import Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests
from pflow_mcp_plugin.client.oauth.authorization_response import code_of, fields_of
from pflow_mcp_plugin.client.oauth.person import Person
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.oauth.token_endpoint import CLIENT_UNKNOWN, TokenRefused, requested_tokens
from pflow_mcp_plugin.client.request_failures import NoAccessToken

_IF_UNKNOWN = """If the page says that it does not know the client, press Ctrl-C, and register another one:
  pflow mcp logout {name}
  pflow mcp login {name}"""
_ERRORS = range(HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR)


class Redirects(Protocol):
    """What receives the redirect at the end of an authorization: `LoopbackListener`, `PastedRedirect`."""

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server has to send the browser."""

    async def response(self, state: str) -> Mapping[str, str]:
        """Return the fields of the redirect that answers the request with a state."""


async def code_tokens(
    requests: AuthorizationRequests,
    sign_in: SignIn,
    person: Person,
    redirects: Redirects,
    *,
    is_stored: bool = False,
) -> Tokens:
    """Return the tokens for which a person has signed in, in a browser.

    Args:
        requests: Makes the requests.
        sign_in: The sign-in that begins: its client, and the scopes to ask for. If it has none, the
            authorization server decides.
        person: Who signs in.
        redirects: Receives the redirect.
        is_stored: Whether the client was registered for an earlier login, and may have been forgotten.

    Raises:
        TokenRefused: The code was refused, or the client is unknown.
        NoAccessToken: Nobody signed in, or an answer does not fit.
        HostRefused: A URL must not be requested.
    """
    verifier, state = token_urlsafe(64), token_urlsafe(32)
    url = _authorization_url(sign_in, redirects.redirect_uri, state, verifier)
    if is_stored and await _is_forgotten(requests, sign_in, url, redirects.redirect_uri):
        raise TokenRefused("invalid_client", "the authorization server does not know the client any more")
    if person.open_url is None:
        person.show(f"Open this URL in a browser:\n\n  {url}\n")
    else:
        person.show(
            f"Opening a browser to sign in. If none opens, open this URL on this machine:\n\n  {url}\n"
        )
        person.open_url(url)
    if is_stored:
        person.show(_IF_UNKNOWN.format(name=sign_in.server))
    code = code_of(await redirects.response(state), sign_in.authorization_server)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirects.redirect_uri,
        "code_verifier": verifier,
    }
    return await requested_tokens(requests, sign_in, form)


def _authorization_url(sign_in: SignIn, redirect_uri: str, state: str, verifier: str) -> str:
    endpoint = urlsplit(sign_in.authorization_server.authorization_endpoint)
    challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
    fields = {
        "response_type": "code",
        "client_id": sign_in.registration.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": sign_in.resource,
    }
    scopes = sign_in.tokens.scopes if sign_in.tokens else ()
    if scopes:
        fields["scope"] = " ".join(scopes)
    if "offline_access" in scopes:
        fields["prompt"] = "consent"  # without it, OpenID Connect ignores that scope (Core 1.0, section 11)
    own = [
        (name, value)
        for name, value in parse_qsl(endpoint.query, keep_blank_values=True)
        if name not in fields
    ]
    return endpoint._replace(query=urlencode([*own, *fields.items()])).geturl()


async def _is_forgotten(
    requests: AuthorizationRequests, sign_in: SignIn, url: str, redirect_uri: str
) -> bool:
    """Whether the authorization server no longer knows a client, which it would say in the browser only."""
    try:
        status, location = await requests.status(url)
    except NoAccessToken:  # the browser will say so
        return False
    if location.startswith(f"{redirect_uri}?"):
        return fields_of(urlsplit(location).query).get("error") in CLIENT_UNKNOWN
    return status in _ERRORS or await _is_unknown_at_token_endpoint(requests, sign_in)


async def _is_unknown_at_token_endpoint(requests: AuthorizationRequests, sign_in: SignIn) -> bool:
    """Whether the token endpoint refuses a client, asked by a refresh token that nobody issued.

    A page may tell people with the status 200; this tells programs (RFC 6749, 5.2): the error is about the
    client if that is unknown, and about the refresh token otherwise.
    """
    form = {"grant_type": "refresh_token", "refresh_token": token_urlsafe(32)}
    try:
        await requested_tokens(requests, sign_in, form)
    except TokenRefused as refusal:
        return refusal.code in CLIENT_UNKNOWN
    except NoAccessToken:
        pass
    return False
