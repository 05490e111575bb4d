"""Where sign-ins are kept: a file for each server URL and issuer, in one folder, with a lock for each URL.

The secrets in it are kept in the keyring of the operating system if possible (the extra `[keyring]`). The
file says what can be shown of the sign-in, so that listing it does not open the keyring.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from os import urandom
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import attrs

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.client.oauth.sign_in_state import SCHEMA_VERSION, SignIn, as_json, from_json
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server

_LOCK_SECONDS = 60.0
"""How long to wait for another process that refreshes the same sign-in."""
_RESERVE = ".reserve"
_KEYRING = "keyring"
_SECRETS = ("access", "refresh")
_FAILED = object()


@attrs.frozen
class SignInKey:
    """What a store finds a sign-in by, besides its issuer: the whole URL, and the client id in the config."""

    server_url: str = attrs.field(repr=False)
    client: str = ""

    @classmethod
    def of(cls, server: Server) -> Self:
        """Return the key of a server's stored sign-ins; the server's values must be expanded."""
        return cls(server.url, str(server.auth.get("client_id", "")))

    @property
    def digest(self) -> str:
        return _digest(f"{self.server_url}\0{self.client}")


@attrs.frozen(kw_only=True)
class StoredSignIn:
    """A sign-in as a store lists it: without its secrets, or with the reason why it cannot be read."""

    name: str
    sign_in: SignIn | None
    is_refreshable: bool = False
    problem: str = ""

    @property
    def digest(self) -> str:
        return self.name.partition("-")[0]


class SignInStore:
    """The store of sign-ins in a folder. Its methods block, except `locked`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: SignInKey, issuer: str = "") -> SignIn | None:
        """Return a sign-in of a server from the store, None if there is none.

        If the keyring has its tokens and cannot be read, they are empty.
        """
        if issuer:
            return _read_file(self._path(key, issuer))
        found = [sign_in for path in self._paths(key.digest) if (sign_in := _read_file(path))]
        return max(found, key=lambda sign_in: sign_in.signed_in_at, default=None)

    def write(self, key: SignInKey, sign_in: SignIn) -> None:
        """Keep a sign-in in the store; the caller holds the lock of the key."""
        path = self._path(key, sign_in.issuer)
        with suppress(OSError):
            path.with_suffix(_RESERVE).unlink(missing_ok=True)  # now the room is needed
        with suppress(storage.CorruptFile):  # the new one takes its place
            _content(path)
        content: dict[str, Any] = {**as_json(sign_in), "revision": uuid4().hex}
        content["refreshable"] = bool(sign_in.tokens and sign_in.tokens.refresh)
        secrets: dict[str, JSON] = {}
        if secret := content["registration"].pop("client_secret", ""):
            secrets["client_secret"] = secret
        for name in _SECRETS if content["tokens"] else ():
            secrets[name] = content["tokens"].pop(name)
        value = json.dumps({**secrets, "revision": content["revision"]})
        if not secrets:
            _ask_keyring("delete_password", path.stem)
        elif (
            _ask_keyring("set_password", path.stem, value) is not _FAILED
            # A disabled keyring accepts everything silently.
            and _ask_keyring("get_password", path.stem) == value
        ):
            content["secrets"] = _KEYRING
        else:
            content["secrets"] = secrets
        storage.write_atomic(path, storage.encode_json(path, content))

    @asynccontextmanager
    async def reserved(self, key: SignInKey, issuer: str) -> AsyncIterator[None]:
        """Keep room for a sign-in in the store until it is written.

        Whoever spends a refresh token knows before that the disk has room for what takes its place.
        """
        from asyncio import to_thread

        reserve = self._path(key, issuer).with_suffix(_RESERVE)
        # Tokens may be long. Zeros may take no room.
        await to_thread(storage.write_atomic, reserve, urandom(65_536))
        try:
            yield
        finally:
            with suppress(OSError):
                reserve.unlink(missing_ok=True)

    def entries(self) -> Iterator[StoredSignIn]:
        """Yield every sign-in of the store, also those that cannot be read; the keyring is not opened."""
        for path in sorted(self._paths("")):
            try:
                content = _content(path)
                if content is not None:  # otherwise it was removed just now
                    content.pop("secrets", None)
                    is_refreshable = content.get("refreshable") is True
                    sign_in = _parsed(path, content)
                    yield StoredSignIn(name=path.name, sign_in=sign_in, is_refreshable=is_refreshable)
            except (storage.CorruptFile, storage.StoreError) as error:
                yield StoredSignIn(name=path.name, sign_in=None, problem=error.message)

    def name_of(self, key: SignInKey, issuer: str) -> str:
        return self._path(key, issuer).name

    def take_out(self, entry: StoredSignIn) -> SignIn | None:
        """Take a sign-in, with its secrets, out of the store; the caller holds the lock."""
        path = self._folder / entry.name
        try:
            sign_in = _read_file(path)
        except (storage.CorruptFile, storage.StoreError):
            sign_in = None
        _ask_keyring("delete_password", path.stem)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise storage.StoreError(path, f"could not be removed: {error.strerror or error}") from error
        return sign_in

    @asynccontextmanager
    async def locked(self, key: SignInKey | StoredSignIn) -> AsyncIterator[None]:
        """Lock a server's stored sign-ins against other processes and other connections of this one."""
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
                    reason = "another process has been refreshing its token for too long"
                    raise NoAccessToken(reason, "later") from None
                await sleep(0.02)
            except OSError as error:
                raise storage.StoreError(
                    self._folder, f"could not be locked: {error.strerror or error}"
                ) from error
        try:
            yield
        finally:
            lock.release()

    def _paths(self, digest: str) -> list[Path]:
        return [path for path in storage.json_files_in(self._folder) if path.name.startswith(digest)]

    def _path(self, key: SignInKey, issuer: str) -> Path:
        return self._folder / f"{key.digest}-{_digest(issuer.removesuffix('/'))}.json"


