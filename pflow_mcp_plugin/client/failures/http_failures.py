"""Failures over HTTP: of the network and TLS, refusals, answers that are not MCP, missing access tokens.

The advice on a refusal is also that of a tool which says in words that it was refused.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from itertools import takewhile
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import urljoin, urlsplit

from pflow_mcp_plugin.client.failures.evidence import Evidence, failure, invalid_json, not_message, too_large
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
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.auth import is_machine, signs_in
from pflow_mcp_plugin.contract.problems import STATUS_ACTIONS
from pflow_mcp_plugin.errors import DeadlineExceeded, McpError
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable, KeyNotPinned, trusting_steps
from pflow_mcp_plugin.network.egress import HostRefused
from pflow_mcp_plugin.network.http_headers import media_type, retry_after
from pflow_mcp_plugin.secret_detection import in_arguments, is_secret
from pflow_mcp_plugin.types import Server

_SNIPPET = 200
"""Characters of a body, a header or an address from the server that a message shows."""
_RAISABLE = re.compile("time_?out|deadline", re.IGNORECASE)
"""Part of the names of parameters and variables that limit how long a tool may take."""


def from_status(evidence: Evidence) -> McpError | None:
    """Explain an HTTP status that is an error or a redirect, or a success with content of the wrong kind."""
    exchange = evidence.exchange
    status = exchange.status
    if status is None:
        return None
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return _wrong_kind(evidence)
    if status < HTTPStatus.BAD_REQUEST:
        return _redirected(evidence)
    if exchange.session_lost:
        message = f"Server {evidence.server.name} no longer knows this session (HTTP 404)"
        step = "check what it had done before you run this again; the state of the session is lost"
        return failure(message, evidence, next_step=step, status=status, session_lost=True)
    text, step = _text(status, evidence)
    challenge = evidence.challenge
    lacks_scope = challenge.get("error") == "insufficient_scope" or "scope" in challenge
    wants_token = status == HTTPStatus.UNAUTHORIZED or (status == HTTPStatus.FORBIDDEN and lacks_scope)
    login = wants_token and needs_login(evidence.server, challenge)
    failed = failure(
        f"Server {evidence.server.name}: {text}",
        evidence,
        # A 5xx may come from a proxy that lost or gave up on a running call.
        ran="unknown" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "not ran",
        retryable=status == HTTPStatus.TOO_MANY_REQUESTS,
        next_step=step,
        status=status,
        retry_after=retry_after(evidence.exchange.headers.get("retry-after", "")),
        scope=challenge.get("scope"),
        login=login or None,
        body=evidence.exchange.body,
    )
    if failed.action == "auth_failed":
        failed.kind = "connection"  # during a call too: the tool has no part in it
    return failed


def _text(status: int, evidence: Evidence) -> tuple[str, str]:
    """Return what an HTTP status of 400 or above means, and the next step."""
    url, server, challenge = evidence.url, evidence.server, evidence.challenge
    if status == HTTPStatus.UNAUTHORIZED:
        step = _how_to_log_in(server, challenge, evidence.config_file)
        return f"not logged in at {url} (HTTP 401)", step
    if status == HTTPStatus.FORBIDDEN:
        scope = challenge.get("scope", "")[:_SNIPPET]
        if challenge.get("error") != "insufficient_scope" and not scope:
            step = f"check the permissions of the token in auth or headers of server {server.name}"
            return f"access denied at {url} (HTTP 403)", step
        needed = f"it needs the scope {scope}" if scope else "its scope is not sufficient"
        return f"access denied at {url} (HTTP 403): {needed}", new_login(server, scope)
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return f"no MCP endpoint at {url} (HTTP {status})", "check the path of its url; it often ends in /mcp"
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return f"the proxy for {url} refused it (HTTP 407)", _PROXY_STEP
    snippet = " ".join(evidence.exchange.body.split())[:_SNIPPET]
    text = f"HTTP {status} from {url}" + (f": {snippet}" if snippet else "")
    after = evidence.exchange.headers.get("retry-after", "").strip()
    after = "" if retry_after(after) is None else after[:_SNIPPET]
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        text = f"too many requests (HTTP {status})"
    action = STATUS_ACTIONS.get(status, "")
    if status == HTTPStatus.SERVICE_UNAVAILABLE:  # it has no action of its own, but this advice fits
        action = "rate_limited"
    step = advice(action, server, after=after) or "look at the server's own log"
    return text, step


def advice(
    action: str, server: Server, config_file: Path | None = None, *, after: str = "", tool: str = ""
) -> str:
    """Return the next step after a failure over HTTP, such as 401, 429 or a timeout; empty for others.

    `after` is the wait that was asked for, in seconds or as a date; `tool` the command that shows the tool.
    """
    if action == "auth_failed":
        return _how_to_log_in(server, {}, config_file)
    if action == "rate_limited":
        when = f"after {after}{' s' if after.isdecimal() else ''}" if after else "later"
        return f"try again {when}"
    if action != "timeout":
        return ""
    raisable = [f"{name} in env of server {server.name}" for name in server.env if _RAISABLE.search(name)]
    limit = " or ".join(raisable) or "its own limit"
    return f"it gave up before any timeout of pflow had passed: ask it for less, or raise {limit}" + (
        f"; {tool} shows its parameters" if tool else ""
    )


def _how_to_log_in(server: Server, challenge: Mapping[str, str], config_file: Path | None) -> str:
    name, auth = server.name, server.auth
    if needs_login(server, challenge) or signs_in(server.auth):
        return new_login(server) if signs_in(server.auth) else login_command(server)
    if auth.get("token_env"):
        return f"its token was refused; set the variable {auth['token_env']} to a valid one"
    file = f" ({config_file})" if config_file else ""
    if not server.is_remote:
        known = [variable for variable in server.env if is_secret(variable)]
        places = [f"{' and '.join(known)} in env"] if known else []
        places += ["the token in args"] if any(in_arguments(server.args)) else []
        if places:
            return f"check {' and '.join(places)} of server {name}{file}: it was refused, or may not do this"
        return f"if it needs a token, set it in env of server {name}{file}"
    if auth or any(header.lower() == "authorization" for header in server.headers):
        place = "auth" if auth else "headers"
        return f"the credentials in {place} of server {name}{file} were refused; replace them with valid ones"
    variable = f"{name.replace('-', '_').upper()}_TOKEN"
    return (
        f'get a token from its operator, and set auth = {{ type = "bearer", token = "${{{variable}}}" }} '
        f"for server {name}"
    )


def _redirected(evidence: Evidence) -> McpError:
    url = evidence.server.url
    location = evidence.exchange.headers.get("location", "")
    where = "another address"
    try:
        target = urljoin(url, location).partition("?")[0]
        before, after = urlsplit(url), urlsplit(target)
        if before.hostname != after.hostname or before.port != after.port:
            where = "another host"
        elif (before.scheme, after.scheme) == ("https", "http"):
            where = "plain http"
        is_valid = after.scheme in ("http", "https")
    except ValueError:
        is_valid = False
    facts: dict[str, Any] = {"status": evidence.exchange.status}
    step = "have the server's redirect corrected, or correct its url"
    if not is_valid:
        astray = f"to an invalid address: {location[:_SNIPPET]}"
    elif target == url:
        astray = "to itself" if location else "without a location"
    else:
        facts["location"] = shown = display.url(target, widely=True)[:1000]
        astray = f"to {where}, {shown}; refused"
        step = f"set url of server {evidence.server.name} to {shown}, if that is the server you mean"
        if where == "plain http":
            step = "have the server's proxy settings corrected: its address is https"
    message = f"Server {evidence.server.name}: {evidence.url} redirects {astray}"
    return failure(message, evidence, ran="not ran", next_step=step, **facts)


def _wrong_kind(evidence: Evidence) -> McpError:
    kind = media_type(evidence.exchange.headers)
    url = evidence.url
    what = kind[:_SNIPPET] or f"nothing (HTTP {evidence.exchange.status})"
    step = "check the path of its url; it often ends in /mcp"
    if kind == "text/html":
        what = "a web page (text/html), likely a login page"
        step = f"open {url} in a browser; then correct its url, or set a token in auth"
    return failure(
        f"Server {evidence.server.name}: {url} answered with {what}, not with MCP",
        evidence,
        next_step=step,
        status=evidence.exchange.status,
        content_type=kind,
        body=evidence.exchange.body,
    )


def from_sign_in(error: NoAccessToken, evidence: Evidence) -> McpError:
    """Explain an HTTP request that was not sent because there was no access token for the server."""
    server = evidence.server
    steps: Mapping[str, str] = {
        "login": new_login(server, error.scope),
        "later": "try again later" if is_machine(server.auth) else "try again later; the login is kept",
        "credentials": f"correct auth of server {server.name}",
        "storage": "make room for it, or correct its permissions; the login is kept",
        "keyring": f"unlock the keyring of this system; if it is gone, {new_login(server)}",
        "operator": "report it to the server's operator",
    }
    failed = failure(
        f"Server {server.name}: {evidence.words(error.reason)}",
        evidence,
        ran="not ran",
        retryable=error.remedy == "later",
        next_step=error.step or steps[error.remedy],
        scope=error.scope,
        login=(error.remedy == "login" and signs_in(server.auth) and not is_machine(server.auth)) or None,
    )
    failed.kind = "connection"  # during a call too: the tool has no part in it
    if error.remedy not in ("later", "operator") or error.scope:
        failed.action = "auth_failed"
    return failed


def new_login(server: Server, scope: str = "") -> str:
    """Return the next step after an HTTP refusal if the login, or a token in the config, does not suffice."""
    name = server.name
    if not signs_in(server.auth):
        token = f"a token with the scope {scope}" if scope else "a token with a wider scope"
        variable = server.auth.get("token_env")
        return f"set the variable {variable} to {token}" if variable else f"get {token} for server {name}"
    if is_machine(server.auth):
        return (
            f"add {scope} to scopes in auth of server {name}"
            if scope
            else f"correct client_id, its secret or key, and issuer in auth of server {name}"
        )
    return login_command(server, scope)


def needs_login(server: Server, challenge: Mapping[str, str]) -> bool:
    """Whether an HTTP failure, for want of a valid token, is one that a person resolves by signing in."""
    if signs_in(server.auth):
        return not is_machine(server.auth)
    has_token = server.auth or any(name.lower() == "authorization" for name in server.headers)
    return not has_token and bool(challenge.get("resource_metadata"))


def login_command(server: Server, scope: str = "") -> str:
    """Return the advice on a refusal over HTTP that a login may end; `scope` has more scopes to ask for."""
    return f"run: pflow mcp login {server.name}" + "".join(
        f" --scope {quote(word)}" for word in scope.split()
    )


_PROXY_STEP = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"

_CERTIFICATE_FAULTS = {
    9: ("is not valid yet", "check this machine's clock, or have the server's certificate fixed"),
    10: ("has expired", "have the server's certificate renewed"),
    18: ("is self-signed", ""),
    19: ("is signed by an unknown CA", "if you trust it, set ca_bundle or SSL_CERT_FILE to that CA's file"),
    20: ("is signed by a CA that is not trusted here", "set ca_bundle or SSL_CERT_FILE to that CA's file"),
    62: ("is for another host name", "use the name that the certificate is for in its url"),
    64: ("is not for this address", "use the name that the certificate is for in its url"),
}
"""OpenSSL's `X509_V_ERR_...` code of a certificate fault: its description and next step (`""`: to pin it)."""

