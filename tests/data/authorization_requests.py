"""What a client of the authorization server of the tests sends, one request a function."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
from authorization_server import AuthorizationServer

REDIRECT = "http://127.0.0.1:4999/callback"
VERIFIER = "verifier-of-the-tests-0123456789-0123456789-0123456789"
RESOURCE = "https://mcp.example/mcp"


def register(server: AuthorizationServer, **metadata: Any) -> httpx2.Response:
    """Register a client; a public one for the authorization code flow, if nothing else is said."""
    usual = {
        "redirect_uris": [REDIRECT],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "client_name": "a test",
    }
    with server.client() as client:
        return client.post(server.url("register"), json={**usual, **metadata})


def registered(server: AuthorizationServer, **metadata: Any) -> str:
    """Register a client and return its id."""
    answer = register(server, **metadata)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["client_id"])


def authorization_fields(client_id: str, **fields: str | None) -> dict[str, str]:
    """Return the query of an authorization request; a field that is None is left out."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
    usual = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "state": "state-of-the-tests",
        "scope": "notes:read",
        "resource": RESOURCE,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **fields,
    }
    return {name: value for name, value in usual.items() if value is not None}


def authorize(server: AuthorizationServer, client_id: str, **fields: str | None) -> httpx2.Response:
    """Ask for an authorization code."""
    with server.client() as client:
        return client.get(server.url("authorize"), params=authorization_fields(client_id, **fields))


def redirected(answer: httpx2.Response) -> dict[str, str]:
    """Return what a redirect brings back to the client."""
    assert answer.status_code == 302, answer.text
    assert answer.headers["location"].startswith(REDIRECT)
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


def ask_token(
    server: AuthorizationServer, *, auth: tuple[str, str] | None = None, **form: str | None
) -> httpx2.Response:
    """Send a request to the token endpoint; a field that is None is left out."""
    data = {name: value for name, value in form.items() if value is not None}
    with server.client() as client:
        return client.post(server.url("token"), data=data, **({"auth": auth} if auth else {}))


def redeem(server: AuthorizationServer, client_id: str, code: str, **fields: str | None) -> httpx2.Response:
    """Redeem an authorization code."""
    usual = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": VERIFIER,
        "resource": RESOURCE,
    }
    return ask_token(server, **{**usual, **fields})


def refresh(server: AuthorizationServer, client_id: str, token: str, **fields: str | None) -> httpx2.Response:
    """Redeem a refresh token."""
    usual = {
        "grant_type": "refresh_token",
        "client_id": client_id,
        "refresh_token": token,
        "resource": RESOURCE,
    }
    return ask_token(server, **{**usual, **fields})


def sign_in(
    server: AuthorizationServer, client_id: str | None = None, **fields: str | None
) -> dict[str, Any]:
    """Get tokens by the authorization code flow, for a new client if none is named.

    Returns:
        What the token endpoint answered, and the `client_id`.
    """
    client_id = client_id or registered(server)
    code = redirected(authorize(server, client_id, **fields))["code"]
    answer = redeem(server, client_id, code, resource=fields.get("resource", RESOURCE))
    assert answer.status_code == 200, answer.text
    return {**answer.json(), "client_id": client_id}


def introspect(server: AuthorizationServer, token: str) -> dict[str, Any]:
    """Return what the server says about an access token."""
    with server.client() as client:
        answer = client.post(
            server.url("introspect"),
            data={"token": token},
            auth=("resource-server", server.introspection_secret),
        )
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said
