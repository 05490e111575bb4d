"""Puts an access token on each HTTP request to a server.

Not an `httpx2.Auth`, which would read the whole body of a refusal, however long it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

import httpx2

from pflow_mcp_plugin.client.oauth.metadata import challenged_scopes
from pflow_mcp_plugin.client.oauth.refresh import KeptSignIn, Refresh
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.network.certificates import KeyNotPinned
from pflow_mcp_plugin.network.egress import HostRefused

_HEADER = "authorization"
_EARLY_SECONDS = 5.0
"""How long a request may wait for a refresh while its token is still valid."""
_PAUSE = 10.0
"""Seconds before such a refresh is tried again."""
_LAST_SECONDS = 5.0
"""How long a refresh that is running may take when its connection is closed; its token would be lost."""


class BearerAuth:
    """The authorization of the requests to one server, by access tokens.

    Args:
        launch: The server, with `auth` of type `oauth`.
        warn: Called with each warning for the user.
    """

    def __init__(self, launch: Launch, warn: Callable[[str], None]) -> None:
        self._tokens = TokenSupply(launch, warn)

    async def authorize(self, request: httpx2.Request) -> None:
        """Put a valid access token on a request."""
        request.headers[_HEADER] = f"Bearer {await self._tokens.current()}"

    async def authorize_again(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Put another access token on a request whose token the server refused; return whether it did."""
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


class TokenSupply:
    """The access tokens of a server, one after the other; used in one event loop.

    Args:
        launch: The server, with `auth` of type `oauth`.
        warn: Called with each warning for the user.
    """

    def __init__(self, launch: Launch, warn: Callable[[str], None]) -> None:
        self._auth = launch.server.auth
        self._kept = KeptSignIn(launch, warn)
        self._refresh = Refresh(launch, self._kept)
        self._sign_in: SignIn | None = None
        self._running: asyncio.Task[SignIn] | None = None
        self._next_attempt = 0.0

    async def current(self) -> str:
        """Return an access token that is valid for a while, refreshed if it is not."""
        if self._sign_in is None:
            self._sign_in = await self._kept.latest()
        known = self._sign_in
        tokens = known.tokens if known else None
        now = time.time()
        if known is None or tokens is None or not tokens.is_valid(now) or known.missing_scopes(self._auth):
            return await self._refreshed("", None)
        if not tokens.is_fresh(now) and time.monotonic() > self._next_attempt:
            # It is still valid: a failure does no harm yet.
            try:
                async with asyncio.timeout(_EARLY_SECONDS):
                    await self._refreshed("", None)
            except (NoAccessToken, HostRefused, KeyNotPinned, TimeoutError):
                self._next_attempt = time.monotonic() + _PAUSE
        return _access(self._sign_in) or tokens.access

    async def replaced(self, refused: str, challenge: str) -> str:
        """Return another access token than a refused one: a new one, unless there is one already."""
        token = await self._refreshed(refused, challenge)
        if token == refused:  # a refresh was running already, which another reason had started
            token = await self._refreshed(refused, challenge)
        return token

    async def stored_instead(self, insufficient: str, challenge: str) -> str:
        """Return the stored access token if it is another than one that did not suffice, else `""`.

        A login may have been repeated meanwhile, with more scopes.
        """
        sign_in = await self._kept.read() or self._sign_in
        tokens = sign_in.tokens if sign_in else None
        if tokens is None or not tokens.is_valid(time.time()):
            return ""
        if tokens.access != insufficient:
            self._sign_in = sign_in
            return tokens.access
        asked = challenged_scopes(challenge)
        if asked and set(asked) <= set(tokens.scopes):
            scope = " ".join(dict.fromkeys(asked))
            reason = f"access denied (HTTP 403): it needs the scope {scope}, which the token has already"
            raise NoAccessToken(reason, "operator", scope)
        return ""

    async def aclose(self) -> None:
        """Let a refresh that is running end, and store what could not be stored before."""
        if self._running is not None and not self._running.done():
            await asyncio.wait([self._running], timeout=_LAST_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await self._kept.store_late()

    async def _refreshed(self, refused: str, challenge: str | None) -> str:
        """Return the access token of a refresh: of the one that is running, if one is."""
        if self._running is None or self._running.done():
            refresh = self._refresh.sign_in(refused, challenge)
            self._running = asyncio.create_task(refresh, name="refresh of a token")
            # Its exception is seen even if all that waited for it were cancelled.
            self._running.add_done_callback(lambda done: done.cancelled() or done.exception())
        # A call that is cancelled must not cancel it: the refresh token may have been spent.
        try:
            self._sign_in = await asyncio.shield(self._running)
        except NoAccessToken:
            self._sign_in = None  # what is stored now counts: the login may have ended
            raise
        return _access(self._sign_in)


def _access(sign_in: SignIn | None) -> str:
    return sign_in.tokens.access if sign_in and sign_in.tokens else ""
