"""The secrets that must not appear in any answer: those in the user's settings, and those of each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from pflow_mcp_plugin.config.token_shapes import tokens
from pflow_mcp_plugin.contract import Host, PflowError, RunControl, Settings
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.secret_detection import is_secret, within

_SHORTEST = 6
_ORDINARY = frozenset(
    {
        *("default", "development", "disabled", "enabled", "latest", "localhost", "master", "postgres"),
        *("private", "production", "public", "release", "staging", "stable", "127.0.0.1", "0.0.0.0"),  # noqa: S104
    }
)
"""Values that are never secrets, whatever their name: redacting them would only garble answers."""


class KnownSecrets:
    """Redacts the values of secret settings from answers.

    The settings are read again only when they have changed.

    Args:
        host: The host whose settings are meant.
        more: Further secrets.
    """

    def __init__(self, host: Host, more: frozenset[str] = frozenset()) -> None:
        self._host = host
        self._more = more
        self._seen: tuple[str, frozenset[str]] = ("", frozenset())

    def redact(self, value: Any, control: RunControl | None = None) -> Any:
        """Return a JSON value without secrets; the same object if there are none in it.

        Args:
            value: The value.
            control: The run it comes from, whose own secrets are redacted as well.
        """
        return self.redactor(control).value(value)

    def redactor(self, control: RunControl | None = None) -> Redactor:
        """Return what redacts the user's secrets, and those of a run."""
        of_run = frozenset(telling(control.secrets)) if control else frozenset()
        return Redactor(self.saved() | of_run)

    def saved(self) -> frozenset[str]:
        """Return the user's secrets; those last read while the settings cannot be read.

        Nothing that runs meanwhile can read them either, and what needs them reports the failure.
        """
        settings = self._host.settings
        if settings is None:
            return self._more
        before, secrets = self._seen
        with suppress(PflowError):
            now = settings.fingerprint()
            if not now or now != before:
                secrets = frozenset(telling(_secret_values(settings)))
                self._seen = (now, secrets)
        return secrets | self._more


def telling(values: Iterable[str]) -> Iterator[str]:
    """Yield those secrets that are not so short or ordinary that their redaction would garble answers."""
    for value in values:
        if len(value) >= _SHORTEST and value.lower() not in _ORDINARY:
            yield value


def _secret_values(settings: Settings) -> Iterator[str]:
    """Yield the values of the settings that are secret by their name or shape.

    Those kept in a keyring, or behind a command, are read only when a run needs them: it then reports them.
    """
    for key, place in settings.names().items():
        value = settings.get(key) if place == "file" else None
        if value and is_secret(key):
            yield from (value, *within(value, is_secret_whole=True))
        elif value:
            yield from (value[token.start : token.end] for token in tokens(value))
