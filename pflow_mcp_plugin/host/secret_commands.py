"""Secrets that a command prints, such as `op read op://Private/GitHub/token` of a password manager."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.processes.system_calls import signal_group

if TYPE_CHECKING:
    import subprocess

DEADLINE = 30.0
"""Seconds that a command may take."""
LARGEST = 1 << 20
"""Bytes that a command may print."""


def words(command: str) -> list[str]:
    """Return the words of a command line, split as a shell splits them; nothing is expanded.

    Raises:
        PflowError: Kind `usage`: a quote is not closed, or there is no word.
    """
    import shlex

    try:
        found = shlex.split(command)
    except ValueError as error:
        raise PflowError(f"The command is not complete: {error}", kind="usage") from error
    if not found or not found[0]:
        raise PflowError("The command is empty", kind="usage")
    return found


class CommandAnswers:
    """What the commands of settings printed; each is asked once, whether it succeeds or fails.

    Args:
        deadline: Seconds that a command may take.
    """

    def __init__(self, deadline: float = DEADLINE) -> None:
        self._deadline = deadline
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], str | PflowError] = {}

    def ask(self, key: str, command: Sequence[str]) -> str:
        """Return what a command prints, without one final line end.

        Args:
            key: The setting, for messages.
            command: The program and its arguments; no shell interprets them. It has no terminal and its
                standard input is empty.

        Raises:
            PflowError: It could not be started, failed, took too long, or printed nothing usable. The
                message names the setting and the program, never what it printed.
        """
        asked = tuple(command)
        with self._lock:  # a second thread waits for the answer to the first
            if asked not in self._answers:
                self._answers[asked] = self._answer(key, command)
            answer = self._answers[asked]
        if isinstance(answer, PflowError):
            raise PflowError(answer.message, kind="config", suggestions=answer.suggestions)
        return answer

    def _answer(self, key: str, command: Sequence[str]) -> str | PflowError:
        try:
            output = _output(command, self._deadline)
        except PflowError as error:
            message = f"The command for {key} failed: {os.path.basename(command[0])} {error.message}"  # noqa: PTH119 - on a word
            step = f"Run it yourself, or set it anew: pflow settings set {key} --from-command 'COMMAND'"
            return PflowError(message, suggestions=(step,), kind="config")
        return output


def _output(command: Sequence[str], deadline: float) -> str:
    import subprocess

    end = time.monotonic() + deadline
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user saved as a setting
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its words cannot be those of a command"
        raise PflowError(f"could not be started: {reason}") from error
    try:
        content = _read(process, deadline)
        code = process.wait(max(end - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired as error:
        raise PflowError(f"took longer than {deadline:g} seconds") from error
    finally:
        _end(process)
    if code:
        raise PflowError(f"was ended by signal {-code}" if code < 0 else f"exited {code}")
    return _text(content)


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return what a process prints, or the first of it if it is too much.

    Raises:
        subprocess.TimeoutExpired: It keeps its output open beyond the deadline.
    """
    from subprocess import TimeoutExpired

    content = bytearray()

    def read() -> None:
        with suppress(OSError, ValueError):  # the pipe is closed below it
            while process.stdout and len(content) <= LARGEST and (part := process.stdout.read1(1 << 16)):  # type: ignore[attr-defined]
                content.extend(part)

    reader = threading.Thread(target=read, name="secret-command", daemon=True)
    reader.start()
    reader.join(deadline)
    if reader.is_alive():
        raise TimeoutExpired(process.args, deadline)
    if len(content) > LARGEST:
        raise PflowError(f"printed more than {LARGEST // 1024} KiB")
    return bytes(content)


def _text(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise PflowError("printed something that is not UTF-8") from error
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise PflowError("printed nothing")
    return value


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    if not signal_group(process.pid, signal.SIGKILL):
        process.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()
