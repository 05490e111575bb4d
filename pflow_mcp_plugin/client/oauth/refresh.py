"""The refresh of a sign-in, by one process for all that use it.

Refresh tokens are often good for one use only: read, refresh and write happen under a lock, and whoever
waited for it uses what the winner wrote. Whatever goes wrong, the stored tokens stay, unless the
authorization server says that exactly this refresh token is no longer valid.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.metadata import discovered, resource_of
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInBusy, SignInKey, store_of
from pflow_mcp_plugin.client.oauth.token_endpoint import (
    CLIENT_UNKNOWN,
    TokenRefused,
    basic_pair,
    registered_client,
    requested_tokens,
)
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.config.auth import is_machine, wanted_scopes
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.types import Server

_NAMED = 10
_ASKED_AGAIN_SECONDS = 60.0
"""How long a machine does not ask again for scopes that it was not granted; they may be, in the meantime."""
FILE_ERRORS = (CorruptFile, StoreError)
"""What the files of a kept sign-in may fail with."""


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
        """Return the sign-in with fresh tokens that have every scope in the config."""
        try:
            async with self._kept.locked():
                known = await self._kept.latest()
                tokens = known.tokens if known else None
                if known and tokens and known.missing_scopes(self._auth):  # perhaps just added to the config
                    if is_machine(self._auth) and not _is_just_asked(tokens, wanted_scopes(self._auth)):
                        return await self._by_credentials(challenge)
                    return self._complete(known)
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
        sign_in = await _machine_sign_in(self._launch.server, challenge)
        await self._kept.write(sign_in)
        return self._complete(sign_in)

    def _complete(self, sign_in: SignIn) -> SignIn:
        """Return a sign-in if it has every scope in the config."""
        missing = sign_in.missing_scopes(self._auth)
        if not missing:
            return sign_in
        scope = " ".join(missing)
        supported, note = sign_in.authorization_server.scopes_supported, ""
        if supported and not set(missing) <= set(supported):
            note = f"; the scopes that its authorization server names are {', '.join(supported[:_NAMED])}"
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


class KeptSignIn:
    """The stored sign-in of a server, or the one of this run that could not be stored.

    Args:
        launch: The server, with `auth` of type `oauth`. It learns the secrets of the sign-in.
        warn: Called with each warning for the user.
    """

    def __init__(self, launch: Launch, warn: Callable[[str], None]) -> None:
        self._launch = launch
        self._warn = warn
        self._issuer = str(launch.server.auth.get("issuer", ""))
        self._key = SignInKey.of(launch.server)
        self._store = store_of(launch)
        self._unstored: SignIn | None = None

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the kept sign-in, against other processes and connections of this one."""
        return self._store.locked(self._key)

    async def latest(self) -> SignIn | None:
        """Return the kept sign-in of this run if it could not be stored, else the stored one; see `read`."""
        return self._unstored or await self.read()

    async def read(self) -> SignIn | None:
        """Return the kept sign-in as it is stored now; None if there is none.

        For a machine, none takes the place of one that cannot be read: it gets another.
        """
        machine = is_machine(self._launch.server.auth)
        try:
            found = await asyncio.to_thread(self._store.read, self._key, self._issuer)
        except FILE_ERRORS as error:
            if machine:
                return None
            raise unreadable(error) from error
        if found is not None and found.tokens is not None and not found.tokens.access:
            if machine:
                return None
            raise NoAccessToken("its tokens are in the keyring, which cannot be read", "keyring")
        if found is not None:
            self._launch.learn(found.secrets)
        return found

    async def write(self, sign_in: SignIn) -> None:
        """Keep a sign-in with new tokens; if it cannot be stored, it is good for this run only."""
        self._launch.learn(sign_in.secrets)
        auth = self._launch.server.auth
        sign_in = sign_in.without_configured_secret(auth)
        try:
            await asyncio.to_thread(self._store.write, self._key, sign_in)
            self._unstored = None
        except FILE_ERRORS as error:
            self._unstored = sign_in
            name = self._launch.server.name
            next_run = "" if is_machine(auth) else f"; unless it can at the end, run: pflow mcp login {name}"
            self._warn(f"server {name}: its new token could not be stored: {error}{next_run}")

    async def end(self, refused: Tokens) -> None:
        """Drop the kept tokens that were refused, unless a login has replaced them meanwhile."""
        if self._unstored is not None and self._unstored.tokens == refused:
            self._unstored = None
        stored = await self.read()
        if stored is not None and stored.tokens is not None and stored.tokens.refresh == refused.refresh:
            await asyncio.to_thread(self._store.write, self._key, attrs.evolve(stored, tokens=None))

    @asynccontextmanager
    async def room(self, issuer: str) -> AsyncIterator[None]:
        """Keep room for what takes the place of a refresh token, which may be good for one use only."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._store.reserved(self._key, issuer))
            except StoreError as error:
                reason = f"a new token could not be stored, so that none was requested: {error}"
                raise NoAccessToken(reason, "storage") from error
            yield

    async def store_late(self) -> None:
        """Store what could not be stored before, if that is possible by now and it is still wanted."""
        sign_in = self._unstored
        if sign_in is None or is_machine(self._launch.server.auth):
            return
        with suppress(*FILE_ERRORS, SignInBusy, NoAccessToken):
            async with self.locked():
                stored = await self.read()  # there may have been a logout meanwhile, or a login
                if stored is not None and stored.signed_in_at <= sign_in.signed_in_at:
                    await asyncio.to_thread(self._store.write, self._key, sign_in)

    def absence(self) -> str:
        """Return in words that no sign-in is kept, and which one there is under the server's name; blocks."""
        server = self._launch.server
        text = f"nobody is signed in at {place(server.url)}"
        known = (entry.sign_in for entry in self._store.entries())
        former = next((each for each in known if each and each.server == server.name), None)
        if former is None:
            return text
        where = f"{place(former.server_url)}, with {place(former.issuer)}"
        return f"{text}; its last login was at {where}, and is good there only"


