"""The memory that a server's processes use."""

from __future__ import annotations

import os
from pathlib import Path

_STATE_FIELDS_BEFORE_GROUP = 2  # state and parent process id, see proc(5)


def group_memory_mb(group: int) -> float | None:
    """Return the resident memory of a process group in MiB, None if it cannot be determined."""
    try:
        pids = [path.name for path in Path("/proc").iterdir() if path.name.isdecimal()]
    except OSError:
        return None
    pages = sum(_resident_pages(pid) for pid in pids if _group(pid) == group)
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20) if pages else None


def _group(pid: str) -> int | None:
    text = _read(f"/proc/{pid}/stat")
    fields = text.rpartition(")")[2].split()  # the name before it may contain spaces and parentheses
    return int(fields[_STATE_FIELDS_BEFORE_GROUP]) if len(fields) > _STATE_FIELDS_BEFORE_GROUP else None


def _resident_pages(pid: str) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
