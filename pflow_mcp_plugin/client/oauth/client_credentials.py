"""The client credentials grant (RFC 6749, 4.4): a machine signs in by a secret or a private key."""

from __future__ import annotations

import time
from collections.abc import Sequence

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests
from pflow_mcp_plugin.client.oauth.client_authentication import registered_client
from pflow_mcp_plugin.client.oauth.metadata import discovered, resource_of
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn
from pflow_mcp_plugin.client.oauth.token_endpoint import TokenRefused, requested_tokens
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.config.auth import wanted_scopes
from pflow_mcp_plugin.types import Server


async def signed_in(server: Server, challenge: str | None = None) -> SignIn:
    """Return a new sign-in of a machine, by the client credentials in its config.

    Args:
        server: The server; `issuer` in its `auth` names the only authorization server that gets the
            credentials.
        challenge: The `WWW-Authenticate` header of a refused request, if there was one.

    Raises:
        NoAccessToken: The credentials were refused, or no token could be obtained.
        HostRefused: A URL must not be requested.
    """
    auth = server.auth
    async with AuthorizationRequests(server) as requests:
        found = await discovered(requests, server, issuer=str(auth.get("issuer", "")), challenge=challenge)
        client = registered_client(auth, found.authorization_server)
        if client is None:
            raise NoAccessToken("auth has no client_id", "credentials")
        sign_in = SignIn(
            server=server.name,
            server_url=resource_of(server.url),
            resource=found.resource,
            authorization_server=found.authorization_server,
            registration=client,
            signed_in_at=time.time(),
        )
        form = {"grant_type": "client_credentials"}
        scopes = wanted_scopes(auth)
        if scopes:
            form["scope"] = " ".join(scopes)
        try:
            tokens = await requested_tokens(requests, sign_in, form)
        except TokenRefused as refusal:
            if refusal.code == "invalid_scope":
                known = found.authorization_server.scopes_supported
                raise _scope_refused(refusal, server, scopes, known) from refusal
            raise NoAccessToken(refusal.text, "credentials") from refusal
    return attrs.evolve(sign_in, tokens=attrs.evolve(tokens, requested_scopes=scopes))


def _scope_refused(
    refusal: TokenRefused, server: Server, scopes: Sequence[str], known: Sequence[str]
) -> NoAccessToken:
    """Return the failure of a request whose scopes were refused: those that the metadata does not name."""
    unknown = [scope for scope in scopes if known and scope not in known]
    scope = " ".join(unknown or scopes)
    reason = f"the scope {scope} was not granted: {refusal.text}" if scope else refusal.text
    step = f"correct scopes in auth of server {server.name}"
    return NoAccessToken(reason, "credentials", scope, step=step)
