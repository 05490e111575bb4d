"""Whose request over HTTP it is."""

from __future__ import annotations

from mcp.server.auth.middleware.auth_context import get_access_token


def request_owner() -> str:
    """Return the owner of the runs of the current HTTP request: `ISSUER SUBJECT`, empty for the user.

    The user is who has the server's own bearer token. A subject is unique for its issuer only
    (RFC 7519, section 4.1.2).
    """
    token = get_access_token()
    if token is None or token.subject is None:
        return ""
    return f"{(token.claims or {}).get('iss', '')} {token.subject}"
