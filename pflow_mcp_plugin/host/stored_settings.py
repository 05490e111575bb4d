"""The user's saved settings: in a private file, in the keyring, or printed by a command."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pflow_mcp_plugin.contract import PflowError, Problem, Settings
from pflow_mcp_plugin.contract.problems import advice, problem_of
from pflow_mcp_plugin.host.plugins import Plugin, PluginFailed, own_distribution, plugin_code
from pflow_mcp_plugin.storage import CorruptFile, JsonStore, StoreError, file_stamp, is_open_to_others

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSON

_SERVICE = "pflow"


def keyring_secret(key: str) -> str | None:
    """Return the value of a setting that is in the keyring, or None."""
    value: str | None = _ask("get_password", key)
    return value


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


DEADLINE = 30.0
"""The most seconds that a command may take."""
LARGEST = 1 << 20
"""The most bytes that a command may print."""


def command_words(command: str) -> list[str]:
    """Split a command that prints a saved value into words, as a shell does; nothing is expanded."""
    import shlex

    try:
        found = shlex.split(command)
    except ValueError as error:
        raise PflowError(f"The command is not complete: {error}", kind="usage") from error
    if not found or not found[0]:
        raise PflowError("The command is empty", kind="usage")
    return found


class CommandAnswers:
    """The saved values that commands print; each command runs once, whether it succeeds or fails."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], str | PflowError] = {}

    def ask(self, key: str, command: Sequence[str]) -> str:
        """Return the setting that a command prints, without its last line end; no shell interprets the words.

        An error names the setting and the program, never what it printed.
        """
        asked = tuple(command)
        with self._lock:  # a second thread waits for the answer to the first
            if asked not in self._answers:
                try:
                    self._answers[asked] = _output(command)
                except PflowError as error:
                    program = os.path.basename(command[0])  # noqa: PTH119 - on a word
                    message = f"The command for {key} failed: {program} {error.message}"
                    change = f"pflow settings set {key} --from-command 'COMMAND'"
                    step = f"Run it yourself, or set it again: {change}"
                    self._answers[asked] = PflowError(message, suggestions=(step,), kind="config")
            answer = self._answers[asked]
        if isinstance(answer, PflowError):
            raise PflowError(answer.message, kind="config", suggestions=answer.suggestions)
        return answer


