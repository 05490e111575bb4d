"""What npx has installed: a folder for each set of packages, in its cache.

npm undoes an unfinished installation when it is asked to end, but cannot when it is killed. What is left then
passes for installed, and every later start fails. Such a folder is removed, so that npx installs anew.
"""

from __future__ import annotations

import re
import shutil
import stat
import time
from pathlib import Path

from pflow_mcp_plugin.client.process.package_runners import runner
from pflow_mcp_plugin.types import Server

_RUNNERS = {"npx", "npm"}
_SOMETHING_MISSING = re.compile(
    r"Cannot find (?:module|package) |npm (?:error|ERR!) code E(?:NOENT|NOTEMPTY|NOTDIR)"
)
_FOLDER = re.compile(r"/[^\n'\"]*?/_npx/[0-9a-f]{16}(?=/)")
_LOCK = "concurrency.lock"
_LOCK_SECONDS = 60.0
"""For so long npm takes this lock for that of another npx, which touches it every second."""


def incomplete_folder(server: Server, stderr: str) -> Path | None:
    """Return the folder in which npx has installed a server incompletely, None if it has not.

    Args:
        server: The server.
        stderr: What it, or npx, wrote before it failed to start: a file is missing in that folder.
    """
    named = _FOLDER.search(stderr)
    if runner(server) not in _RUNNERS or named is None or not _SOMETHING_MISSING.search(stderr):
        return None
    folder = Path(named[0])
    return folder if _is_folder(folder / "node_modules") and not _is_locked(folder) else None


def remove(folder: Path) -> bool:
    """Remove an installation of npx as a whole, and return whether it is gone."""
    aside = folder.with_name(f"{folder.name}.incomplete-{time.time_ns()}")
    try:
        folder.rename(aside)  # at once, for an npx that installs it again meanwhile
    except OSError:
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _is_locked(folder: Path) -> bool:
    try:
        return time.time() - (folder / _LOCK).stat().st_mtime < _LOCK_SECONDS
    except OSError:
        return False
