"""The refresh of a sign-in, by one process for all that use it.

Refresh tokens are often good for one use only: read, refresh and write happen under a lock, and whoever
waited for it uses what the winner wrote. Whatever goes wrong, the stored tokens stay, unless the
authorization server says that exactly this refresh token is no longer valid.
"""

from __future__ import annotations

import asyncio
import time

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests
from pflow_mcp_plugin.client.oauth.client_authentication import basic_pair, registered_client
from pflow_mcp_plugin.client.oauth.client_credentials import signed_in
from pflow_mcp_plugin.client.oauth.kept_sign_in import FILE_ERRORS, KeptSignIn, unreadable
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInBusy
from pflow_mcp_plugin.client.oauth.token_endpoint import CLIENT_UNKNOWN, TokenRefused, requested_tokens
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.config.auth import is_machine, wanted_scopes
from pflow_mcp_plugin.exchange import Launch

_NAMED = 10
_ASKED_AGAIN_SECONDS = 60.0
"""How long a machine does not ask again for scopes that it was not granted; they may be, in the meantime."""


class Refresh:
    """Makes a sign-in of a server good again.

    Args:
        launch: The server, with `auth` of type `oauth`.
        kept: Its sign-in.
    """

    def __init__(self, launch: Launch, kept: KeptSignIn) -> None:
        self._launch = launch
        self._auth = launch.server.auth
        self._kept = kept

    async def sign_in(self, refused: str, challenge: str | None) -> SignIn:
        """Return the sign-in with fresh tokens that have every scope in the config.

        Args:
            refused: An access token that the server has refused; empty if there was none.
            challenge: The `WWW-Authenticate` header of the refusal, None if there was none.

        Raises:
            NoAccessToken: There are none; a login may be needed.
            HostRefused: The authorization server must not be connected to.
            KeyNotPinned: It has none of the pinned keys.
        """
        try:
            async with self._kept.locked():
                known = await self._kept.latest()
                tokens = known.tokens if known else None
                if known and tokens and known.missing_scopes(self._auth):
                    return await self._widened(known, tokens, challenge)
                if known and tokens and tokens.access != refused and tokens.is_fresh(time.time()):
                    return known  # perhaps of another process, or connection
                return await self._obtained(known, challenge)
        except SignInBusy:
            reason = "another process has been refreshing its token for too long"
            raise NoAccessToken(reason, "later") from None
        except FILE_ERRORS as error:
            if not is_machine(self._auth):
                raise unreadable(error) from error
            return await self._by_credentials(challenge)  # nothing can be stored there

    async def _widened(self, known: SignIn, tokens: Tokens, challenge: str | None) -> SignIn:
        """Return a sign-in with the scopes that have been added to the config, for a machine."""
        if is_machine(self._auth) and not _is_just_asked(tokens, wanted_scopes(self._auth)):
            return await self._by_credentials(challenge)
        return self._complete(known)

    async def _obtained(self, known: SignIn | None, challenge: str | None) -> SignIn:
        """Return a sign-in with new tokens: by its refresh token, or the credentials of a machine."""
        machine = is_machine(self._auth)
        if known is not None and known.tokens is not None and known.tokens.refresh:
            try:
                return await self._refreshed(known, known.tokens)
            except TokenRefused as refusal:
                if not machine:
                    raise self._not_refreshed(refusal) from refusal
            except NoAccessToken as failure:
                if not machine or failure.remedy == "later":
                    raise
        if machine:
            return await self._by_credentials(challenge)
        if known is None:
            raise NoAccessToken(await asyncio.to_thread(self._kept.absence), "login")
        raise NoAccessToken(f"the login has {'expired' if known.tokens else 'ended'}", "login")

    async def _refreshed(self, known: SignIn, former: Tokens) -> SignIn:
        server = self._launch.server
        client = registered_client(self._auth, known.authorization_server) or known.registration
        client = attrs.evolve(client, redirect_uris=known.registration.redirect_uris)
        self._learn(client.client_id, client.client_secret)
        form = {"grant_type": "refresh_token", "refresh_token": former.refresh}
        async with AuthorizationRequests(server) as requests, self._kept.room(known.issuer):
            by_client = attrs.evolve(known, registration=client)
            try:
                tokens = await requested_tokens(requests, by_client, form)
            except TokenRefused as refusal:
                if refusal.code == "invalid_grant":
                    await self._kept.end(former)
                raise
            new = attrs.evolve(known, tokens=tokens)
            await self._kept.write(new)
        return new

    def _not_refreshed(self, refusal: TokenRefused) -> NoAccessToken:
        """Return the failure of a refresh that was refused; only `invalid_grant` ends the login."""
        if refusal.code == "invalid_grant":
            return NoAccessToken(f"the login has ended: {refusal.text}", "login")
        reason = f"its token was not refreshed: {refusal.text}; the tokens are kept"
        if refusal.code in CLIENT_UNKNOWN and "client_id" in self._auth:
            return NoAccessToken(reason, "credentials")
        # Without an error of OAuth, something else may have answered, such as a proxy.
        again = f"try again later; if it is refused again, run: pflow mcp login {self._launch.server.name}"
        return NoAccessToken(reason, "login", step="" if refusal.code else again)

    async def _by_credentials(self, challenge: str | None) -> SignIn:
        """Return a new sign-in of a machine."""
        self._learn(str(self._auth.get("client_id", "")), str(self._auth.get("client_secret", "")))
        sign_in = await signed_in(self._launch.server, challenge)
        await self._kept.write(sign_in)
        return self._complete(sign_in)

    def _complete(self, sign_in: SignIn) -> SignIn:
        """Return a sign-in if it has every scope in the config.

        Raises:
            NoAccessToken: It lacks some.
        """
        missing = sign_in.missing_scopes(self._auth)
        if not missing:
            return sign_in
        scope = " ".join(missing)
        note = _known_scopes(missing, sign_in.authorization_server.scopes_supported)
        text = f"the scope {scope} was not granted{note}"
        if not is_machine(self._auth):
            raise NoAccessToken(text, "login", scope)
        client = self._auth.get("client_id")
        step = f"have the client {client} granted it, or remove it from scopes in auth"
        raise NoAccessToken(text, "credentials", scope, step=f"{step} of server {self._launch.server.name}")

    def _learn(self, client_id: str, client_secret: str) -> None:
        if client_secret:
            self._launch.learn((client_secret, basic_pair(client_id, client_secret)))


def _is_just_asked(tokens: Tokens, wanted: list[str]) -> bool:
    """Whether a machine asked for these scopes a moment ago, and got less."""
    age = time.time() - tokens.issued_at
    return set(wanted) <= set(tokens.requested_scopes) and 0 <= age < _ASKED_AGAIN_SECONDS


def _known_scopes(missing: list[str], supported: tuple[str, ...]) -> str:
    """Return a note about scopes that the authorization server does not name, empty if it names them."""
    if not supported or set(missing) <= set(supported):
        return ""
    return f"; the scopes that its authorization server names are {', '.join(supported[:_NAMED])}"
