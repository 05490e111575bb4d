"""HTTP answers that are not MCP answers (statuses, redirects, content types), and missing access tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from shlex import quote
from typing import Any
from urllib.parse import urljoin, urlsplit

from pflow_mcp_plugin.client.deadlines import retry_after
from pflow_mcp_plugin.client.failures.evidence import Evidence, failure
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.auth import is_machine
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.types import Server

_SNIPPET = 200
_LONGEST_ADDRESS = 1000
# The parameters of a challenge (RFC 9110, section 11.6.1; RFC 6750 for `scope` and `error`).
_CHALLENGE = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')
_ACTIONS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "auth_failed",
    HTTPStatus.FORBIDDEN: "auth_failed",
    HTTPStatus.NOT_FOUND: "resource_missing",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limited",
    HTTPStatus.REQUEST_TIMEOUT: "timeout",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout",
}


def from_status(evidence: Evidence) -> McpError | None:
    """Explain an HTTP status that is an error, a redirect, or content of the wrong kind."""
    exchange = evidence.exchange
    status = exchange.status
    if status is None:
        return None
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return _wrong_kind(evidence)
    if status < HTTPStatus.BAD_REQUEST:
        return _redirected(evidence)
    if exchange.session_lost:
        return _session_lost(evidence)
    return _refused(status, evidence)


def _refused(status: int, evidence: Evidence) -> McpError:
    text, step = _text(status, evidence)
    challenge = _challenge(evidence)
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
    failed.action = _ACTIONS.get(status, "error")
    if failed.action == "auth_failed":
        failed.kind = "connection"  # during a call too: the tool has no part in it
    return failed


def _text(status: int, evidence: Evidence) -> tuple[str, str]:
    """Return what happened and the next step."""
    url = evidence.url
    if status == HTTPStatus.UNAUTHORIZED:
        return f"not logged in at {url} (HTTP 401)", _how_to_log_in(evidence)
    if status == HTTPStatus.FORBIDDEN:
        return _forbidden(evidence)
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return f"no MCP endpoint at {url} (HTTP {status})", "check the path of its url; it often ends in /mcp"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        after = evidence.exchange.headers.get("retry-after", "")[:_SNIPPET]
        when = f"after {after} s" if after.strip().isdecimal() else f"after {after}" if after else "later"
        return f"too many requests (HTTP {status})", f"try again {when}"
    snippet = " ".join(evidence.exchange.body.split())[:_SNIPPET]
    return f"HTTP {status} from {url}" + (f": {snippet}" if snippet else ""), "look at the server's own log"


def _how_to_log_in(evidence: Evidence) -> str:
    name, auth = evidence.server.name, evidence.server.auth
    if needs_login(evidence.server, _challenge(evidence)):
        return login_command(evidence.server)
    if signs_in(evidence.server):
        return new_login(evidence.server)
    if auth.get("token_env"):
        return f"its token was refused; set the variable {auth['token_env']} to a valid one"
    if auth or any(header.lower() == "authorization" for header in evidence.server.headers):
        place = "auth" if auth else "headers"
        return f"the credentials in {place} of server {name} were refused; replace them with valid ones"
    variable = f"{name.replace('-', '_').upper()}_TOKEN"
    return (
        f'get a token from its operator, and set auth = {{ type = "bearer", token = "${{{variable}}}" }} '
        f"for server {name}"
    )


def _forbidden(evidence: Evidence) -> tuple[str, str]:
    challenge, name = _challenge(evidence), evidence.server.name
    scope = challenge.get("scope", "")[:_SNIPPET]
    if challenge.get("error") != "insufficient_scope" and not scope:
        step = f"check the permissions of the token in auth or headers of server {name}"
        return f"access denied at {evidence.url} (HTTP 403)", step
    needed = f"it needs the scope {scope}" if scope else "its scope is not sufficient"
    return f"access denied at {evidence.url} (HTTP 403): {needed}", new_login(evidence.server, scope)


def _challenge(evidence: Evidence) -> dict[str, str]:
    """Return the parameters of the server's `WWW-Authenticate` header."""
    text = evidence.exchange.headers.get("www-authenticate", "")
    return {match[1].lower(): match[2] or match[3] or "" for match in _CHALLENGE.finditer(text)}


def _session_lost(evidence: Evidence) -> McpError:
    return failure(
        f"Server {evidence.server.name} no longer knows this session (HTTP 404)",
        evidence,
        next_step="check what it had done before you run this again; the state of the session is lost",
        status=evidence.exchange.status,
        session_lost=True,
    )


