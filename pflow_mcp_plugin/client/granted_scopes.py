"""The scopes in the config of a server, compared with those of its access token before anything is sent."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode

from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.client.transport.messages import read_json
from pflow_mcp_plugin.config.auth import missing_scopes
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.types import Server

_CLAIMS = ("scope", "scp")
"""The claims of a JWT with scopes: that of RFC 9068, and another common one."""
_SEGMENTS = 3


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
        claims = read_json(urlsafe_b64decode(segments[1] + "=="))
    except (ValueError, binascii.Error, RecursionError):
        return ()
    values = (claims.get(claim) for claim in _CLAIMS) if isinstance(claims, dict) else ()
    return next(filter(None, map(_words, values)), ())


def _words(value: JSON) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
