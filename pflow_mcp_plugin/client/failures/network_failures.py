"""Failures of the network: an unreachable server, or an answer that was cut off."""

from __future__ import annotations

import socket
import ssl
from itertools import takewhile
from urllib.parse import urlsplit

from pflow_mcp_plugin.client.failures.evidence import Evidence, failure, invalid_json, not_message
from pflow_mcp_plugin.client.failures.http_failures import from_sign_in
from pflow_mcp_plugin.client.request_failures import (
    AnswerTooSlow,
    BadEndpoint,
    ForeignEndpoint,
    InvalidJson,
    MessageTooLarge,
    NoAccessToken,
    NotMessage,
    RequestFailed,
    causes,
)
from pflow_mcp_plugin.errors import DeadlineExceeded, McpError
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable, KeyNotPinned
from pflow_mcp_plugin.network.egress import HostRefused

_SHOWN = 200
"""Characters of an address named by a server that the message of a network failure shows."""
_CERTIFICATE_FAULTS = {
    9: ("is not valid yet", "check this machine's clock, or have the server's certificate fixed"),
    10: ("has expired", "have the server's certificate renewed"),
    18: ("is self-signed", "if you trust it, save it to a file and set ca_bundle or SSL_CERT_FILE to that"),
    19: ("is signed by an unknown CA", "if you trust it, set ca_bundle or SSL_CERT_FILE to that CA's file"),
    20: ("is signed by a CA that is not trusted here", "set ca_bundle or SSL_CERT_FILE to that CA's file"),
    62: ("is for another host name", "use the name that the certificate is for in its url"),
    64: ("is not for this address", "use the name that the certificate is for in its url"),
}
"""OpenSSL's `X509_V_ERR_...` code of a certificate fault: its description, and the next step."""

_CLIENT_CERTIFICATE_ALERTS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "TLSV1_ALERT_UNKNOWN_CA",
    "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
}
"""OpenSSL's reasons for the alerts of a server that wants another client certificate."""


def from_network(evidence: Evidence, error: BaseException) -> McpError | None:
    """Explain an exchange that the network broke off, or that we broke off because of its content."""
    exchange = evidence.exchange
    noted = exchange.error or (error if isinstance(error, CertificatesUnreadable) else None)
    ours = _from_ours(noted, evidence) if noted is not None else None
    if ours is not None:
        return ours
    if exchange.cut:
        return _cut(noted, evidence)
    if noted is None:
        return None
    # The chain also holds earlier failures that were handled, such as the probe's before the handshake.
    chain = list(takewhile(lambda cause: not isinstance(cause, RequestFailed), causes(noted)))
    return _unreachable(chain, evidence) or _from_tls(chain, evidence) or _broken_off(noted, evidence)


def _from_ours(error: BaseException, evidence: Evidence) -> McpError | None:
    name = evidence.server.name
    if isinstance(error, AnswerTooSlow):
        return _too_slow(evidence)
    if isinstance(error, MessageTooLarge):
        return failure(
            f"Server {name} sent {error.what} of more than {error.limit / (1 << 20):g} MiB "
            f"({error.size:,} bytes received so far)",
            evidence,
            next_step=f"ask for less, or raise max_line_mb of server {name}",
            limit_bytes=error.limit,
            size_bytes=error.size,
        )
    if isinstance(error, InvalidJson | NotMessage):
        is_json = isinstance(error, NotMessage)
        return not_message(evidence) if is_json else invalid_json(error.args[0], evidence, error.args[1])
    if isinstance(error, ForeignEndpoint | BadEndpoint):
        return _misled(error, evidence)
    if isinstance(error, CertificatesUnreadable):
        step = f"correct {error.setting}"
        return failure(
            f"Server {name}: {error.what} cannot be read: {error.reason}", evidence, next_step=step
        )
    return _from_checks(error, evidence)


def _from_checks(error: BaseException, evidence: Evidence) -> McpError | None:
    """Explain a network connection that we refused to make, or a request that we did not send."""
    if isinstance(error, NoAccessToken):
        return from_sign_in(error, evidence)
    if isinstance(error, HostRefused):
        refusal = error.refusal
        return failure(
            refusal.message,
            evidence,
            ran="not ran",
            next_step=refusal.next_step,
            host=refusal.host,
            address=refusal.address,
        )
    if isinstance(error, KeyNotPinned):
        name = evidence.server.name
        return failure(
            f"Server {name}: the public key of {error.host} is none of its tls_pins; "
            f"its pin is {error.pin}; nothing was sent",
            evidence,
            ran="not ran",
            next_step=f"if the key was changed on purpose, add its pin to tls_pins of server {name}; "
            "otherwise someone may be intercepting the connection",
            pin=error.pin,
        )
    return None


