"""A stored sign-in: a file, with its secrets in the keyring if possible.

The file says what can be shown of the sign-in, so that listing it does not open the keyring.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.client.oauth import token_keyring
from pflow_mcp_plugin.client.oauth.sign_in_state import SCHEMA_VERSION, SignIn, as_json, from_json
from pflow_mcp_plugin.contract.json_types import JSON

_KEYRING = "keyring"
_SECRETS = ("access", "refresh")


def read(path: Path) -> SignIn | None:
    """Return a stored sign-in, None if there is none; without tokens' values if the keyring cannot be read.

    Raises:
        CorruptFile: It is not that of a sign-in.
        StoreError: It cannot be read, or a newer version of the program wrote it.
    """
    content = _content(path)
    if content is None:
        return None
    secrets = content.pop("secrets", None)
    if secrets == _KEYRING:
        text = token_keyring.read(path.stem, str(content.get("revision")))
        if text is None:
            return _parsed(path, content)
        secrets = _unpacked(text)
    _put_back(content, secrets if isinstance(secrets, dict) else {})
    return _parsed(path, content)


def read_public(path: Path) -> tuple[SignIn, bool] | None:
    """Return a stored sign-in without its secrets, and whether it has a refresh token; None if there is none.

    The exceptions are those of `read`.
    """
    content = _content(path)
    if content is None:
        return None
    content.pop("secrets", None)
    return _parsed(path, content), content.get("refreshable") is True


def write(path: Path, sign_in: SignIn) -> None:
    """Store a sign-in in place of the stored one.

    Raises:
        StoreError: It cannot be written, or a newer version of the program wrote what is there.
    """
    with suppress(storage.CorruptFile):  # the new one takes its place
        _content(path)
    content: dict[str, Any] = {**as_json(sign_in), "revision": uuid4().hex}
    content["refreshable"] = bool(sign_in.tokens and sign_in.tokens.refresh)
    secrets = _taken_out(content)
    if not secrets:
        token_keyring.remove(path.stem)
    elif not token_keyring.write(path.stem, _packed({**secrets, "revision": content["revision"]})):
        content["secrets"] = secrets
    else:
        content["secrets"] = _KEYRING
    storage.write_atomic(path, storage.encode_json(path, content))


def remove(path: Path) -> None:
    """Remove a stored sign-in, its secrets included.

    Raises:
        StoreError: It cannot be removed.
    """
    token_keyring.remove(path.stem)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise storage.StoreError(path, f"could not be removed: {error.strerror or error}") from error


def _content(path: Path) -> dict[str, Any] | None:
    found: dict[str, Any] = storage.JsonStore(path=path, schema_version=SCHEMA_VERSION, what="sign-in").read()
    return found or None


def _parsed(path: Path, content: dict[str, Any]) -> SignIn:
    try:
        return from_json(content)
    except ValueError as error:
        raise storage.CorruptFile(path, f"not a sign-in: {error}") from error


def _taken_out(content: dict[str, Any]) -> dict[str, JSON]:
    """Take the secrets out of a sign-in's JSON and return them."""
    secrets = {}
    if secret := content["registration"].pop("client_secret", ""):
        secrets["client_secret"] = secret
    for name in _SECRETS if content["tokens"] else ():
        secrets[name] = content["tokens"].pop(name)
    return secrets


def _put_back(content: dict[str, Any], secrets: dict[str, JSON]) -> None:
    """Put the secrets back into a sign-in's JSON; without them, it has no tokens."""
    registration, tokens = content.get("registration"), content.get("tokens")
    if isinstance(registration, dict):
        registration["client_secret"] = secrets.get("client_secret") or ""
    if isinstance(tokens, dict):
        if secrets.get("access"):
            tokens |= {name: secrets.get(name) for name in _SECRETS}
        else:
            content["tokens"] = None


def _packed(secrets: dict[str, JSON]) -> str:
    import json

    return json.dumps(secrets)


def _unpacked(text: str) -> dict[str, JSON]:
    import json

    try:
        found = json.loads(text or "{}")
    except ValueError:  # someone else wrote there
        return {}
    return found if isinstance(found, dict) else {}
