"""The folders in which pflow keeps its files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pflow_mcp_plugin.contract import Paths, PflowError


def absolute(path: Path) -> Path:
    """Return a path as an absolute one; if it is relative to a folder that was deleted, raise PflowError."""
    try:
        return path.absolute()
    except FileNotFoundError as error:
        step = "Change to a folder that exists"
        raise PflowError(
            "The current folder was deleted", suggestions=(step,), kind="usage", ran="not ran"
        ) from error


def default_paths() -> Paths:
    """Return the folders of pflow's files: below `$PFLOW_HOME` if set, otherwise the platform's usual ones.

    If `$PFLOW_PROJECT` is set, and not to 0, the current folder is that of a project.
    """
    project = None
    if os.environ.get("PFLOW_PROJECT", "0") not in ("", "0"):
        with suppress(PflowError):  # the current folder was deleted
            project = absolute(Path())
    home = os.environ.get("PFLOW_HOME")
    if home:
        root = absolute(Path(home).expanduser())
        folders = {name: root / name for name in ("config", "data", "state", "cache")}
        return Paths(**folders, project=project)
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("pflow", appauthor=False)
    return Paths(
        config=dirs.user_config_path,
        data=dirs.user_data_path,
        state=dirs.user_state_path,
        cache=dirs.user_cache_path,
        project=project,
    )
