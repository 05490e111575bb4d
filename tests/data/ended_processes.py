"""Whether processes that a test caused have ended; one that nobody has waited for yet counts as ended."""

import time
from pathlib import Path

_SECONDS = 20


def is_alive(pid):
    """Return whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(*pids):
    """Wait a bounded time for processes to end, and return whether they have."""
    end = time.monotonic() + _SECONDS
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(is_alive, pids))
