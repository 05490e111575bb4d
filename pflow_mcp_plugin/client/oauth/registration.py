"""Which client a login is made by: one that the config names, or one that registers itself.

The order is that of MCP 2025-11-25, "Client Registration Approaches".
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast, get_args

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import Answer, AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.client_authentication import registered_client
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer, Method, Registration
from pflow_mcp_plugin.client.oauth.token_endpoint import DEVICE_GRANT, error_of, seconds_of
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.contract.json_types import JSONObject

_CODE_GRANT = "authorization_code"

_METHODS: Sequence[Method] = ("none", "client_secret_basic", "client_secret_post")
"""How a client that registers itself would authenticate, the best first: it can keep no secret."""


async def client_of(
    requests: AuthorizationRequests,
    auth: JSONObject,
    found: AuthorizationServer,
    *,
    redirect_uri: str = "",
    stored: Registration | None = None,
) -> Registration:
    """Return the client for a login; it is registered if that is necessary.

    Args:
        requests: Makes the request.
        auth: The server's `auth` table.
        found: The authorization server.
        redirect_uri: Where the browser will be sent; empty for the device flow.
        stored: The client of an earlier login with this authorization server.

    Returns:
        The client: `stored` itself if that can be used again.

    Raises:
        NoAccessToken: There is no client, and none can be registered.
        HostRefused: The endpoint must not be requested.
    """
    redirect_uris = (redirect_uri,) if redirect_uri else ()
    known = registered_client(auth, found)
    if known is not None:
        return attrs.evolve(known, redirect_uris=redirect_uris)
    document = auth.get("client_metadata_url")
    if isinstance(document, str) and document and found.client_id_metadata_document_supported:
        return Registration(client_id=document, redirect_uris=redirect_uris)
    if stored is not None and _is_usable(stored, redirect_uris):
        return stored
    if not found.registration_endpoint:
        wrong = f"its authorization server {place(found.issuer)} registers no clients"
        raise NoAccessToken(
            f"{wrong}: set client_id in auth to that of a client which it knows", "credentials"
        )
    asked = _metadata(found, redirect_uris)
    answer = await requests.post_json(found.registration_endpoint, asked)
    return _registered(answer, asked, redirect_uris)


def _is_usable(stored: Registration, redirect_uris: tuple[str, ...]) -> bool:
    """Whether a client can be used again: for the same flow, which decides about its grants.

    That of a document cannot once the config no longer names it.
    """
    expired = stored.expires_at is not None and stored.expires_at <= time.time()
    fits = bool(redirect_uris) == bool(stored.redirect_uris) and set(redirect_uris) <= set(
        stored.redirect_uris
    )
    return fits and not expired and "://" not in stored.client_id


def _metadata(found: AuthorizationServer, redirect_uris: tuple[str, ...]) -> dict[str, Any]:
    """Return the metadata of the client that is registered (RFC 7591, section 2)."""
    known = found.token_endpoint_auth_methods_supported
    asked: dict[str, Any] = {
        "client_name": "pflow",
        "application_type": "native",
        "grant_types": [_CODE_GRANT if redirect_uris else DEVICE_GRANT, "refresh_token"],
        "token_endpoint_auth_method": next((each for each in _METHODS if each in known), _METHODS[0]),
    }
    if redirect_uris:
        asked |= {"redirect_uris": list(redirect_uris), "response_types": ["code"]}
    return asked


def _registered(answer: Answer, asked: JSONObject, redirect_uris: tuple[str, ...]) -> Registration:
    content: JSONObject = answer.content or {}
    client_id, secret = content.get("client_id"), content.get("client_secret")
    where = place(answer.url)
    if (
        answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED)
        or not isinstance(client_id, str)
        or not client_id
    ):
        _, text = error_of(content, f"HTTP {answer.status}")
        advice = "set client_id in auth to that of a client which it knows"
        raise NoAccessToken(f"{where} registered no client: it answered {text}; {advice}", "credentials")
    method = content.get("token_endpoint_auth_method", asked["token_endpoint_auth_method"])
    if method not in get_args(Method) or method == "private_key_jwt":
        raise NoAccessToken(f"{where} registered a client that must authenticate otherwise", "operator")
    if secret and "token_endpoint_auth_method" not in content and method == "none":
        method = "client_secret_basic"  # the default of RFC 7591
    return Registration(
        client_id=client_id,
        client_secret=secret if isinstance(secret, str) else "",
        method=cast("Method", method),
        redirect_uris=redirect_uris,
        expires_at=seconds_of(content.get("client_secret_expires_at")) or None,  # 0 is for ever
    )
