"""The HTTP client of a server: its headers, trusted certificates and proxies."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from pflow_mcp_plugin.client.request_failures import CertificatesUnreadable
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.trust.egress import is_loopback
from pflow_mcp_plugin.types import Server

_CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_CA_FOLDERS = ("SSL_CERT_DIR",)


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
    """Return an HTTP client for a server; proxies and trusted certificates come from the environment.

    Raises:
        CertificatesUnreadable: The environment names certificates that cannot be read.
    """
    url = urlsplit(server.url)
    local = is_loopback(url.hostname or "")
    return httpx2.AsyncClient(
        headers=request_headers(server),
        timeout=httpx2.Timeout(server.timeout, read=server.sse_timeout),
        limits=httpx2.Limits(),  # no limit: a call must not spend its deadline waiting for a connection
        verify=_trusting_nobody() if local and url.scheme == "http" else tls_context(os.environ),
        # A proxy would see requests to this machine in plain text, and send them to its own loopback.
        trust_env=not local,
    )


def _trusting_nobody() -> ssl.SSLContext:
    """Return a context for connections without TLS, which saves the time to load certificates."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the HTTP client's TLS context, which trusts the environment's certificates or the system's.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` are variables of OpenSSL, `REQUESTS_CA_BUNDLE` and
    `CURL_CA_BUNDLE` of other common tools.

    Raises:
        CertificatesUnreadable: The certificates cannot be read.
    """
    file = next((environ[name] for name in _CA_FILES if environ.get(name)), None)
    folder = next((environ[name] for name in _CA_FOLDERS if environ.get(name)), None)
    if file is not None and Path(file).is_dir():  # REQUESTS_CA_BUNDLE may name a folder
        file, folder = None, file
    if file is None and folder is None:
        return httpx2.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except (OSError, ValueError) as error:
        raise CertificatesUnreadable(f"{file or folder}: {error}") from error
