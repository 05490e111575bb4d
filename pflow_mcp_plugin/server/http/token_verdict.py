"""The verdict on the token of a request: what it allows, or why it is refused."""

from __future__ import annotations

from typing import Literal, Protocol

import attrs
from mcp.server.auth.provider import AccessToken

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