def _output(command: Sequence[str]) -> str:
    """Run the command of a setting; when the time is up, it is ended with everything that it started."""
    import subprocess

    from pflow_mcp_plugin.processes.system_calls import signal_group

    try:
        process = subprocess.Popen(  # noqa: S603 - what the user saved as a setting
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its words cannot form a command"
        raise PflowError(f"could not be started: {reason}") from error
    content = bytearray()

    def read(pipe: Any) -> None:
        with suppress(OSError, ValueError):  # the pipe is closed under the reader
            while len(content) <= LARGEST and (part := pipe.read1(1 << 16)):
                content.extend(part)

    # On a thread of its own: what the command left running may keep the pipe open.
    reader = threading.Thread(target=read, args=(process.stdout,), name="secret-command", daemon=True)
    end = time.monotonic() + DEADLINE
    try:
        reader.start()
        reader.join(DEADLINE)
        if reader.is_alive():
            raise PflowError(f"took longer than {DEADLINE:g} seconds")
        if len(content) > LARGEST:
            raise PflowError(f"printed more than {LARGEST // 1024} KiB")
        code = process.wait(max(end - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired as error:
        raise PflowError(f"took longer than {DEADLINE:g} seconds") from error
    finally:
        if not signal_group(process.pid, signal.SIGKILL):
            process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
    if code:
        raise PflowError(f"was ended by signal {-code}" if code < 0 else f"exited {code}")
    return _value(bytes(content))


def _value(content: bytes) -> str:
    try:
        value = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise PflowError("printed something that is not UTF-8") from error
    if not value:
        raise PflowError("printed nothing")
    return value


Place = Literal["file", "keyring", "command"]
"""Where a setting's value is stored; `command` means that a command prints it."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class StoredSettings(Settings):
    """The settings stored in a file: `{"schema_version": 1, "env": {"KEY": "value"}, "keyring": ["OTHER"]}`.

    `env` holds keys with their values; `keyring` names the keys whose values are in the keyring of the
    operating system, which is read only when such a value is needed; `plain` those in `env` whose values are
    not secret. `commands` holds keys with the words of the command that prints the value; it runs once, when
    the value is first needed. The file is read again each time, so that a long-lived host sees changes by
    other processes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers = CommandAnswers()

    @property
    def store(self) -> JsonStore:
        return JsonStore(path=self.path, schema_version=1, what="settings")

    def values(self) -> dict[str, str]:
        """Return the settings whose values are in the file, not in the keyring."""
        return self._values(self.store.read())

    def names(self) -> dict[str, Place]:
        data = self.store.read()
        places: dict[str, Place] = dict.fromkeys(self._values(data), "file")
        places |= dict.fromkeys(self._keys(data, "keyring"), "keyring")
        return dict(sorted((places | dict.fromkeys(self._commands(data), "command")).items()))

    def plain(self) -> list[str]:
        return self._keys(self.store.read(), "plain")

    def fingerprint(self) -> str:
        """Return a text that changes when the settings file changes, but not when the keyring does."""
        try:
            return " ".join(map(str, file_stamp(self.path))) or "none"
        except StoreError:  # an error is reported when the file is read
            return ""

    def programs(self) -> dict[str, str]:
        # Without their arguments, which may be private.
        return {key: words[0] for key, words in self._commands(self.store.read()).items()}

    def get(self, key: str) -> str | None:
        data = self.store.read()
        command = self._commands(data).get(key)
        if command:
            return self.answers.ask(key, command)
        if key not in self._keys(data, "keyring"):
            return self._values(data).get(key)
        return keyring_secret(key)

    def set(self, key: str, value: str, *, keyring: bool = False, plain: bool = False) -> None:
        """Store a setting in the file, or in the keyring; `plain` marks one in the file as not secret."""
        _check_key(key)
        try:
            value.encode()
        except UnicodeEncodeError as error:
            step = "Convert it, as iconv does"
            raise PflowError(
                f"The value of {key} is not UTF-8 text", suggestions=(step,), kind="usage"
            ) from error
        if keyring:
            _ask("set_password", key, value)
            if keyring_secret(key) != value:  # a disabled keyring accepts everything silently
                message = f"The keyring accepted {key} but did not store it"
                step = "Enable it, or keep the value in the settings file"
                raise PflowError(message, suggestions=(step,), kind="config")
        self._store(key, "keyring" if keyring else "file", value, plain=plain)

    def set_command(self, key: str, command: Sequence[str]) -> None:
        """Store a setting as the words of a command that prints it; the command is not run."""
        _check_key(key)
        self._store(key, "command", list(command))

    def unset(self, key: str) -> bool:
        known = key in self.names()
        if known:
            self._store(key, None)
        return known

    def _store(
        self, key: str, place: Place | None, value: str | list[str] = "", *, plain: bool = False
    ) -> None:
        """Store a setting in one place only, or in none: saving it elsewhere moves it."""
        moves = place != "keyring" and self.names().get(key) == "keyring"
        if moves and keyring_secret(key) is not None:
            _ask("delete_password", key)

        def change(data: dict[str, Any]) -> None:
            self._values(data)
            others = {name: it for name, it in data.get("env", {}).items() if name != key}
            data["env"] = {**others, key: value} if place == "file" else others
            names = {name for name in self._keys(data, "keyring") if name != key}
            data["keyring"] = sorted({*names, key} if place == "keyring" else names)
            shown = {name for name in self._keys(data, "plain") if name != key} | ({key} if plain else set())
            data.pop("plain", None)
            data |= {"plain": sorted(shown)} if shown else {}
            commands = {name: words for name, words in self._commands(data).items() if name != key}
            if isinstance(value, list):
                commands[key] = value
            data.pop("commands", None)
            data |= {"commands": commands} if commands else {}

        self.store.update(change)

    def _values(self, data: dict[str, JSON]) -> dict[str, str]:
        values = data.get("env", {})
        if not isinstance(values, dict):
            raise CorruptFile(self.path, f'"env" must be an object, not {type(values).__name__}')
        texts = {key: value for key, value in values.items() if value is not None}
        return {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in texts.items()
        }

    def _keys(self, data: dict[str, JSON], field: str) -> list[str]:
        names = data.get(field, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CorruptFile(self.path, f'"{field}" must be a list of keys')
        return names

    def _commands(self, data: dict[str, Any]) -> dict[str, list[str]]:
        commands = data.get("commands", {})
        if not isinstance(commands, dict) or not all(
            words and isinstance(words, list) and all(isinstance(word, str) for word in words)
            for words in commands.values()
        ):
            raise CorruptFile(self.path, '"commands" must be an object of lists of words')
        return commands

    def check(self) -> list[Problem]:
        """Return what is wrong with the settings file: its content, and whether others can read it."""
        problems, source = [], str(self.path)
        try:
            self.names()
            self.plain()
        except PflowError as error:
            problems.append(problem_of(error, kind="config", source=source))
        if is_open_to_others(self.path):
            message = f"{self.path} holds secrets and can be read by others"
            problems.append(advice("", message, f"chmod 600 {self.path}", source=source))
        return problems


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        message = f"Invalid key {key!r}: use letters, digits, _ . and -, not beginning with a digit"
        raise PflowError(message, kind="usage")
