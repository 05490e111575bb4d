"""The tokens of sign-ins in the keyring of the operating system (the extra `[keyring]`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_SERVICE = "pflow sign-in"


def read(key: str, revision: str) -> str | None:
    """Return what the keyring holds under a key, `""` if it holds nothing, None if it cannot be read.

    It is asked once per process for each revision of a value: a locked one may ask the user each time.

    Args:
        key: The key.
        revision: Identifies the value that is expected; another one has been written since if it differs.
    """
    return _read(key, revision)


def write(key: str, value: str) -> bool:
    """Store a value in the keyring; return whether it is there now."""
    if _ask("set_password", key, value) is _FAILED:
        return False
    return bool(_ask("get_password", key) == value)  # a disabled keyring accepts everything silently


def remove(key: str) -> None:
    """Remove a key from the keyring, if it is there."""
    _ask("delete_password", key)


_FAILED = object()


@lru_cache(maxsize=64)
def _read(key: str, revision: str) -> str | None:  # noqa: ARG001 - a part of the cache's key
    value = _ask("get_password", key)
    return None if value is _FAILED else str(value or "")


def _ask(question: str, key: str, *more: str) -> Any:
    """Ask the keyring; `_FAILED` if there is none, or it cannot be used."""
    try:
        import keyring

        return getattr(keyring, question)(_SERVICE, key, *more)
    except Exception:  # noqa: BLE001 - the keyring's backends are foreign code, and may raise anything
        return _FAILED