def store_of(launch: Launch) -> SignInStore:
    """Return the store that keeps a server's sign-ins."""
    return SignInStore(launch.sign_in_folder or sign_in_folder(storage.default_paths()))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read_file(path: Path) -> SignIn | None:
    """Return a stored sign-in, None if there is none; its tokens are empty if the keyring cannot be read."""
    content = _content(path)
    if content is None:
        return None
    secrets = content.pop("secrets", None)
    if secrets == _KEYRING:
        text = _from_keyring(path.stem, str(content.get("revision")))
        if text is None:
            return _parsed(path, content)
        try:
            secrets = json.loads(text or "{}")
        except ValueError:  # someone else wrote there
            secrets = None
    known: dict[str, JSON] = secrets if isinstance(secrets, dict) else {}
    registration, tokens = content.get("registration"), content.get("tokens")
    if isinstance(registration, dict):
        registration["client_secret"] = known.get("client_secret") or ""
    if isinstance(tokens, dict) and known.get("access"):
        tokens |= {name: known.get(name) for name in _SECRETS}
    elif isinstance(tokens, dict):
        content["tokens"] = None
    return _parsed(path, content)


def _content(path: Path) -> dict[str, Any] | None:
    found: dict[str, Any] = storage.JsonStore(path=path, schema_version=SCHEMA_VERSION, what="sign-in").read()
    return found or None


def _parsed(path: Path, content: dict[str, Any]) -> SignIn:
    try:
        return from_json(content)
    except ValueError as error:
        raise storage.CorruptFile(path, f"not a sign-in: {error}") from error


@lru_cache(maxsize=64)
def _from_keyring(key: str, revision: str) -> str | None:  # noqa: ARG001 - a part of the cache's key
    """Return what the keyring holds of a sign-in, `""` if it holds nothing, None if it cannot be read.

    It is asked once per process for each revision of a value: a locked one may ask the user each time.
    """
    value = _ask_keyring("get_password", key)
    return None if value is _FAILED else str(value or "")


def _ask_keyring(question: str, key: str, *more: str) -> Any:
    """Ask the keyring that keeps sign-ins; `_FAILED` if there is none, or it cannot be used."""
    try:
        import keyring

        return getattr(keyring, question)("pflow sign-in", key, *more)
    except Exception:  # noqa: BLE001 - the keyring's backends are foreign code, and may raise anything
        return _FAILED
