"""Failures of the network, and answers of an HTTP server that are no answers."""

from __future__ import annotations

import socket
import ssl
from http import HTTPStatus

from pflow_mcp_plugin.client.failures.evidence import Evidence, causes, failure
from pflow_mcp_plugin.errors import McpError


def from_network(evidence: Evidence) -> McpError | None:
    """Explain an exchange that the network ended."""
    error = evidence.exchange.error
    if error is None:
        return None
    url, name = evidence.server.url, evidence.server.name
    chain = list(causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in chain):
        step = "check the host name in its url, and the network"
        return failure(
            f"Server {name}: the host of {url} was not found", evidence, ran="not ran", next_step=step
        )
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        step = "check that the server runs, and the port in its url"
        return failure(
            f"Server {name}: connection refused by {url}",
            evidence,
            ran="not ran",
            retryable=True,
            next_step=step,
        )
    verification = next((cause for cause in chain if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if verification is not None:
        return _bad_certificate(verification, evidence)
    connecting = type(error).__name__.startswith("Connect")
    return failure(
        f"Server {name}: the exchange with {url} broke off: {type(error).__name__} {error}".rstrip(),
        evidence,
        ran="not ran" if connecting else "unknown",
        retryable=connecting,
        next_step="check the network and the server's own log",
    )


def _bad_certificate(error: ssl.SSLCertVerificationError, evidence: Evidence) -> McpError:
    return failure(
        f"Server {evidence.server.name}: its certificate is not accepted: {error.verify_message}",
        evidence,
        ran="not ran",
        next_step="mend the certificate, or name its CA in SSL_CERT_FILE",
    )


def from_status(evidence: Evidence) -> McpError | None:
    """Explain an HTTP status that is an error."""
    status = evidence.exchange.status
    if status is None or status < HTTPStatus.BAD_REQUEST or evidence.exchange.raw is not None:
        return None
    text, step = _status_text(status, evidence)
    failed = failure(
        f"Server {evidence.server.name}: {text}",
        evidence,
        ran="unknown" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "not ran",
        retryable=status == HTTPStatus.TOO_MANY_REQUESTS,
        next_step=step,
        status=status,
        retry_after=evidence.exchange.headers.get("retry-after"),
        body=evidence.exchange.body,
    )
    failed.action = _STATUS_ACTIONS.get(status, "error")
    return failed


_STATUS_ACTIONS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "auth_failed",
    HTTPStatus.FORBIDDEN: "auth_failed",
    HTTPStatus.NOT_FOUND: "resource_missing",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limited",
    HTTPStatus.REQUEST_TIMEOUT: "timeout",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout",
}


def _status_text(status: int, evidence: Evidence) -> tuple[str, str]:
    url, name = evidence.server.url, evidence.server.name
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        what = "not logged in" if status == HTTPStatus.UNAUTHORIZED else "access denied"
        return (
            f"{what} at {url} (HTTP {status})",
            f"check auth and headers of server {name}, and the token behind them",
        )
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return f"no MCP endpoint at {url} (HTTP {status})", "check the path of its url; it often ends in /mcp"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        after = evidence.exchange.headers.get("retry-after")
        return (
            f"too many requests (HTTP {status})",
            f"try again after {after} s" if after else "try again later",
        )
    snippet = evidence.exchange.body.strip()[:200]
    return f"HTTP {status} from {url}" + (f": {snippet}" if snippet else ""), "look at the server's own log"