_CLIENT_CERTIFICATE_ALERTS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "TLSV1_ALERT_UNKNOWN_CA",
    "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
}
"""OpenSSL's reasons for the alerts of a server that wants another client certificate."""


def from_network(evidence: Evidence, error: BaseException) -> McpError | None:
    """Explain an HTTP exchange that the network broke off, or that we broke off because of its content."""
    exchange = evidence.exchange
    noted = exchange.error or (error if isinstance(error, CertificatesUnreadable) else None)
    ours = _from_ours(noted, evidence) if noted is not None else None
    if ours is not None:
        return ours
    if exchange.cut:
        name, seconds = evidence.server.name, evidence.server.sse_timeout
        tried = f", also after resuming it {exchange.resumes} times" if exchange.resumes else ""
        facts: dict[str, Any] = {"resumes": exchange.resumes}
        text = f"ended before the answer came{tried}"
        step = "look at its log; check what it had done before you run this again"
        if type(noted).__name__ == "ReadTimeout":
            text, facts = f"was silent for {seconds:g} s (sse_timeout)", {}
            step = f"raise sse_timeout of server {name} if that is usual for it"
        return failure(f"Server {name}: its event stream {text}", evidence, next_step=step, **facts)
    if noted is None:
        return None
    # The chain also holds earlier failures that were handled, such as the probe's before the handshake.
    chain = list(takewhile(lambda cause: not isinstance(cause, RequestFailed), causes(noted)))
    return _unreachable(chain, evidence) or _from_tls(chain, evidence) or _broken_off(noted, evidence)


