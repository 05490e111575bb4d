"""Starts processes that lead a group of their own, and ends them with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pflow_mcp_plugin.processes import reaper_process
from pflow_mcp_plugin.processes.system_calls import exit_code, has_members, high_pipe, signal_group

T = TypeVar("T")

_NEEDED = "PATH HOME USER LOGNAME SHELL TERM TMPDIR TEMP TMP TZ LANG LANGUAGE"
_XDG = "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR"
_PROXIES = "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY"
_CERTIFICATES = "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS PIP_CERT"
_WINDOWS = (
    "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES "
    "USERPROFILE USERNAME HOMEDRIVE HOMEPATH"
)
_NAMES = frozenset(f"{_NEEDED} {_XDG} {_PROXIES} {_CERTIFICATES} {_WINDOWS}".split())


def child_environment(own: Mapping[str, str], marker: str) -> dict[str, str]:
    """Return all environment variables for a process that is started in a group of its own.

    They are PATH, HOME and the few variables a program needs to start; proxy, CA and locale
    variables; UTF-8 for Python; its `own`, which take precedence over these; and the marker of this run.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        # Windows ignores case, and proxy variables are often in lower case. A value that begins with `()`
        # is an exported shell function, which is code.
        if (name.upper() in _NAMES or name.upper().startswith("LC_")) and not value.startswith("()")
    }
    # The marker comes last: a config that sets the same name must not hide the process from the reaper.
    utf_8 = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}
    return {**inherited, **utf_8, **own, reaper_process.MARKER: marker}


class Reaper:
    """Has each registered process group ended, when this process dies, by a process that outlives it."""

    def __init__(self) -> None:
        # The marker in the environment of every server of this host begins with this.
        self.marker = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._lock = threading.Lock()
        # Above the standard streams: in a program that was started without stdin (`0<&-`), the next file it
        # opens gets descriptor 0, and the reaper would find its lifeline replaced by the null device.
        reading, writing = high_pipe()
        self._lifeline: int | None = writing
        arguments = [str(reading), str(os.getpid()), self.marker]
        try:
            # A stream inherited from the host would block `$(pflow run ...)` until the reaper exits, and a
            # session of its own keeps the terminal's Ctrl-C away from it.
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-I", "-S", str(Path(reaper_process.__file__)), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/" if os.name == "posix" else None,
                env={},
                pass_fds=[reading],
                start_new_session=True,
            )
        except BaseException:  # Ctrl-C too: a reaper that did start exits without its lifeline
            os.close(writing)
            raise
        finally:
            os.close(reading)

    def register(self, group: int, seconds: float | None = None) -> None:
        self._send(b"+%d\n" % group if seconds is None else b"+%d %g\n" % (group, seconds))

    def unregister(self, group: int) -> None:
        """Unregister a process group, before its leader is reaped and its id may be used again."""
        self._send(b"-%d\n" % group)

    def close(self) -> None:
        with self._lock:
            # Without it the reaper ends all that it knows of, and then itself.
            lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline)
        self._process.wait()

    def _send(self, line: bytes) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            if self._lifeline is not None:  # once closed, the descriptor may belong to another file
                os.write(self._lifeline, line)  # shorter than PIPE_BUF, so that it is written whole


class Shared(Generic[T]):
    """Keeps one object per process, like the reaper of its process groups, from first to last user."""

    def __init__(self, start: Callable[[], T], end: Callable[[T], None]) -> None:
        self._start = start
        self._end = end
        self._users = 0
        self._resource: T | None = None
        self._owner = 0
        self._renew_lock()
        if hasattr(os, "register_at_fork"):  # a thread that held the lock exists in the parent only
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def acquire(self) -> T:
        with self._lock:
            # A fork copies neither the thread that runs a loop nor the life that a reaper watches.
            if self._resource is None or self._owner != os.getpid():
                self._resource = self._start()
                self._users, self._owner = 0, os.getpid()
            self._users += 1
            return self._resource

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users or self._resource is None:
                return
            resource, self._resource = self._resource, None  # first: Ctrl-C may interrupt `_end`
        self._end(resource)


shared_reaper = Shared(Reaper, Reaper.close)


class ProcessGroup:
    """A group of processes and the one that leads it: its pipes, signals to all, and its exit code.

    If this process dies, the group has `end_seconds` to end; by default a moment.
    """

    def __init__(
        self, popen: subprocess.Popen[bytes], reaper: Reaper, end_seconds: float | None = None
    ) -> None:
        self.popen = popen
        self.started = time.perf_counter()  # when the process was
        self._reaper = reaper
        self._end_seconds = end_seconds
        reaper.register(popen.pid, end_seconds)

    def need_no_time(self) -> None:
        """Let the group's processes end in a moment if this one dies: they have nothing to undo any more."""
        if self._end_seconds is not None:
            self._reaper.register(self.popen.pid)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit code of the group's process, minus the signal if it was killed, None while it runs.

        Reading it does not reap the process: until `release`, the id cannot be reused.
        """
        return self.popen.returncode if self.popen.returncode is not None else exit_code(self.pid)

    def signal_group(self, number: int) -> None:
        signal_group(self.pid, number)

    def release(self) -> None:
        """Kill the rest of the process group, unregister it, and reap the process.

        One that cannot be killed, because it runs as another user or waits for a disk, is left behind.
        """
        if self.popen.returncode is None:  # else it is released already, and its id may have been reused
            self.signal_group(signal.SIGKILL)
            self._reaper.unregister(self.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(2.0)
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()


def end_groups(processes: Sequence[subprocess.Popen[bytes]], grace: float) -> None:
    """End process groups with all in them: SIGTERM, after `grace` seconds SIGKILL; reap their leaders."""
    ending = [process for process in processes if signal_group(process.pid, signal.SIGTERM)]
    end = time.monotonic() + grace
    pause = 0.002
    while time.monotonic() < end and any(
        process.poll() is None or (signal_group(process.pid, 0) and has_members(process.pid))
        for process in ending
    ):
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    for process in ending:
        signal_group(process.pid, signal.SIGKILL)
    for process in processes:
        process.wait()
