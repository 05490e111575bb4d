"""The secrets that must not appear in any answer: those in the user's settings, and those of each run."""

from __future__ import annotations

import threading
from typing import Any

from pflow_mcp_plugin.contract import Host, RunControl
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.secret_detection import is_secret


class KnownSecrets:
    """Redacts the values of secret settings from answers.

    Args:
        host: The host whose settings are meant.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._redactor = Redactor()

    def redact(self, value: Any, control: RunControl | None = None) -> Any:
        """Return a JSON value without secrets.

        Args:
            value: The value.
            control: The run it comes from, whose own secrets are redacted as well.
        """
        self._redactor.add(self._values())
        return self._redactor.value(value)

    def _values(self) -> list[str]:
        settings = self._host.settings
        if settings is None:
            return []
        stored = (key for key, place in settings.names().items() if place == "file" and is_secret(key))
        return [value for key in stored if (value := settings.get(key))]
