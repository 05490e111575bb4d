"""What differs between operating systems: processes and their memory (`/proc`), pipes, longest arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import IO, NamedTuple

_STATE, _PARENT, _GROUP, _SESSION, _RESIDENT = 0, 1, 2, 3, 21
"""The positions of these fields after the name of a process, see proc(5)."""
_MIB = 1 << 20
LONGEST = 131_071
"""Bytes of one argument, or of one variable with its name, that Linux takes (`MAX_ARG_STRLEN`)."""
_OVERHEAD = 9
"""Bytes that each takes in addition: its end, and a pointer."""


def too_long(groups: Mapping[str, Mapping[str, str]]) -> str:
    """Return which argument or variable the system takes for too long (E2BIG), or which group has most bytes.

    The strings have the names that a message gives them, such as `env.TOKEN` in the group `env`.
    """
    sizes = {
        group: {name: len(os.fsencode(text)) for name, text in strings.items()}
        for group, strings in groups.items()
    }
    name, size = max((it for each in sizes.values() for it in each.items()), key=itemgetter(1))
    if size > LONGEST:
        return f"{name} is {size:,} bytes long; the system takes {LONGEST:,} for an argument or variable"
    totals = {group: sum(size + _OVERHEAD for size in each.values()) for group, each in sizes.items()}
    group = max(totals, key=totals.__getitem__)
    return (
        f"{group} is {totals[group]:,} bytes long; "
        f"the system takes {os.sysconf('SC_ARG_MAX'):,} for all arguments and variables"
    )


def has_process_groups() -> bool:
    """Whether this operating system has the calls `waitid` and `killpg`, for processes in groups."""
    # Windows has neither; macOS has `waitid` only since Python 3.13.
    return hasattr(os, "waitid") and hasattr(os, "killpg")


def exit_code(pid: int) -> int | None:
    """Return a child's exit code by the system call `waitid`: minus the signal if killed, None while it runs.

    This does not reap the process: its id cannot be reused until that is done.
    """
    state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if state is None:
        return None
    return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status


def descriptor_of(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None if the system offers none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not on Linux, or not permitted
        return None


def signal_group(group: int, number: int) -> bool:
    """Send a signal with the system call `killpg`; return whether the system found a process in the group."""
    try:
        os.killpg(group, number)
    except (AttributeError, ProcessLookupError, PermissionError):  # macOS denies them to a group of zombies
        return False
    return True


def enlarge_pipe(pipe: IO[bytes] | None) -> None:
    """Let a pipe hold a MiB by the system call `fcntl`, if possible: a larger pipe needs fewer reads."""
    try:
        import fcntl

        # Linux's default maximum. A process was started with a pipe.
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _MIB)  # type: ignore[arg-type]
    except (ImportError, AttributeError, OSError):
        return


def unread_bytes(pipe: IO[bytes]) -> int | None:
    """Return the number of unread bytes in a pipe, None if the operating system does not say."""
    if sys.platform != "linux" or pipe.closed:
        return None
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def high_pipe() -> tuple[int, int]:
    """Return a pipe above the standard streams, by the system call `fcntl`; not inheritable."""
    import fcntl

    low = os.pipe()
    try:
        reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in low)
    finally:
        for end in low:
            os.close(end)
    return reading, writing


class _Process(NamedTuple):
    """A process in the operating system's list, Linux's /proc: its ancestry and its resident pages."""

    is_zombie: bool
    parent: int
    group: int
    session: int
    pages: int


def group_memory_mb(group: int) -> float | None:
    """Ask the system (`/proc`) for the memory of a group of processes, in MiB; None where it cannot say."""
    return _mib(each for each in _processes().values() if each.group == group) or None


def is_memory_known() -> bool:
    """Whether this operating system tells how much memory processes use."""
    return os.getpid() in _processes()


def has_members(group: int) -> bool:
    """Ask the system whether a group of processes has more than zombies; true where there is no `/proc`."""
    processes = _processes()
    return not processes or any(each.group == group and not each.is_zombie for each in processes.values())


def used_by(leader: int) -> tuple[list[int], float]:
    """Ask the system (`/proc`) which processes stem from a session's leader, and their memory in MiB.

    Those are the ones in its session, and their descendants, which may be in a session of their own. Memory
    that processes share counts for each of them.
    """
    processes = _processes()
    found = {pid for pid, each in processes.items() if each.session == leader}
    new = found
    while new:
        new = {pid for pid, each in processes.items() if each.parent in new} - found
        found |= new
    return sorted(found), _mib(processes[pid] for pid in found)


def _mib(processes: Iterable[_Process]) -> float:
    return sum(each.pages for each in processes) * os.sysconf("SC_PAGE_SIZE") / _MIB


def _processes() -> dict[int, _Process]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - twice as fast, and this runs several times a second
    except OSError:
        return {}
    found = {}
    for name in filter(str.isdecimal, names):
        try:
            text = Path(f"/proc/{name}/stat").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        fields = text.rpartition(b")")[2].split()  # the name before it may contain spaces and parentheses
        numbers = (int(fields[index]) for index in (_PARENT, _GROUP, _SESSION, _RESIDENT))
        found[int(name)] = _Process(fields[_STATE] == b"Z", *numbers)
    return found
