"""What differs between operating systems: watching processes, and what is known about pipes."""

from __future__ import annotations

import os
import sys
from typing import IO

_FUNCTIONS = ("waitid", "killpg")
"""Functions of `os` that watching a process needs: Windows has neither, macOS the first since Python 3.13."""


def has_process_groups() -> bool:
    """Whether processes can be watched and ended as groups on this system."""
    return all(hasattr(os, name) for name in _FUNCTIONS)


def exit_code(pid: int) -> int | None:
    """Return the exit code of a child, the negative signal number if it was killed, None while it runs.

    This does not reap the process: its id cannot be reused until that is done.
    """
    state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if state is None:
        return None
    return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status


def descriptor_of(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None if the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not on Linux, or not permitted
        return None


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; return whether there is one with a process to send it to."""
    try:
        os.killpg(group, number)
    except (AttributeError, ProcessLookupError, PermissionError):  # macOS denies them to a group of zombies
        return False
    return True


def enlarge_pipe(pipe: IO[bytes] | None, size: int) -> None:
    """Let a pipe hold this many bytes, if the system allows it."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)  # type: ignore[arg-type]  # a process was started with a pipe
    except (ImportError, AttributeError, OSError):
        return


def unread_bytes(pipe: IO[bytes]) -> int | None:
    """Return the number of unread bytes in a pipe, None if unknown."""
    if sys.platform != "linux" or pipe.closed:
        return None
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def high_pipe(lowest: int) -> tuple[int, int]:
    """Return the ends of a pipe as descriptors from `lowest` upwards; children do not inherit them."""
    import fcntl

    low = os.pipe()
    try:
        reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, lowest) for end in low)
    finally:
        for end in low:
            os.close(end)
    return reading, writing
