"""The reaper: a small process that ends a dead host's servers.

Run as `python -I -S reaper_process.py LIFELINE_FD HOST_PID MARKER` (standard library only, own
session, signals ignored, nothing of the host's standard streams held). The host writes `+PGID`
and `-PGID` lines into the lifeline; `+PGID SECONDS` gives a group that long to end after SIGTERM. When
the lifeline closes or the host's process ends, the remaining groups are ended, then every process
that has the host's marker in its environment.

PR_SET_PDEATHSIG is not used because it does not reach grandchildren, and fires when the spawning
*thread* ends. A pidfd is used as well as a pipe because a fork of the host keeps the pipe open.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

_GRACE = 0.3
"""Seconds that a dead host's servers have between SIGTERM and SIGKILL."""
_LAST_CHILD = 0.2
"""Seconds to wait for the lifeline to close after the host ended; a fork of the host keeps it open."""
MARKER = "PFLOW_RUN_MARKER"
"""The variable that holds `{host marker}.{number}.`: it finds processes that left their group."""


def marked_processes(marker: str) -> list[int]:
    """Return the ids of a dead host's processes: the marker in their environment begins with this prefix."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if any(item.startswith(wanted) for item in file.read().split(b"\0")):
                found.append(int(name))
    return found


def end_marked(marker: str) -> None:
    """End every process with the dead host's marker; children forked meanwhile end in the next round."""
    for attempt in range(10):
        pids = marked_processes(marker)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL if attempt else signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while marked_processes(marker) and time.monotonic() < deadline:
            time.sleep(0.01)


def end_groups(groups: dict[int, float]) -> None:
    """Send SIGTERM to each group of a dead host's servers, and SIGKILL to those that outlast their time."""
    alive = [group for group in groups if _signal_group(group, signal.SIGTERM)]
    began = time.monotonic()
    while alive and time.monotonic() - began < max(map(groups.__getitem__, alive)) + _GRACE:
        for group in alive:
            if time.monotonic() - began > groups[group]:
                _signal_group(group, signal.SIGKILL)
        time.sleep(0.01)
        alive = [group for group in alive if _signal_group(group, 0)]


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def watch(lifeline: int, host_pid: int) -> dict[int, float]:
    """Track the groups that the host registers with the reaper; once it is gone, return those that remain.

    The value of each is its time to end after SIGTERM, in seconds.

    After the host has ended, wait a moment for the lifeline to close: a child that the host was just
    starting holds it open until it executes the server, and has a marker from then on.
    """
    groups: dict[int, float] = {}
    watched, seconds = [lifeline], None
    try:
        watched.append(os.pidfd_open(host_pid))  # readable when the host ends
    except (AttributeError, PermissionError):  # pidfds are unsupported
        pass
    except OSError:  # the host is gone already
        seconds = _LAST_CHILD
    rest = b""
    while True:
        ready, _, _ = select.select(watched, [], [], seconds)
        if lifeline in ready:
            data = os.read(lifeline, 65536)
            if not data:
                return groups
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                group, _, given = line[1:].partition(b" ")
                if line[:1] == b"+":
                    groups[int(group)] = float(given or _GRACE)
                else:
                    groups.pop(int(group), None)
        elif not ready:
            return groups
        else:
            watched, seconds = [lifeline], _LAST_CHILD


def main() -> None:
    """Run the reaper: watch the host, then end what it left behind."""
    # Whatever ends the host (a closed terminal, a shutdown) must not end the reaper first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    lifeline, host_pid, marker = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    end_groups(watch(lifeline, host_pid))
    end_marked(marker)
    os._exit(0)  # skips the interpreter's shutdown, which nothing here needs


if __name__ == "__main__":
    main()
