"""Processes that lead a group of their own, and are ended with all that they started."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Sequence

from pflow_mcp_plugin.processes.reaper import Reaper
from pflow_mcp_plugin.processes.system_calls import exit_code, has_members, signal_group

_REAP_SECONDS = 2.0
"""How long a process may take to end once it is killed."""
_SHORTEST_LOOK, _LONGEST_LOOK = 0.002, 0.1
"""Seconds between two looks at a process group that is ending."""


class ProcessGroup:
    """A process in a session of its own: its pipes, its process group, and its exit code.

    Args:
        popen: The process, which leads its session.
        reaper: Ends the group if this process dies.
        end_seconds: How long the group has to end then; by default a moment.

    Attributes:
        popen: The same.
        started: `time.perf_counter()` when it was started.
    """

    def __init__(
        self, popen: subprocess.Popen[bytes], reaper: Reaper, end_seconds: float | None = None
    ) -> None:
        self.popen = popen
        self.started = time.perf_counter()
        self._reaper = reaper
        self._end_seconds = end_seconds
        reaper.register(popen.pid, end_seconds)

    def need_no_time(self) -> None:
        """Let the group end in a moment if this process dies: it has nothing to undo any more."""
        if self._end_seconds is not None:
            self._reaper.register(self.popen.pid)

    @property
    def pid(self) -> int:
        """The id of the process and, since it leads its session, of its process group."""
        return self.popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit code of the process, the negative signal number if it was killed, None while it runs.

        Reading it does not reap the process: until `release`, the id cannot be reused.
        """
        return self.popen.returncode if self.popen.returncode is not None else exit_code(self.pid)

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and its children."""
        signal_group(self.pid, number)

    def release(self) -> None:
        """Kill the rest of the group, unregister it, and reap the process.

        One that cannot be killed, because it runs as another user or waits for a disk, is left behind.
        """
        if self.popen.returncode is None:  # else it is released already, and its id may have been reused
            self.signal_group(signal.SIGKILL)
            self._reaper.unregister(self.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(_REAP_SECONDS)
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()


def end_groups(processes: Sequence[subprocess.Popen[bytes]], grace: float) -> None:
    """End processes with their groups: SIGTERM, and SIGKILL after some seconds; reap the processes."""
    ending = [process for process in processes if signal_group(process.pid, signal.SIGTERM)]
    end = time.monotonic() + grace
    pause = _SHORTEST_LOOK
    while time.monotonic() < end and any(map(_goes_on, ending)):
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_LOOK)
    for process in ending:
        signal_group(process.pid, signal.SIGKILL)
    for process in processes:
        process.wait()


def _goes_on(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process, or another one of its group, still runs."""
    if process.poll() is None:
        return True
    return signal_group(process.pid, 0) and has_members(process.pid)
