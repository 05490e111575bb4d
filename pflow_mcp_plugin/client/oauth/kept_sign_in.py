"""The sign-in of one server as its connections read and keep it, whatever the disk and the keyring do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import place
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInBusy, SignInKey, store_of
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.config.auth import is_machine
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.storage import CorruptFile, StoreError

FILE_ERRORS = (CorruptFile, StoreError)
"""What the files of a kept sign-in may fail with."""


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
        """Hold the lock of the kept sign-in, against other processes and connections of this one.

        Raises:
            SignInBusy: Another holds it for too long.
            StoreError: It cannot be created.
        """
        return self._store.locked(self._key)

    async def latest(self) -> SignIn | None:
        """Return the kept sign-in of this run if it could not be stored, else the stored one; see `read`."""
        return self._unstored or await self.read()

    async def read(self) -> SignIn | None:
        """Return the kept sign-in as it is stored now; None if there is none.

        For a machine, none takes the place of one that cannot be read: it gets another.

        Raises:
            NoAccessToken: It cannot be read.
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
        """Drop the kept tokens that were refused, unless a login has replaced them meanwhile.

        Args:
            refused: Those whose refresh token was refused.
        """
        if self._unstored is not None and self._unstored.tokens == refused:
            self._unstored = None
        stored = await self.read()
        if stored is not None and stored.tokens is not None and stored.tokens.refresh == refused.refresh:
            await asyncio.to_thread(self._store.write, self._key, attrs.evolve(stored, tokens=None))

    @asynccontextmanager
    async def room(self, issuer: str) -> AsyncIterator[None]:
        """Keep room for what takes the place of a refresh token, which may be good for one use only.

        Raises:
            NoAccessToken: There is none.
        """
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
