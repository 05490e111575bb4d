"""Puts an access token on each HTTP request to a server.

Not an `httpx2.Auth`, which would read the whole body of a refusal, however long it is.

Refresh tokens are often good for one use only: read, refresh and write happen under a lock, and whoever
waited for it uses what the winner wrote. Whatever goes wrong, the stored tokens stay, unless the
authorization server says that exactly this refresh token is no longer valid.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus

import attrs
import httpx2

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.metadata import challenged_scopes, discovered
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, store_of
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
from pflow_mcp_plugin.network.certificates import KeyNotPinned
from pflow_mcp_plugin.network.egress import HostRefused
from pflow_mcp_plugin.storage import CorruptFile, StoreError

_ASKED_AGAIN_SECONDS = 60.0
"""How long a machine does not ask again for scopes that it was not granted; they may be, in the meantime."""
_LAST_SECONDS = 5.0
"""How long a running refresh may still take when its connection is closed, or its token would be lost."""
FILE_ERRORS = (CorruptFile, StoreError)
"""Errors of reading or writing the files of a kept sign-in."""
_HEADER = "authorization"


class BearerAuth:
    """The authorization of the requests to one server, by access tokens; used in one event loop."""

    def __init__(self, launch: Launch, warn: Callable[[str], None]) -> None:
        self._launch = launch
        self._auth = launch.server.auth
        self._kept = KeptSignIn(launch, warn)
        self._sign_in: SignIn | None = None
        self._running: asyncio.Task[SignIn] | None = None
        self._next_attempt = 0.0

    async def authorize(self, request: httpx2.Request) -> None:
        """Put an access token on a request, refreshed before it expires; that may fail while it is valid."""
        if self._sign_in is None:
            self._sign_in = await self._kept.latest()
        known = self._sign_in
        tokens = known.tokens if known else None
        now = time.time()
        if known is None or tokens is None or not tokens.is_valid(now) or known.missing_scopes(self._auth):
            token = await self._refreshed("", None)
        else:
            token = tokens.access
            if not tokens.is_fresh(now) and time.monotonic() > self._next_attempt:
                # It is still valid: a failure does no harm yet.
                try:
                    async with asyncio.timeout(5.0):  # the token is still valid
                        token = await self._refreshed("", None)
                except (NoAccessToken, HostRefused, KeyNotPinned, TimeoutError):
                    self._next_attempt = time.monotonic() + 10.0  # the next requests do not wait
        request.headers[_HEADER] = f"Bearer {token}"

    async def authorize_again(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Put another bearer token on a request, as the server refused the last; return whether it did."""
        refused = request.headers[_HEADER].removeprefix("Bearer ")
        challenge = response.headers.get("www-authenticate", "")
        token = ""
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            token = await self._refreshed(refused, challenge)
            if token == refused:  # a refresh was running already, which another reason had started
                token = await self._refreshed(refused, challenge)
        elif response.status_code == HTTPStatus.FORBIDDEN and "insufficient_scope" in challenge:
            token = await self._stored_instead(refused, challenge)
        if token:
            request.headers[_HEADER] = f"Bearer {token}"
        return bool(token)

    async def aclose(self) -> None:
        if self._running is not None and not self._running.done():
            await asyncio.wait([self._running], timeout=_LAST_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await self._kept.store_late()

    async def _stored_instead(self, insufficient: str, challenge: str) -> str:
        """Return the stored access token if it differs from one that did not suffice, else `""`.

        Somebody may have logged in again meanwhile, with more scopes.
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

    async def _refreshed(self, refused: str, challenge: str | None) -> str:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._renewed(refused, challenge), name="refresh of a token")
            # Retrieves its exception even if every task that waited for it was cancelled.
            self._running.add_done_callback(lambda done: done.cancelled() or done.exception())
        # A call that is cancelled must not cancel it: the refresh token may have been spent.
        try:
            self._sign_in = await asyncio.shield(self._running)
        except NoAccessToken:
            self._sign_in = None  # what is stored now counts: the login may have ended
            raise
        return self._sign_in.tokens.access if self._sign_in.tokens else ""

    async def _renewed(self, refused: str, challenge: str | None) -> SignIn:
        try:
            async with self._kept.locked():
                known = await self._kept.latest()
                tokens = known.tokens if known else None
                if known and tokens and known.missing_scopes(self._auth):  # perhaps just added to the config
                    wanted, age = set(wanted_scopes(self._auth)), time.time() - tokens.issued_at
                    # Perhaps it asked for them a moment ago, and got less.
                    is_just_asked = wanted <= set(tokens.requested_scopes) and 0 <= age < _ASKED_AGAIN_SECONDS
                    if is_machine(self._auth) and not is_just_asked:
                        return await self._by_credentials(challenge)
                    return self._complete(known)
                if known and tokens and tokens.access != refused and tokens.is_fresh(time.time()):
                    return known  # perhaps of another process, or connection
                return await self._obtained(known, challenge)
        except FILE_ERRORS as error:
            if not is_machine(self._auth):
                raise unreadable(error) from error
            return await self._by_credentials(challenge)  # nothing can be stored there

    async def _obtained(self, known: SignIn | None, challenge: str | None) -> SignIn:
        machine = is_machine(self._auth)
        if known is not None and known.tokens is not None and known.tokens.refresh:
            try:
                return await self._by_refresh_token(known, known.tokens)
            except TokenRefused as refusal:
                if machine:
                    return await self._by_credentials(challenge)
                if refusal.code == "invalid_grant":  # only this ends the login
                    raise NoAccessToken(f"the login has ended: {refusal.text}", "login") from refusal
                reason = f"its token was not refreshed: {refusal.text}; the tokens are kept"
                if refusal.code in CLIENT_UNKNOWN and "client_id" in self._auth:
                    raise NoAccessToken(reason, "credentials") from refusal
                # Without an error of OAuth, something else may have answered, such as a proxy.
                again = f"run: pflow mcp login {self._launch.server.name}"
                step = "" if refusal.code else f"try again later; if it is refused again, {again}"
                raise NoAccessToken(reason, "login", step=step) from refusal
            except NoAccessToken as failure:
                if not machine or failure.remedy == "later":
                    raise
        if machine:
            return await self._by_credentials(challenge)
        if known is None:
            raise NoAccessToken(await asyncio.to_thread(self._kept.absence), "login")
        raise NoAccessToken(f"the login has {'expired' if known.tokens else 'ended'}", "login")

    async def _by_refresh_token(self, known: SignIn, former: Tokens) -> SignIn:
        client = registered_client(self._auth, known.authorization_server) or known.registration
        client = attrs.evolve(client, redirect_uris=known.registration.redirect_uris)
        self._learn(client.client_id, client.client_secret)
        form = {"grant_type": "refresh_token", "refresh_token": former.refresh}
        async with (
            AuthorizationRequests(self._launch.server) as requests,
            self._kept.room(known.issuer),
        ):
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

    async def _by_credentials(self, challenge: str | None) -> SignIn:
        auth, server = self._auth, self._launch.server
        self._learn(str(auth.get("client_id", "")), str(auth.get("client_secret", "")))
        scopes = wanted_scopes(auth)
        async with AuthorizationRequests(server) as requests:
            found = await discovered(requests, challenge)
            client = registered_client(auth, found.authorization_server)
            if client is None:
                raise NoAccessToken("auth has no client_id", "credentials")
            sign_in = found.sign_in(client)
            form = {"grant_type": "client_credentials"}
            if scopes:
                form["scope"] = " ".join(scopes)
            try:
                tokens = await requested_tokens(requests, sign_in, form)
            except TokenRefused as refusal:
                if refusal.code != "invalid_scope":
                    raise NoAccessToken(refusal.text, "credentials") from refusal
                known = found.authorization_server.scopes_supported
                unknown = [scope for scope in scopes if known and scope not in known]
                scope = " ".join(unknown or scopes)
                reason = f"the scope {scope} was not granted: {refusal.text}" if scope else refusal.text
                step = f"correct scopes in auth of server {server.name}"
                raise NoAccessToken(reason, "credentials", scope, step=step) from refusal
        sign_in = attrs.evolve(sign_in, tokens=attrs.evolve(tokens, requested_scopes=scopes))
        await self._kept.write(sign_in)
        return self._complete(sign_in)

    def _complete(self, sign_in: SignIn) -> SignIn:
        missing = sign_in.missing_scopes(self._auth)
        if not missing:
            return sign_in
        scope = " ".join(missing)
        supported, note = sign_in.authorization_server.scopes_supported, ""
        if supported and not set(missing) <= set(supported):
            note = f"; the scopes that its authorization server names are {', '.join(supported[:10])}"
        text = f"the scope {scope} was not granted{note}"
        if not is_machine(self._auth):
            raise NoAccessToken(text, "login", scope)
        client = self._auth.get("client_id")
        step = f"have the client {client} granted it, or remove it from scopes in auth"
        raise NoAccessToken(text, "credentials", scope, step=f"{step} of server {self._launch.server.name}")

    def _learn(self, client_id: str, client_secret: str) -> None:
        if client_secret:
            self._launch.learn((client_secret, basic_pair(client_id, client_secret)))


class KeptSignIn:
    """The sign-in whose bearer token is put on requests: the stored one, or this run's if storing failed.

    The launch learns the secrets of what is read and written.
    """

    def __init__(self, launch: Launch, warn: Callable[[str], None]) -> None:
        self._launch = launch
        self._warn = warn
        self._issuer = str(launch.server.auth.get("issuer", ""))
        self._key = SignInKey.of(launch.server)
        self._store = store_of(launch)
        self._unstored: SignIn | None = None

    def locked(self) -> AbstractAsyncContextManager[None]:
        return self._store.locked(self._key)

    async def latest(self) -> SignIn | None:
        return self._unstored or await self.read()

    async def read(self) -> SignIn | None:
        """Return the sign-in whose bearer token goes on requests, as it is stored now; None if there is none.

        For a machine, one that cannot be read counts as none: it gets another.
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
        if self._unstored is not None and self._unstored.tokens == refused:
            self._unstored = None
        stored = await self.read()  # a login may have replaced the tokens
        if stored is not None and stored.tokens is not None and stored.tokens.refresh == refused.refresh:
            await asyncio.to_thread(self._store.write, self._key, attrs.evolve(stored, tokens=None))

    @asynccontextmanager
    async def room(self, issuer: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._store.reserved(self._key, issuer))
            except StoreError as error:
                reason = f"a new token could not be stored, so that none was requested: {error}"
                raise NoAccessToken(reason, "storage") from error
            yield

    async def store_late(self) -> None:
        """Store refreshed bearer tokens that could not be stored before, if possible now and still wanted."""
        sign_in = self._unstored
        if sign_in is None or is_machine(self._launch.server.auth):
            return
        with suppress(*FILE_ERRORS, NoAccessToken):
            async with self.locked():
                stored = await self.read()  # there may have been a logout meanwhile, or a login
                if stored is not None and stored.signed_in_at <= sign_in.signed_in_at:
                    await asyncio.to_thread(self._store.write, self._key, sign_in)

    def absence(self) -> str:
        """Return why no request gets a token: nobody is signed in, and where the last login was; blocks."""
        server = self._launch.server
        text = f"nobody is signed in at {place(server.url)}"
        known = (entry.sign_in for entry in self._store.entries())
        former = next((each for each in known if each and each.server == server.name), None)
        if former is None:
            return text
        where = f"{place(former.server_url)}, with {place(former.issuer)}"
        return f"{text}; its last login was at {where}, and is valid there only"


def unreadable(error: CorruptFile | StoreError) -> NoAccessToken:
    """Return why a request gets no bearer token: the sign-in's file cannot be read or locked."""
    reason = f"its sign-in could not be read: {error}"
    if isinstance(error, CorruptFile):  # the next login takes its place
        return NoAccessToken(reason, "login")
    return NoAccessToken(reason, "storage", step="".join(error.suggestions[:1]))
