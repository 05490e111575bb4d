"""Paths inside one folder: no path that a client names leads out of it."""

from __future__ import annotations

import os
from pathlib import Path

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server.served_tool import shown
from pflow_mcp_plugin.storage import NotRegular, read_regular

_LONGEST = 4_096


def read_confined(root: Path | None, name: str, most: int) -> bytes:
    """Return the content of a regular file inside a folder.

    Args:
        root: The folder; None where no file may be read.
        name: Its path, relative to the folder or absolute within it.
        most: Bytes that it may have.

    Raises:
        PflowError: It is outside, is not a regular file, is too large, or cannot be read.
    """
    path = confined(root, name)
    try:
        return read_regular(path, most)
    except FileNotFoundError:
        raise PflowError(f"No such file: {shown(name)}", kind="not_found") from None
    except (NotRegular, IsADirectoryError) as error:
        raise _refused(f"{shown(name)} is not a regular file: {error.strerror}") from None
    except OSError as error:
        raise PflowError(f"{shown(name)} cannot be read: {error.strerror}", kind="validation") from None


def confined(root: Path | None, name: str) -> Path:
    """Return the real path that a client names, if it is inside the folder.

    Symbolic links are followed first, so one that leads out is refused, and what is opened later is not a
    link.

    Raises:
        PflowError: It is outside.
    """
    if root is None:
        raise PflowError(
            "Files cannot be read here: the server does not run on the client's machine",
            kind="validation",
            suggestions=(
                "Pass the workflow itself, as an object, or as JSON or YAML text",
                "Pass the name of a saved workflow",
            ),
        )
    if not name or len(name) > _LONGEST or "\0" in name or not name.isprintable():
        raise _refused(f"{shown(name)!r} is not a path")
    base = os.path.realpath(root)
    try:
        real = os.path.realpath(Path(base) / name)
    except (OSError, ValueError):
        raise _refused(f"{shown(name)!r} is not a path") from None
    if real != base and not real.startswith(base.rstrip(os.sep) + os.sep):
        raise _refused(f"{shown(name)} is outside the folder that pflow serves")
    return Path(real)


def _refused(message: str) -> PflowError:
    return PflowError(
        message,
        kind="validation",
        suggestions=("Pass a path inside the folder, the workflow itself, or the name of a saved workflow",),
    )