def _from_ours(error: BaseException, evidence: Evidence) -> McpError | None:  # noqa: PLR0911 - one for each error
    name = evidence.server.name
    if isinstance(error, AnswerTooSlow):
        seconds = evidence.server.timeout
        late = f"did not answer completely within {seconds:g} s (timeout)"
        step = f"raise timeout of server {name} if it needs longer"
        if not evidence.calling:
            return failure(f"Server {name} {late}", evidence, retryable=True, next_step=step, seconds=seconds)
        message = f"Tool {evidence.tool} on server {name} {late}"
        return DeadlineExceeded(message, where=evidence.where, ran="unknown", next_step=step, seconds=seconds)
    if isinstance(error, MessageTooLarge):
        return too_large(error.what, error.size, evidence)
    if isinstance(error, InvalidJson | NotMessage):
        is_json = isinstance(error, NotMessage)
        return not_message(evidence) if is_json else invalid_json(error.args[0], evidence, error.args[1])
    if isinstance(error, ForeignEndpoint | BadEndpoint):
        place = evidence.words(str(error), _SNIPPET)
        wrong, step = f"an invalid address for its messages: {place}", "report it to the server's author"
        if isinstance(error, ForeignEndpoint):
            wrong = f"another host for its messages: {place}; refused"
            step = "correct its url, or the server's public address"
        message = f"Server {name} at {evidence.url} names {wrong}"
        return failure(message, evidence, ran="not ran", next_step=step)
    if isinstance(error, CertificatesUnreadable):
        return failure(f"Server {name}: {error}", evidence, next_step=f"correct {error.setting}")
    return _from_checks(error, evidence)


