"""The files and folders that a word may be the beginning of, where the shell cannot be left to find them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pflow_mcp_plugin.contract import Suggestion


def path_names(typed: str, *, folders_only: bool = False) -> Iterator[Suggestion]:
    """Yield the paths that begin as typed; a folder ends in `/` and is the stem of what is in it.

    Args:
        typed: The beginning of a path; `~` stands for the home folder.
        folders_only: Whether to leave out files.
    """
    folder, slash, name = typed.rpartition("/")
    shown = folder + slash
    try:
        entries = sorted(os.scandir(Path(shown or ".").expanduser()), key=lambda entry: entry.name)
    except (OSError, RuntimeError):  # it cannot be read; there is no home folder
        return
    for entry in entries:
        if not entry.name.startswith(name) or (entry.name.startswith(".") and not name):
            continue
        if entry.is_dir():
            yield Suggestion(value=f"{shown}{entry.name}/", type="stem")
        elif not folders_only:
            yield Suggestion(value=f"{shown}{entry.name}")
