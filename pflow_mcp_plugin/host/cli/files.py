"""Files that a command writes for the user."""

from __future__ import annotations

from pathlib import Path

from pflow_mcp_plugin.contract import PflowError


class CannotWrite(PflowError):
    """A file that the user asked for could not be written."""


def write_text(path: Path, text: str) -> None:
    """Write a text file.

    Raises:
        CannotWrite: It cannot be written; names it and says why.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror}") from error
