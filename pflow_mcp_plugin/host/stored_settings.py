"""The user's saved keys and values, in a file that only the user can read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem, Settings
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.secret_commands import CommandAnswers
from pflow_mcp_plugin.storage import CorruptFile, JsonStore, is_open_to_others

Place = Literal["file", "keyring", "command"]
"""Where a setting's value is stored, or that a command prints it."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@attrs.frozen
class StoredSettings(Settings):
    """The settings stored in a file: `{"schema_version": 1, "env": {"KEY": "value"}, "keyring": ["OTHER"]}`.

    `env` holds keys with their values; `keyring` names the keys whose values are in the keyring of the
    operating system, which is read only when such a value is needed. `commands` holds keys with the words
    of the command that prints the value; it is asked once, when the value is first needed. The file is
    read again each time, so that a long-lived host sees changes by other processes.
    """

    path: Path
    answers: CommandAnswers = attrs.field(factory=CommandAnswers, eq=False, repr=False)

    @property
    def store(self) -> JsonStore:
        """The settings file, for changes."""
        return JsonStore(path=self.path, schema_version=1, what="settings")

    def values(self) -> dict[str, str]:
        """Return the settings whose values are in the file, not in the keyring.

        Raises:
            PflowError: The file is corrupt or cannot be read.
        """
        return self._values(self.store.read())

    def names(self) -> dict[str, Place]:
        """Return every stored key and whether its value is in the file or in the keyring."""
        data = self.store.read()
        places: dict[str, Place] = dict.fromkeys(self._values(data), "file")
        places |= dict.fromkeys(self._in_keyring(data), "keyring")
        return dict(sorted((places | dict.fromkeys(self._commands(data), "command")).items()))

    def fingerprint(self) -> str:
        """Return a text that changes with the settings file; values in a keyring may change without it."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return "none"
        except OSError:  # reading it says why
            return ""
        return f"{stat.st_mtime_ns} {stat.st_size} {stat.st_ino}"

    def programs(self) -> dict[str, str]:
        """Return the settings stored as commands: each key with its program, as arguments may be private."""
        return {key: words[0] for key, words in self._commands(self.store.read()).items()}

    def get(self, key: str) -> str | None:
        """Return a value stored in the file or in the keyring, or None if it is not set.

        Raises:
            PflowError: The file is corrupt or cannot be read, the keyring cannot be read, or the command
                for the value fails.
        """
        data = self.store.read()
        command = self._commands(data).get(key)
        if command:
            return self.answers.ask(key, command)
        if key not in self._in_keyring(data):
            return self._values(data).get(key)
        from pflow_mcp_plugin.host import system_keyring

        return system_keyring.read(key)

    def set(self, key: str, value: str, *, keyring: bool = False) -> None:
        """Store a value in the settings file or in the keyring.

        Args:
            key: A name of letters, digits, `_`, `.` and `-`, not beginning with a digit.
            value: Any string.
            keyring: Whether to store it in the keyring instead of the file.

        Raises:
            PflowError: `key` is invalid, or the value cannot be saved.
        """
        _check_key(key)
        if keyring:
            from pflow_mcp_plugin.host import system_keyring

            system_keyring.write(key, value)
        else:
            self._forget_in_keyring(key)

        def change(data: dict[str, Any]) -> None:
            # A key is stored in one place only: saving it in the other moves it.
            values, elsewhere = data.setdefault("env", {}), set(self._in_keyring(data))
            self._values(data)
            values.pop(key, None)
            self._drop_command(data, key)
            if not keyring:
                values[key] = value
            data["keyring"] = sorted(elsewhere | {key} if keyring else elsewhere - {key})

        self.store.update(change)

    def set_command(self, key: str, command: Sequence[str]) -> None:
        """Store a setting as the words of a command that prints its value; the command is not run.

        Raises:
            PflowError: `key` is invalid, or the command cannot be saved.
        """
        _check_key(key)
        self._forget_in_keyring(key)

        def change(data: dict[str, Any]) -> None:
            data.get("env", {}).pop(key, None)
            data["keyring"] = [name for name in self._in_keyring(data) if name != key]
            data["commands"] = {**self._commands(data), key: list(command)}

        self.store.update(change)

    def unset(self, key: str) -> bool:
        """Delete a stored value from the file or the keyring; return whether it was set.

        Raises:
            PflowError: It cannot be removed.
        """
        place = self._forget_in_keyring(key)

        def change(data: dict[str, Any]) -> None:
            data.get("env", {}).pop(key, None)
            data["keyring"] = [name for name in self._in_keyring(data) if name != key]
            self._drop_command(data, key)

        if place is not None:
            self.store.update(change)
        return place is not None

    def _forget_in_keyring(self, key: str) -> Place | None:
        """Remove a value from the keyring if it is there, and return where it was stored."""
        place = self.names().get(key)
        if place == "keyring":
            from pflow_mcp_plugin.host import system_keyring

            system_keyring.remove(key)
        return place

    def _values(self, data: dict[str, JSON]) -> dict[str, str]:
        values = data.get("env", {})
        if not isinstance(values, dict):
            raise CorruptFile(self.path, f'"env" must be an object, not {type(values).__name__}')
        texts = {key: value for key, value in values.items() if value is not None}
        return {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in texts.items()
        }

    def _in_keyring(self, data: dict[str, JSON]) -> list[str]:
        names = data.get("keyring", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CorruptFile(self.path, '"keyring" must be a list of keys')
        return names

    def _commands(self, data: dict[str, Any]) -> dict[str, list[str]]:
        commands = data.get("commands", {})
        if not isinstance(commands, dict) or not all(map(_is_command, commands.values())):
            raise CorruptFile(self.path, '"commands" must be an object of lists of words')
        return commands

    def _drop_command(self, data: dict[str, Any], key: str) -> None:
        if key in self._commands(data):
            data["commands"] = {name: words for name, words in data["commands"].items() if name != key}

    def check(self) -> list[Problem]:
        """Return the problems of the settings file: its content and its permissions."""
        problems = []
        try:
            self.names()
        except PflowError as error:
            step = next(iter(error.suggestions), "")
            problems.append(
                Problem(message=error.message, suggestion=step, kind="config", source=str(self.path))
            )
        if is_open_to_others(self.path):
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


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        message = f"Invalid key {key!r}: use letters, digits, _ . and -, not beginning with a digit"
        raise PflowError(message, kind="usage")


def _is_command(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)
