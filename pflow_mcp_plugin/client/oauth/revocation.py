"""The revocation of a sign-in's tokens (RFC 7009)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http import HTTPStatus

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.client_assertion import PrivateKey
from pflow_mcp_plugin.client.oauth.client_authentication import authentication, registered_client
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.oauth.token_endpoint import refusal
from pflow_mcp_plugin.client.request_failures import (
    CertificatesUnreadable,
    HostRefused,
    KeyNotPinned,
    NoAccessToken,
)
from pflow_mcp_plugin.types import Server


async def why_not_revoked(server: Server | None, sign_in: SignIn | None) -> str:
    """Revoke the tokens of a sign-in; return why that failed, `""` if it did not.

    Args:
        server: The server, whose rules for the network, CAs and pins apply; None if they cannot be read, and
            nothing may be requested.
        sign_in: The sign-in with its secrets; None if it cannot be read.
    """
    if sign_in is None or sign_in.tokens is None or not sign_in.tokens.access:
        return "they could not be read"
    if server is None:
        return "the rules for the network cannot be read from the config"
    try:
        await _revoke(server, sign_in, sign_in.tokens)
    except (NoAccessToken, HostRefused) as failure:
        return str(failure)
    except KeyNotPinned as failure:
        return f"{failure.host} has none of the keys in tls_pins"
    except CertificatesUnreadable as failure:
        return f"{failure.what} cannot be read: {failure.reason}"
    return ""


async def _revoke(server: Server, sign_in: SignIn, tokens: Tokens) -> None:
    found = sign_in.authorization_server
    if not found.revocation_endpoint:
        reason = f"the authorization server {place(found.issuer)} does not offer it"
        raise NoAccessToken(reason, "operator")
    client = registered_client(server.auth, found) or sign_in.registration
    fields, headers = authentication(client, found, PrivateKey.of(server.auth))
    async with AuthorizationRequests(server) as requests:
        for hint, token in _to_revoke(tokens):
            form = {"token": token, "token_type_hint": hint, **fields}
            answer = await requests.post(found.revocation_endpoint, form, headers)
            if answer.status == HTTPStatus.OK:
                continue
            refused = refusal(answer, "revocation endpoint", form)
            # An access token for which there is no other way ends with its refresh token, or soon after.
            if refused.code != "unsupported_token_type" or token != tokens.access or not tokens.refresh:
                raise NoAccessToken(refused.text, "operator") from refused


def _to_revoke(tokens: Tokens) -> Iterator[tuple[str, str]]:
    """Yield the tokens to revoke: the refresh token first, as it is good for the longest."""
    if tokens.refresh:
        yield "refresh_token", tokens.refresh
    if tokens.access and tokens.is_valid(time.time()):
        yield "access_token", tokens.access