def _redirected(evidence: Evidence) -> McpError:
    url = evidence.server.url
    location = evidence.exchange.headers.get("location", "")
    try:
        target = urljoin(url, location).partition("?")[0]
        where = _kind_of_place(url, target)
    except ValueError:
        return _astray(f"to an invalid address: {location[:_SNIPPET]}", evidence)
    if target == url:
        return _astray("to itself" if location else "without a location", evidence)
    target = display.url(target, widely=True)[:_LONGEST_ADDRESS]
    return failure(
        f"Server {evidence.server.name}: {evidence.url} redirects to {where}, {target}; refused",
        evidence,
        ran="not ran",
        next_step="have the server's proxy settings corrected: its address is https"
        if where == "plain http"
        else f"set url of server {evidence.server.name} to {target}, if that is the server you mean",
        status=evidence.exchange.status,
        location=target,
    )


def _astray(how: str, evidence: Evidence) -> McpError:
    return failure(
        f"Server {evidence.server.name}: {evidence.url} redirects {how}",
        evidence,
        ran="not ran",
        next_step="have the server's redirect corrected, or correct its url",
        status=evidence.exchange.status,
    )


def _kind_of_place(url: str, target: str) -> str:
    """Return in words where a redirect leads."""
    before, after = urlsplit(url), urlsplit(target)
    if after.scheme not in ("http", "https"):
        raise ValueError(after.scheme)
    if before.hostname != after.hostname or before.port != after.port:
        return "another host"
    return "plain http" if (before.scheme, after.scheme) == ("https", "http") else "another address"


def _wrong_kind(evidence: Evidence) -> McpError:
    kind = evidence.exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    url = evidence.url
    facts: dict[str, Any] = {
        "status": evidence.exchange.status,
        "content_type": kind,
        "body": evidence.exchange.body,
    }
    if kind == "text/html":
        return failure(
            f"Server {evidence.server.name}: {url} answered with a web page (text/html), "
            "likely a login page, not with MCP",
            evidence,
            next_step=f"open {url} in a browser; then correct its url, or set a token in auth",
            **facts,
        )
    what = kind[:_SNIPPET] or f"nothing (HTTP {evidence.exchange.status})"
    return failure(
        f"Server {evidence.server.name}: {url} answered with {what}, not with MCP",
        evidence,
        next_step="check the path of its url; it often ends in /mcp",
        **facts,
    )


def from_sign_in(error: NoAccessToken, evidence: Evidence) -> McpError:
    """Explain a request to a server for which there was no access token; it was not sent."""
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
        login=(error.remedy == "login" and signs_in(server) and not is_machine(server.auth)) or None,
    )
    failed.kind = "connection"  # during a call too: the tool has no part in it
    if error.remedy not in ("later", "operator") or error.scope:
        failed.action = "auth_failed"
    return failed


def signs_in(server: Server) -> bool:
    """Whether the access tokens of a server come from a sign-in."""
    return server.auth.get("type") == "oauth"


def new_login(server: Server, scope: str = "") -> str:
    """Return what to do if a sign-in at a server does not suffice, or the scopes of a token in its config."""
    name = server.name
    if not signs_in(server):
        return _other_token(server, scope)
    if is_machine(server.auth):
        return (
            f"add {scope} to scopes in auth of server {name}"
            if scope
            else f"correct client_id, its secret or key, and issuer in auth of server {name}"
        )
    return login_command(server, scope)


def needs_login(server: Server, challenge: Mapping[str, str]) -> bool:
    """Whether a person can sign in at a server that refused a request for want of a valid token."""
    if signs_in(server):
        return not is_machine(server.auth)
    has_token = server.auth or any(name.lower() == "authorization" for name in server.headers)
    return not has_token and bool(challenge.get("resource_metadata"))


def login_command(server: Server, scope: str = "") -> str:
    """Return as a next step how a person signs in at a server, with these scopes beside the usual ones."""
    return f"run: pflow mcp login {server.name}" + "".join(
        f" --scope {quote(word)}" for word in scope.split()
    )


def _other_token(server: Server, scope: str) -> str:
    token = f"a token with the scope {scope}" if scope else "a token with a wider scope"
    variable = server.auth.get("token_env")
    return f"set the variable {variable} to {token}" if variable else f"get {token} for server {server.name}"