def _misled(error: ForeignEndpoint | BadEndpoint, evidence: Evidence) -> McpError:
    name, url, place = evidence.server.name, evidence.url, evidence.words(str(error), _SHOWN)
    if isinstance(error, BadEndpoint):
        message = f"Server {name} at {url} names an invalid address for its messages: {place}"
        return failure(message, evidence, ran="not ran", next_step="report it to the server's author")
    return failure(
        f"Server {name} at {url} names another host for its messages: {place}; refused",
        evidence,
        ran="not ran",
        next_step="correct its url, or the server's public address",
    )


def _too_slow(evidence: Evidence) -> McpError:
    name, seconds = evidence.server.name, evidence.server.timeout
    step = f"raise timeout of server {name} if it needs longer"
    if not evidence.calling:
        return failure(
            f"Server {name} did not answer completely within {seconds:g} s (timeout)",
            evidence,
            retryable=True,
            next_step=step,
            seconds=seconds,
        )
    return DeadlineExceeded(
        f"Tool {evidence.tool} on server {name} did not answer completely within {seconds:g} s (timeout)",
        where=evidence.where,
        ran="unknown",
        next_step=step,
        seconds=seconds,
    )


def _unreachable(chain: list[BaseException], evidence: Evidence) -> McpError | None:
    name, url = evidence.server.name, evidence.url
    if any(isinstance(cause, socket.gaierror) for cause in chain):
        host, port = _host_and_port(url)
        return failure(
            f"Server {name}: host {host} was not found (port {port})",
            evidence,
            ran="not ran",
            next_step="check the host name in its url, and the network",
            host=host,
            port=port,
        )
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        return failure(
            f"Server {name}: connection refused by {url}",
            evidence,
            ran="not ran",
            retryable=True,
            next_step="check that the server runs, and the port in its url",
        )
    return None


def _from_tls(chain: list[BaseException], evidence: Evidence) -> McpError | None:
    host, port = _host_and_port(evidence.server.url)
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            fault, step = _CERTIFICATE_FAULTS.get(
                cause.verify_code,
                (f"is not accepted: {cause.verify_message}", "have the server's certificate fixed"),
            )
            message = f"Server {evidence.server.name}: the certificate of {host} {fault}"
            return failure(
                f"{message}; nothing was sent",
                evidence,
                ran="not ran",
                next_step=step,
                certificate=cause.verify_message,
            )
    error = next((cause for cause in chain if isinstance(cause, ssl.SSLError)), None)
    if error is None:
        return None
    if error.reason in _CLIENT_CERTIFICATE_ALERTS:
        return _certificate_wanted(error.reason, host, evidence)
    if _connecting(chain[0]):
        return failure(
            f"Server {evidence.server.name}: the TLS handshake with {host}, port {port} failed: {chain[0]}",
            evidence,
            ran="not ran",
            next_step="check the port in its url, and whether the server uses https",
        )
    return None


def _certificate_wanted(alert: str, host: str, evidence: Evidence) -> McpError:
    name = evidence.server.name
    wish = "does not accept the" if evidence.server.client_cert else "wants a"
    return failure(
        f"Server {name}: {host} {wish} client certificate ({alert})",
        evidence,
        ran="not ran",
        next_step=f"set client_cert of server {name} to one that it accepts",
    )


def _broken_off(error: BaseException, evidence: Evidence) -> McpError:
    url, name = evidence.url, evidence.server.name
    kind = type(error).__name__
    if kind == "ProxyError":
        return failure(
            f"Server {name}: the proxy for {url} refused: {error}",
            evidence,
            ran="not ran",
            next_step="check HTTP_PROXY, HTTPS_PROXY and NO_PROXY",
        )
    connecting = _connecting(error)
    return failure(
        f"Server {name}: the exchange with {url} broke off: {kind} {error}".rstrip(),
        evidence,
        ran="not ran" if connecting else "unknown",
        retryable=connecting,
        next_step="check the network and the server's own log",
        status=None if connecting else evidence.exchange.status,
    )


def _cut(error: BaseException | None, evidence: Evidence) -> McpError:
    name, resumes = evidence.server.name, evidence.exchange.resumes
    if type(error).__name__ == "ReadTimeout":
        return failure(
            f"Server {name}: its event stream was silent for {evidence.server.sse_timeout:g} s (sse_timeout)",
            evidence,
            next_step=f"raise sse_timeout of server {name} if that is usual for it",
        )
    tried = f", also after resuming it {resumes} times" if resumes else ""
    return failure(
        f"Server {name}: its event stream ended before the answer came{tried}",
        evidence,
        next_step="look at its log; check what it had done before you run this again",
        resumes=resumes,
    )


def _connecting(error: object) -> bool:
    """Whether the connection to the server had not been established."""
    return type(error).__name__.startswith("Connect")  # httpx2's ConnectError and ConnectTimeout


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
