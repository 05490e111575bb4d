"""Programs that may install a server before they start it: npx, uvx, docker and the like.

npm undoes an unfinished installation when it is asked to end, but cannot when it is killed. What is left then
passes for installed, and every later start fails. Such a folder in npx's cache is removed, so that it is
installed anew.
"""

from __future__ import annotations

import re
import shutil
import stat
import time
from pathlib import Path, PurePath

from pflow_mcp_plugin.types import Server

ROLL_BACK_SECONDS = 10.0
"""How long a package runner has after SIGTERM to remove what it has installed so far."""
ROLL_BACK_NOTICE = f"was still being installed: that has {ROLL_BACK_SECONDS:g} s to be undone"
_RUNNERS = {"npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman"}
_NPM_RUNNERS = {"npx", "npm"}
_SOMETHING_MISSING = re.compile(
    r"Cannot find (?:module|package) |npm (?:error|ERR!) code E(?:NOENT|NOTEMPTY|NOTDIR)"
)
_FOLDER = re.compile(r"/[^\n'\"]*?/_npx/[0-9a-f]{16}(?=/)")
_LOCK = "concurrency.lock"
_LOCK_SECONDS = 60.0
"""For so long npm takes this lock for that of another npx, which touches it every second."""


def runner(server: Server) -> str:
    """Return the package runner that may first have to install a server, or an empty string."""
    name = PurePath(server.command).stem
    return name if name in _RUNNERS else ""


def incomplete_folder(server: Server, stderr: str) -> Path | None:
    """Return the folder in which npx has installed a server incompletely, None if it has not.

    Args:
        server: The server.
        stderr: What it, or npx, wrote before it failed to start: a file is missing in that folder.
    """
    named = _FOLDER.search(stderr)
    if runner(server) not in _NPM_RUNNERS or named is None or not _SOMETHING_MISSING.search(stderr):
        return None
    folder = Path(named[0])
    return folder if _is_folder(folder / "node_modules") and not _is_locked(folder) else None


def remove_folder(folder: Path) -> bool:
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
