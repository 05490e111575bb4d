"""The token of a request: what it allows, or why it is refused; the server's own token; who sends it."""

from __future__ import annotations

import hmac
import re
import stat
from pathlib import Path
from typing import Any, Literal, Protocol

import attrs
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext

from pflow_mcp_plugin.contract import PflowError, RunOrigin
from pflow_mcp_plugin.server.pflow_server import the_user
from pflow_mcp_plugin.storage.regular_files import read_regular

TokenError = Literal["", "invalid_token", "insufficient_scope", "temporarily_unavailable"]

_STATUS = {"insufficient_scope": 403, "temporarily_unavailable": 503}


@attrs.frozen(kw_only=True)
class Refusal:
    """Why a token is refused (RFC 6750, section 3).

    Attributes:
        error: The error code; empty where the request had no token.
        reason: Why, for the client's user; it quotes nothing from the token.
        scope: The scopes that the server requires, if some are missing.
    """

    error: TokenError = "invalid_token"
    reason: str
    scope: str = ""

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return _STATUS.get(self.error, 401)


class TokenCheck(Protocol):
    """Checks the tokens of requests."""

    async def check(self, token: str) -> AccessToken | Refusal:
        """Return what a token allows, or why it is refused."""


_SHORTEST = 16
_LONGEST = 4096
_SENDABLE = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""The characters of a bearer token (RFC 6750, section 2.1)."""


@attrs.frozen
class BearerToken:
    """Accepts one token: whoever has it is the user.

    Attributes:
        value: The token.
    """

    value: str = attrs.field(repr=False)

    async def check(self, token: str) -> AccessToken | Refusal:
        """Return what a token allows, or why it is refused."""
        if not hmac.compare_digest(token.encode(), self.value.encode()):
            return Refusal(reason="The token is not that of this server")
        return AccessToken(token=token, client_id="pflow", scopes=[])


def read_token(path: Path) -> tuple[str, str]:
    """Return the token in a file, and a warning if others may read the file (else empty).

    Raises:
        PflowError: Kind `usage`: it cannot be read, or holds no token.
    """
    try:
        content = read_regular(path, _LONGEST).decode()
        mode = stat.S_IMODE(path.stat().st_mode)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise PflowError(f"The token file {path} cannot be read: {reason}", kind="usage") from error
    loose = f"Others may read the token file {path} (mode {mode:04o}): run chmod 600 on it"
    return valid_token(content.strip(), f"The token file {path}"), loose if mode & 0o077 else ""


def valid_token(token: str, source: str) -> str:
    """Return a token if it is fit for use.

    Args:
        token: The token.
        source: Where it comes from, for the message.

    Raises:
        PflowError: Kind `usage`: it is empty, too short, or has characters that a header cannot have.
    """
    step = 'Make one: python -c "import secrets; print(secrets.token_urlsafe(32))"'
    if not token:
        raise PflowError(f"{source} holds no token", kind="usage", suggestions=(step,))
    if len(token) < _SHORTEST:
        message = f"{source} holds a token of fewer than {_SHORTEST} characters, which can be guessed"
        raise PflowError(message, kind="usage", suggestions=(step,))
    if not _SENDABLE.fullmatch(token):
        message = f"{source} holds a token with characters that cannot be sent in a header"
        raise PflowError(message, kind="usage", suggestions=(step,))
    return token


def http_caller(context: ServerRequestContext[Any, Any]) -> RunOrigin:
    """Return the origin of an HTTP request: `ISSUER SUBJECT` owns its runs, or the user.

    Whoever has the server's own bearer token is the user. The issuer is named because a subject is unique
    within its issuer only (RFC 7519, section 4.1.2).

    Raises:
        PflowError: The request has no token. Nobody is taken for the user by default.
    """
    token = get_access_token()
    if token is None:
        raise PflowError("The request has no token", kind="usage")
    issuer = (token.claims or {}).get("iss", "")
    return attrs.evolve(the_user(context), owner="" if token.subject is None else f"{issuer} {token.subject}")
