"""Secrets in the keyring of the operating system, through the package `keyring` (the extra `[keyring]`)."""

from __future__ import annotations

from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.entrypoints import own_distribution
from pflow_mcp_plugin.host.plugins import Plugin, PluginFailed, plugin_code

_SERVICE = "pflow"


def read(key: str) -> str | None:
    """Return the secret that the keyring stores under a key, None if it has none.

    Raises:
        PflowError: The keyring cannot be read.
    """
    value: str | None = _ask("get_password", key)
    return value


def write(key: str, value: str) -> None:
    """Store a secret in the keyring under a key.

    Raises:
        PflowError: It cannot be stored, or was not: a disabled keyring accepts everything silently.
    """
    _ask("set_password", key, value)
    if read(key) != value:
        message = f"The keyring accepted {key} but did not store it"
        raise PflowError(
            message, suggestions=("Enable it, or keep the value in the settings file",), kind="config"
        )


def remove(key: str) -> None:
    """Delete the keyring's secret under a key, if it has one.

    Raises:
        PflowError: It cannot be removed.
    """
    if read(key) is not None:
        _ask("delete_password", key)


def _ask(question: str, key: str, *more: str) -> Any:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        message = f"{key} needs the keyring, but the package keyring is not installed"
        mine = own_distribution()
        package = f"'{mine.name}[keyring]'" if mine else "keyring"
        raise PflowError(message, suggestions=(f"pip install {package}",), kind="config") from error
    try:
        with plugin_code(Plugin("keyring"), "could not be used", passing=(KeyringError,)):
            return getattr(keyring, question)(_SERVICE, key, *more)
    except (KeyringError, PluginFailed) as error:
        reason = error.reason if isinstance(error, PluginFailed) else str(error) or type(error).__name__
        message = f"The keyring refuses {key}: {reason}"
        raise PflowError(
            message, suggestions=("Unlock it, or keep the value in the settings file",), kind="config"
        ) from error