def unreadable(error: CorruptFile | StoreError) -> NoAccessToken:
    """Return the failure of a kept sign-in whose file cannot be read or locked."""
    reason = f"its sign-in could not be read: {error}"
    if isinstance(error, CorruptFile):  # the next login takes its place
        return NoAccessToken(reason, "login")
    return NoAccessToken(reason, "storage", step="".join(error.suggestions[:1]))


async def _machine_sign_in(server: Server, challenge: str | None = None) -> SignIn:
    """Return a new sign-in of a machine, by the client credentials in its config."""
    auth = server.auth
    async with AuthorizationRequests(server) as requests:
        found = await discovered(requests, server, issuer=str(auth.get("issuer", "")), challenge=challenge)
        client = registered_client(auth, found.authorization_server)
        if client is None:
            raise NoAccessToken("auth has no client_id", "credentials")
        sign_in = SignIn(
            server=server.name,
            server_url=resource_of(server.url),
            resource=found.resource,
            authorization_server=found.authorization_server,
            registration=client,
            signed_in_at=time.time(),
        )
        form = {"grant_type": "client_credentials"}
        scopes = wanted_scopes(auth)
        if scopes:
            form["scope"] = " ".join(scopes)
        try:
            tokens = await requested_tokens(requests, sign_in, form)
        except TokenRefused as refusal:
            if refusal.code == "invalid_scope":
                known = found.authorization_server.scopes_supported
                raise _scope_refused(refusal, server, scopes, known) from refusal
            raise NoAccessToken(refusal.text, "credentials") from refusal
    return attrs.evolve(sign_in, tokens=attrs.evolve(tokens, requested_scopes=scopes))


def _scope_refused(
    refusal: TokenRefused, server: Server, scopes: Sequence[str], known: Sequence[str]
) -> NoAccessToken:
    """Return the failure of a request whose scopes were refused: those that the metadata does not name."""
    unknown = [scope for scope in scopes if known and scope not in known]
    scope = " ".join(unknown or scopes)
    reason = f"the scope {scope} was not granted: {refusal.text}" if scope else refusal.text
    step = f"correct scopes in auth of server {server.name}"
    return NoAccessToken(reason, "credentials", scope, step=step)
