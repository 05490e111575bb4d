"""Puts an access token on each HTTP request to a server.

Not an `httpx2.Auth`, which would read the whole body of a refusal, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import httpx2

from pflow_mcp_plugin.client.oauth.token_supply import TokenSupply
from pflow_mcp_plugin.exchange import Launch

_HEADER = "authorization"


class BearerAuth:
    """The authorization of the requests to one server, by access tokens.

    Args:
        launch: The server, with `auth` of type `oauth`.
        warn: Called with each warning for the user.
    """

    def __init__(self, launch: Launch, warn: Callable[[str], None]) -> None:
        self._tokens = TokenSupply(launch, warn)

    async def authorize(self, request: httpx2.Request) -> None:
        """Put a valid access token on a request.

        Raises:
            NoAccessToken: There is none.
        """
        request.headers[_HEADER] = f"Bearer {await self._tokens.current()}"

    async def authorize_again(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Put another access token on a request if the server refused the one on it; return whether it did.

        Raises:
            NoAccessToken: There is no other one.
        """
        refused = request.headers[_HEADER].removeprefix("Bearer ")
        challenge = response.headers.get("www-authenticate", "")
        token = ""
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            token = await self._tokens.replaced(refused, challenge)
        elif response.status_code == HTTPStatus.FORBIDDEN and "insufficient_scope" in challenge:
            token = await self._tokens.stored_instead(refused, challenge)
        if token:
            request.headers[_HEADER] = f"Bearer {token}"
        return bool(token)

    async def aclose(self) -> None:
        """Let a refresh that is running end."""
        await self._tokens.aclose()
