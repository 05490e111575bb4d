"""The processes of this machine as /proc shows them: who belongs together, and the memory that they use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_STATE, _PARENT, _GROUP, _SESSION, _RESIDENT = 0, 1, 2, 3, 21
"""Where these fields stand behind the name of a process, see proc(5)."""
_MIB = 1 << 20


class _Process(NamedTuple):
    """A process, its ancestry, and its resident pages."""

    is_zombie: bool
    parent: int
    group: int
    session: int
    pages: int


def group_memory_mb(group: int) -> float | None:
    """Return the resident memory of a process group in MiB, None if it cannot be determined."""
    return _mib(each for each in _processes().values() if each.group == group) or None


def is_memory_known() -> bool:
    """Whether the platform tells how much memory processes use."""
    return os.getpid() in _processes()


def has_members(group: int) -> bool:
    """Whether a group has more than zombies, which nobody may be there to reap; true if unknown."""
    processes = _processes()
    return not processes or any(each.group == group and not each.is_zombie for each in processes.values())


def used_by(leader: int) -> tuple[list[int], float]:
    """Return the processes of a server, and their resident memory in MiB.

    Those are the ones in the session that its process leads, and their descendants, which may be in a
    session of their own. Memory that processes share counts for each of them.

    Args:
        leader: The id of the server's process.
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
    """Return all processes by id; none where there is no /proc."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - twice as fast, and this runs several times a second
    except OSError:
        return {}
    found = ((int(name), _process(name)) for name in names if name.isdecimal())
    return {pid: process for pid, process in found if process is not None}


def _process(pid: str) -> _Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # it ended meanwhile
        return None
    fields = text.rpartition(b")")[2].split()  # the name before it may contain spaces and parentheses
    numbers = (int(fields[index]) for index in (_PARENT, _GROUP, _SESSION, _RESIDENT))
    return _Process(fields[_STATE] == b"Z", *numbers)