def _from_checks(error: BaseException, evidence: Evidence) -> McpError | None:
    """Explain an HTTP connection that we refused to make, or a request that we did not send."""
    if isinstance(error, NoAccessToken):
        return from_sign_in(error, evidence)
    if isinstance(error, HostRefused):
        known = error.refusal
        facts: dict[str, Any] = {"host": known.host, "address": known.address}
        return failure(known.message, evidence, ran="not ran", next_step=known.next_step, **facts)
    if isinstance(error, KeyNotPinned):
        name = evidence.server.name
        message = (
            f"Server {name}: the public key of {error.host} is not one of its tls_pins; "
            f"its pin is {error.pin}; nothing was sent"
        )
        step = (
            f"if the key was changed on purpose, add its pin to tls_pins of server {name}; "
            "otherwise someone may be intercepting the connection"
        )
        return failure(message, evidence, ran="not ran", next_step=step, pin=error.pin)
    return None


def _unreachable(chain: list[BaseException], evidence: Evidence) -> McpError | None:
    name, url = evidence.server.name, evidence.url
    proxy = next((cause for cause in chain if type(cause).__name__ == "ProxyError"), None)
    if proxy is not None:
        message = f"Server {name}: the proxy for {url} failed: {proxy}"
        is_down = any(isinstance(cause, OSError) for cause in chain)
        return failure(message, evidence, ran="not ran", retryable=is_down, next_step=_PROXY_STEP)
    if any(isinstance(cause, socket.gaierror) for cause in chain):
        host, port = _host_and_port(url)
        message = f"Server {name}: host {host} was not found (port {port})"
        step = "check the host name in its url, and the network"
        return failure(message, evidence, ran="not ran", next_step=step, host=host, port=port)
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        message = f"Server {name}: connection refused by {url}"
        step = "check that the server runs, and the port in its url"
        return failure(message, evidence, ran="not ran", retryable=True, next_step=step)
    return None


def _from_tls(chain: list[BaseException], evidence: Evidence) -> McpError | None:
    name, (host, port) = evidence.server.name, _host_and_port(evidence.server.url)
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            unknown = (f"is not accepted: {cause.verify_message}", "have the server's certificate fixed")
            fault, step = _CERTIFICATE_FAULTS.get(cause.verify_code, unknown)
            steps = (step,) if step else trusting_steps(name, evidence.server.url)
            message = f"Server {name}: the certificate of {host} {fault}; nothing was sent"
            known = cause.verify_message
            error = failure(message, evidence, ran="not ran", next_step=steps[0], certificate=known)
            error.suggestions += steps[1:]
            return error
    alert = next((cause for cause in chain if isinstance(cause, ssl.SSLError)), None)
    if alert is None:
        return None
    if alert.reason in _CLIENT_CERTIFICATE_ALERTS:
        wish = "does not accept the" if evidence.server.client_cert else "wants a"
        message = f"Server {name}: {host} {wish} client certificate ({alert.reason})"
        step = f"set client_cert of server {name} to one that it accepts"
        return failure(message, evidence, ran="not ran", next_step=step)
    if _connecting(chain[0]):
        message = f"Server {name}: the TLS handshake with {host}, port {port} failed: {chain[0]}"
        step = "check the port in its url, and whether the server uses https"
        return failure(message, evidence, ran="not ran", next_step=step)
    return None


def _broken_off(error: BaseException, evidence: Evidence) -> McpError:
    url, name = evidence.url, evidence.server.name
    kind, connecting = type(error).__name__, _connecting(error)
    return failure(
        f"Server {name}: the exchange with {url} broke off: {kind} {error}".rstrip(),
        evidence,
        ran="not ran" if connecting else "unknown",
        retryable=connecting,
        next_step="check the network and the server's own log",
        status=None if connecting else evidence.exchange.status,
    )


def _connecting(error: object) -> bool:
    return type(error).__name__.startswith("Connect")  # httpx2's ConnectError and ConnectTimeout


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
