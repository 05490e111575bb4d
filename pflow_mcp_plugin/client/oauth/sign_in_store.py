"""Where sign-ins are kept: a file for each server URL and issuer, in one folder, with a lock for each URL."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from os import urandom
from pathlib import Path
from typing import Self

import attrs

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.client.oauth import sign_in_file
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server

_LOCK_SECONDS = 60.0
"""How long to wait for another process that refreshes the same sign-in."""
_POLL = 0.02
_ROOM = 65_536
"""Bytes that are kept free for a new sign-in; tokens may be long."""


class SignInBusy(Exception):
    """The store's lock of a sign-in was held by another process for too long."""


@attrs.frozen
class SignInKey:
    """What a store finds a sign-in by, beside its issuer.

    Attributes:
        server_url: The server's whole URL.
        client: The client id in the config, empty if pflow registers itself.
    """

    server_url: str = attrs.field(repr=False)
    client: str = ""

    @classmethod
    def of(cls, server: Server) -> Self:
        """Return the key of the sign-ins of a server whose values are expanded."""
        return cls(server.url, str(server.auth.get("client_id", "")))

    @property
    def digest(self) -> str:
        """The beginning of the names of the key's files in the store."""
        return _digest(f"{self.server_url}\0{self.client}")


@attrs.frozen(kw_only=True)
class StoredSignIn:
    """A sign-in as a store lists it: without its secrets.

    Attributes:
        name: The name of its file.
        sign_in: What is known of it; None if the file cannot be read.
        is_refreshable: Whether it has a refresh token.
        problem: Why the file cannot be read.
    """

    name: str
    sign_in: SignIn | None
    is_refreshable: bool = False
    problem: str = ""

    @property
    def digest(self) -> str:
        """The beginning of the name, which is that of its `SignInKey`."""
        return self.name.partition("-")[0]


class SignInStore:
    """The sign-ins in a folder. Its methods block, except `locked`.

    Args:
        folder: The folder, private to the user.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: SignInKey, issuer: str = "") -> SignIn | None:
        """Return a sign-in of a server from the store, None if there is none.

        If the keyring has its tokens and cannot be read, they are empty.

        Args:
            key: The server's URL, and the client.
            issuer: The issuer that is wanted; if empty, the latest sign-in counts.

        Raises:
            StoreError: It cannot be read, or a newer version of the program wrote it.
        """
        if issuer:
            return sign_in_file.read(self._path(key, issuer))
        found = [sign_in for path in self._paths(key.digest) if (sign_in := sign_in_file.read(path))]
        return max(found, key=lambda sign_in: sign_in.signed_in_at, default=None)

    def write(self, key: SignInKey, sign_in: SignIn) -> None:
        """Keep a sign-in in the store; the caller holds the lock of the key.

        Raises:
            StoreError: It cannot be written, or a newer version of the program wrote what is there.
        """
        path = self._path(key, sign_in.issuer)
        with suppress(OSError):
            _reserve(path).unlink(missing_ok=True)  # now the room is needed
        sign_in_file.write(path, sign_in)

    @asynccontextmanager
    async def reserved(self, key: SignInKey, issuer: str) -> AsyncIterator[None]:
        """Keep room for a sign-in in the store until it is written.

        Whoever spends a refresh token knows before that the disk has room for what takes its place.

        Raises:
            StoreError: There is none, or nothing can be written there.
        """
        from asyncio import to_thread

        reserve = _reserve(self._path(key, issuer))
        await to_thread(storage.write_atomic, reserve, urandom(_ROOM))  # zeros may take no room
        try:
            yield
        finally:
            with suppress(OSError):
                reserve.unlink(missing_ok=True)

    def entries(self) -> Iterator[StoredSignIn]:
        """Yield every sign-in of the store, also those that cannot be read; the keyring is not opened."""
        for path in sorted(self._paths("")):
            try:
                found = sign_in_file.read_public(path)
            except (storage.CorruptFile, storage.StoreError) as error:
                yield StoredSignIn(name=path.name, sign_in=None, problem=error.message)
                continue
            if found is not None:  # otherwise it was removed just now
                yield StoredSignIn(name=path.name, sign_in=found[0], is_refreshable=found[1])

    def name_of(self, key: SignInKey, issuer: str) -> str:
        """Return the name of a sign-in's file in the store, whether it exists or not."""
        return self._path(key, issuer).name

    def take_out(self, entry: StoredSignIn) -> SignIn | None:
        """Remove a listed sign-in from the store and return it with its secrets; the caller holds its lock.

        Returns:
            The sign-in; None if it was gone already, or cannot be read.

        Raises:
            StoreError: It cannot be removed.
        """
        path = self._folder / entry.name
        try:
            sign_in = sign_in_file.read(path)
        except (storage.CorruptFile, storage.StoreError):
            sign_in = None
        sign_in_file.remove(path)
        return sign_in

    @asynccontextmanager
    async def locked(self, key: SignInKey | StoredSignIn) -> AsyncIterator[None]:
        """Hold the store's lock of a server's sign-ins, against other processes and connections of this one.

        Raises:
            SignInBusy: Another holds it for too long.
            StoreError: It cannot be created.
        """
        from asyncio import sleep

        from filelock import FileLock, Timeout

        storage.make_folder(self._folder)
        # Not thread-local: what holds it is a task, and another thread may run its last line.
        lock = FileLock(self._folder / f"{key.digest}.lock", mode=0o600, thread_local=False)
        end = time.monotonic() + _LOCK_SECONDS
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if time.monotonic() > end:
                    raise SignInBusy from None
                await sleep(_POLL)
            except OSError as error:
                raise storage.StoreError(
                    self._folder, f"could not be locked: {error.strerror or error}"
                ) from error
        try:
            yield
        finally:
            lock.release()

    def _paths(self, digest: str) -> list[Path]:
        return [path for path in storage.files_in(self._folder, ".json") if path.name.startswith(digest)]

    def _path(self, key: SignInKey, issuer: str) -> Path:
        return self._folder / f"{key.digest}-{_digest(issuer.removesuffix('/'))}.json"


def store_of(launch: Launch) -> SignInStore:
    """Return the store with the sign-ins of a server."""
    return SignInStore(launch.sign_in_folder or sign_in_folder(storage.default_paths()))


def _reserve(path: Path) -> Path:
    return path.with_suffix(".reserve")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
