"""Failures to get an access token for a server, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

from pflow_mcp_plugin.client.failures.evidence import Evidence, failure
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.config.auth import is_machine
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.types import Server


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
    """Return what to do if a sign-in at a server does not suffice, or the scopes of a token in its config.

    Args:
        server: The server.
        scope: The scopes that are missing; empty if they are unknown, or the sign-in as such was refused.
    """
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
    """Whether a person can sign in at a server that refused a request for want of a valid token.

    Args:
        server: The server.
        challenge: The parameters of its `WWW-Authenticate` header.
    """
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
