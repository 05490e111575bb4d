"""Keys and values that the user keeps with pflow, in a file that only they can read."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.storage import CorruptFile, JsonStore


@attrs.frozen
class Settings:
    """The settings file: `{"schema_version": 1, "env": {"KEY": "value"}}`.

    It is read anew each time, so that a long-lived host sees what other processes set.
    """

    path: Path

    @property
    def store(self) -> JsonStore:
        """The file, for changes."""
        return JsonStore(path=self.path, schema_version=1, what="settings")

    def values(self) -> dict[str, str]:
        """Return every key and value.

        Raises:
            PflowError: The file is corrupt or cannot be read.
        """
        values = self.store.read().get("env", {})
        if not isinstance(values, dict):
            raise CorruptFile(self.path, f'"env" must be an object, not {type(values).__name__}')
        return {key: _as_text(value) for key, value in values.items() if value is not None}

    def get(self, key: str) -> str | None:
        """Return a value, or None if it is not set."""
        return self.values().get(key)

    def check(self) -> list[Problem]:
        """Return what is wrong with the file: its content, or who may read it."""
        problems = []
        try:
            self.values()
        except PflowError as error:
            step = next(iter(error.suggestions), "")
            problems.append(
                Problem(message=error.message, suggestion=step, kind="config", source=str(self.path))
            )
        if self.path.exists() and self.path.stat().st_mode & 0o077:
            problems.append(
                Problem(
                    message=f"{self.path} holds secrets and can be read by others",
                    suggestion=f"chmod 600 {self.path}",
                    severity="warning",
                    kind="config",
                    source=str(self.path),
                )
            )
        return problems


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
