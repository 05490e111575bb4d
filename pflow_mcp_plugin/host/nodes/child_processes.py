"""Child processes of a run, each the leader of a process group that is ended as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from types import TracebackType
from typing import Self

import attrs

from pflow_mcp_plugin.host.running.daemon_threads import Threads

RESOURCE = "shell"
"""The key of a run's child processes: `run.resources["shell"]`."""
_GRACE = 2.0
"""Seconds that child processes get between SIGTERM and SIGKILL."""
_NAP = 0.25
"""Seconds of one wait: a Ctrl-C just before a wait does not interrupt it."""


@attrs.frozen(kw_only=True)
class Finished:
    """The output of a child process and how it ended."""

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool = False


class Processes:
    """Starts child processes; on exit ends those that still run, with all that they started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            end_group(process)

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float | None = None,
    ) -> Finished:
        """Run a program as a child process until it exits.

        Args:
            arguments: The program and its arguments; not interpreted by a shell.
            cwd: Its working folder.
            env: Variables it gets in addition to those of this process.
            stdin: The text on its standard input.
            timeout: Seconds after which it is ended.

        Raises:
            OSError: It cannot be started.
        """
        variables = {**os.environ, **(env or {})}
        # On a thread of its own: Ctrl-C is raised in the main thread, where it could otherwise come
        # between the start of a process and its registration in `_running`.
        with Threads(1) as threads:
            work = threads.submit(self._run, arguments, cwd, variables, stdin, timeout)
            while not work.done():
                wait([work], _NAP)
            return work.result()

    def _run(
        self,
        arguments: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str],
        stdin: str,
        timeout: float | None,
    ) -> Finished:
        process = self._start(arguments, cwd, env)
        try:
            return _communicate(process, stdin.encode("utf-8", "replace"), timeout)
        finally:
            end_group(process)  # also the processes that it left running
            with self._lock:
                self._running.discard(process)

    def _start(
        self, arguments: Sequence[str], cwd: str | None, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise OSError("the run has ended")
            process = subprocess.Popen(  # noqa: S603  # what the workflow's author wrote
                list(arguments),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
            return process


def _communicate(process: subprocess.Popen[bytes], stdin: bytes, timeout: float | None) -> Finished:
    timed_out = False
    try:
        stdout, stderr = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        end_group(process)
        stdout, stderr = _rest(process)
    return Finished(
        exit_code=process.returncode,
        stdout=stdout.decode("utf-8", "replace"),
        stderr=stderr.decode("utf-8", "replace"),
        timed_out=timed_out,
    )


def _rest(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return the output of an ended process; a process that left its group may keep the pipes open."""
    try:
        return process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired as error:
        return error.output or b"", error.stderr or b""


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a child process and all that it started: SIGTERM, and SIGKILL after a grace period."""
    if not _signal_group(process, signal.SIGTERM):
        return
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Return whether the group had a process to send the signal to."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
