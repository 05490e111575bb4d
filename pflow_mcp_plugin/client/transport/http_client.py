"""The HTTP client of a server: its headers, certificates, and the scopes of the token in its config."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from pflow_mcp_plugin.client.request_failures import CertificatesUnreadable, NoAccessToken
from pflow_mcp_plugin.client.transport.checked_transport import CheckedTransport
from pflow_mcp_plugin.client.transport.messages import read_json
from pflow_mcp_plugin.config.auth import missing_scopes
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.storage import require_regular
from pflow_mcp_plugin.trust.addresses import is_loopback
from pflow_mcp_plugin.types import Server

_CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_CA_FOLDERS = ("SSL_CERT_DIR",)
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
        _present(context, server)
    return context


def _present(context: ssl.SSLContext, server: Server) -> None:
    """Let the HTTP client present the server's `client_cert`."""
    files = [str(Path(file).expanduser()) for file in server.client_cert]
    try:
        for file in files:
            require_regular(file)
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(files[0], files[-1], lambda: b"")
    except (OSError, ValueError) as error:
        reason = f"{' and '.join(files)}: {error}"
        setting = f"client_cert of server {server.name}; its key must not be encrypted"
        raise CertificatesUnreadable("the client certificate", reason, setting) from error


def tls_context(environ: Mapping[str, str], server: Server | None = None) -> ssl.SSLContext:
    """Return the HTTP client's TLS context.

    It trusts the certificates in the server's `ca_bundle`, else the environment's or the system's.
    `SSL_CERT_FILE` and `SSL_CERT_DIR` are variables of OpenSSL, `REQUESTS_CA_BUNDLE` and
    `CURL_CA_BUNDLE` of other common tools.

    Raises:
        CertificatesUnreadable: The certificates cannot be read.
    """
    file: str | None
    folder: str | None = None
    setting = "SSL_CERT_FILE, SSL_CERT_DIR or REQUESTS_CA_BUNDLE"
    if server is not None and server.ca_bundle:
        file = str(Path(server.ca_bundle).expanduser())
        setting = f"ca_bundle of server {server.name}"
    else:
        file = next((environ[name] for name in _CA_FILES if environ.get(name)), None)
        folder = next((environ[name] for name in _CA_FOLDERS if environ.get(name)), None)
    if file is not None and Path(file).is_dir():  # REQUESTS_CA_BUNDLE and ca_bundle may name a folder
        file, folder = None, file
    if file is None and folder is None:
        return httpx2.create_ssl_context(trust_env=False)
    try:
        if file is not None:
            require_regular(file)
        return ssl.create_default_context(cafile=file, capath=folder)
    except (OSError, ValueError) as error:
        reason = f"{file or folder}: {error}"
        raise CertificatesUnreadable("certificates to trust", reason, setting) from error


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
