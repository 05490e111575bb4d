"""Keys and values that the user keeps with pflow, in a file that only they can read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem, Settings
from pflow_mcp_plugin.storage import CorruptFile, JsonStore

Place = Literal["file", "keyring"]
"""Where a value is kept."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@attrs.frozen
class StoredSettings(Settings):
    """The settings file: `{"schema_version": 1, "env": {"KEY": "value"}, "keyring": ["OTHER"]}`.

    `env` holds keys with their values; `keyring` names the keys whose values the keyring of the
    operating system holds, which is asked for one only when it is wanted. The file is read anew
    each time, so that a long-lived host sees what other processes set.
    """

    path: Path

    @property
    def store(self) -> JsonStore:
        """The file, for changes."""
        return JsonStore(path=self.path, schema_version=1, what="settings")

    def values(self) -> dict[str, str]:
        """Return every key that has its value in the file, with the value.

        Raises:
            PflowError: The file is corrupt or cannot be read.
        """
        return self._values(self.store.read())

    def names(self) -> dict[str, Place]:
        """Return every key and where its value is kept."""
        data = self.store.read()
        places: dict[str, Place] = dict.fromkeys(self._values(data), "file")
        return dict(sorted((places | dict.fromkeys(self._in_keyring(data), "keyring")).items()))

    def get(self, key: str) -> str | None:
        """Return a value, or None if it is not set.

        Raises:
            PflowError: The file is corrupt or cannot be read, or the keyring cannot be asked.
        """
        data = self.store.read()
        if key not in self._in_keyring(data):
            return self._values(data).get(key)
        from pflow_mcp_plugin.host import system_keyring

        return system_keyring.read(key)

    def set(self, key: str, value: str, *, keyring: bool = False) -> None:
        """Keep a value, in the file or in the keyring.

        Raises:
            PflowError: `key` is no name, or the value cannot be kept.
        """
        if not _KEY.fullmatch(key):
            message = f"{key!r} is no key: letters, digits, _ . and -, not beginning with a digit"
            raise PflowError(message, kind="usage")
        if keyring:
            from pflow_mcp_plugin.host import system_keyring

            system_keyring.write(key, value)
        else:
            self._forget_in_keyring(key)

        def change(data: dict[str, Any]) -> None:
            # A key has one place: setting it in the other moves it.
            values, elsewhere = data.setdefault("env", {}), set(self._in_keyring(data))
            self._values(data)
            values.pop(key, None)
            if not keyring:
                values[key] = value
            data["keyring"] = sorted(elsewhere | {key} if keyring else elsewhere - {key})

        self.store.update(change)

    def unset(self, key: str) -> bool:
        """Forget a value; return whether there was one.

        Raises:
            PflowError: It cannot be removed.
        """
        place = self._forget_in_keyring(key)

        def change(data: dict[str, Any]) -> None:
            data.get("env", {}).pop(key, None)
            data["keyring"] = [name for name in self._in_keyring(data) if name != key]

        if place is not None:
            self.store.update(change)
        return place is not None

    def _forget_in_keyring(self, key: str) -> Place | None:
        """Remove a value from the keyring if it is there, and return where it was kept."""
        place = self.names().get(key)
        if place == "keyring":
            from pflow_mcp_plugin.host import system_keyring

            system_keyring.remove(key)
        return place

    def _values(self, data: dict[str, Any]) -> dict[str, str]:
        values = data.get("env", {})
        if not isinstance(values, dict):
            raise CorruptFile(self.path, f'"env" must be an object, not {type(values).__name__}')
        return {key: _as_text(value) for key, value in values.items() if value is not None}

    def _in_keyring(self, data: dict[str, Any]) -> list[str]:
        names = data.get("keyring", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CorruptFile(self.path, '"keyring" must be a list of keys')
        return names

    def check(self) -> list[Problem]:
        """Return what is wrong with the file: its content, or who may read it."""
        problems = []
        try:
            self.names()
        except PflowError as error:
            step = next(iter(error.suggestions), "")
            problems.append(
                Problem(message=error.message, suggestion=step, kind="config", source=str(self.path))
            )
        if self._is_open_to_others():
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

    def _is_open_to_others(self) -> bool:
        try:
            return bool(self.path.stat().st_mode & 0o077)
        except OSError:  # it is not there, or in a folder that is closed even to us
            return False


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
