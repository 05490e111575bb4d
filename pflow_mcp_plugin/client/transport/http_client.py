"""The HTTP client of a server: its headers, certificates, and the scopes of the token in its config."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from urllib.parse import urlsplit

import httpx2

from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.client.transport.messages import read_json
from pflow_mcp_plugin.config.auth import missing_scopes
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.network.addresses import is_loopback
from pflow_mcp_plugin.network.certificates import present_certificate, tls_context
from pflow_mcp_plugin.network.checked_connections import CheckedTransport
from pflow_mcp_plugin.types import Server

_CLAIMS = ("scope", "scp")
"""The claims of a JWT with scopes: that of RFC 9068, and another common one."""
_SEGMENTS = 3


def request_headers(server: Server) -> dict[str, str]:
    """Return the headers of a server's HTTP client: those configured and the one made from `auth`."""
    return {**server.headers, **_auth_header(server.auth)}


def _auth_header(auth: JSONObject) -> dict[str, str]:
    kind = auth.get("type")
    if kind == "api_key":
        return {str(auth.get("header", "X-API-Key")): str(auth["key"])}
    if kind == "basic":
        pair = f"{auth['username']}:{auth['password']}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
    token = auth.get("token")
    return {"Authorization": f"Bearer {token}"} if token else {}


def make_client(server: Server) -> httpx2.AsyncClient:
    """Return an HTTP client for a server, which connects to allowed hosts and addresses only.

    Proxies come from the environment, and trusted certificates too if the server has no `ca_bundle`.

    Raises:
        CertificatesUnreadable: Certificates, a key or pins cannot be read.
    """
    return httpx2.AsyncClient(
        headers=request_headers(server),
        timeout=httpx2.Timeout(server.timeout, read=server.sse_timeout),
        transport=CheckedTransport(server, _context(server)),
    )


def _context(server: Server) -> ssl.SSLContext:
    url = urlsplit(server.url)
    if url.scheme == "http" and is_loopback(url.hostname or ""):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loading certificates takes time and is not needed
    context = tls_context(os.environ, server)
    if server.client_cert:
        present_certificate(context, server)
    return context


def require_scopes(server: Server) -> None:
    """Refuse to use a token in the config that lacks a scope in the config.

    Only a JWT says which scopes it has. It is read without verification: that is the server's task.

    Args:
        server: The server, with expanded values.

    Raises:
        NoAccessToken: The token names its scopes, and one that is wanted is not among them.
    """
    granted = _claimed_scopes(str(server.auth.get("token", "")))
    missing = " ".join(missing_scopes(server.auth, granted))
    if missing:
        has = " ".join(granted)
        raise NoAccessToken(f"its token lacks the scope {missing}; it has {has}", "login", missing)


def _claimed_scopes(token: str) -> tuple[str, ...]:
    """Return the scopes that a token names, empty if it is no JWT or names none."""
    segments = token.split(".")
    if len(segments) != _SEGMENTS:
        return ()
    try:
        claims = read_json(base64.urlsafe_b64decode(segments[1] + "=="))
    except (ValueError, binascii.Error, RecursionError):
        return ()
    values = (claims.get(claim) for claim in _CLAIMS) if isinstance(claims, dict) else ()
    return next(filter(None, map(_words, values)), ())


def _words(value: JSON) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
