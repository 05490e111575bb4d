"""The shell's own `>>`: nodes that were meant to follow, but became a file that output is appended to."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from shlex import quote

from pflow_mcp_plugin.contract import PflowError

_STDOUT = 1


def refuse_redirection(words: Sequence[str], program: str, is_node: Callable[[str], bool]) -> None:
    """Refuse to run nodes whose output the shell appends to a file that has the name of a node.

    Args:
        words: The words of the chain as the shell left them.
        program: The words before them.
        is_node: Returns whether a word is a node type; called only if output is appended to a file.

    Raises:
        PflowError: Standard output is such a file; says what to write instead.
    """
    file = _appended_file()
    if file is None or not (file.name == "then" or is_node(file.name)):
        return
    first = " ".join(map(quote, [program, *takewhile(lambda word: not word.startswith("-"), words)]))
    following = "" if file.name == "then" else f" {file.name}"
    is_new = file.is_file() and not file.stat().st_size
    steps = (
        f"Write: {first} ... then{following} ..., or quote it: '>>'",
        *((f"Remove the file that the shell made: rm {quote(str(file))}",) if is_new else ()),
        f"If the file is meant: ... | cat >> {quote(str(file))}",
    )
    message = f"The shell took `>>` for itself: it appends the output to the file {file}"
    raise PflowError(message, details={"file": str(file)}, suggestions=steps, kind="usage")


def _appended_file() -> Path | None:
    """Return the regular file that standard output is appended to; None if it is none, or not known."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    try:
        is_appended = fcntl.fcntl(_STDOUT, fcntl.F_GETFL) & os.O_APPEND
        if not is_appended or not stat.S_ISREG(os.fstat(_STDOUT).st_mode):
            return None
        return _path(_STDOUT)
    except OSError:  # it is closed
        return None


def _path(descriptor: int) -> Path | None:
    """Return the path of an open file.

    Raises:
        OSError: The system does not tell it.
    """
    if sys.platform == "linux":
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    if sys.platform == "darwin":
        import fcntl

        return Path(os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).partition(b"\0")[0]))
    return None
