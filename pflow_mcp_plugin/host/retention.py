"""How long the files that runs leave behind are kept: traces, and the artefacts beside them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pflow_mcp_plugin.contract import PflowError

SETTING = "PFLOW_TRACE_DAYS"
"""The environment variable, or else the setting, with the days that files are kept; 0 keeps them all."""
DAYS = 90.0
_DAY = 86_400.0
_FOLDERS = ("traces", "artifacts")
_LAST = ".last-removal"


def remove_outdated(state: Path, setting: Callable[[str], str | None]) -> None:
    """Remove what runs left behind longer ago than it is kept; looks for such files once a day.

    What cannot be removed is left, and tried again a day later.

    Args:
        state: The folder with the traces and artefacts.
        setting: Returns a setting by its name.
    """
    mark = state / _LAST
    now = time.time()
    if not state.is_dir() or now - _modified(mark) < _DAY:
        return
    days = _days(setting)
    with suppress(OSError):
        mark.touch(mode=0o600)
        os.utime(mark)
    if days:
        for name in _FOLDERS:
            _remove_before(now - days * _DAY, state / name)


def _days(setting: Callable[[str], str | None]) -> float:
    """Return the days to keep files: 0, which is for ever, if the setting cannot be read."""
    try:
        days = float(os.environ.get(SETTING) or setting(SETTING) or DAYS)
    except (ValueError, PflowError):
        return 0.0
    return max(days, 0.0)


def _remove_before(moment: float, folder: Path) -> None:
    for place in _folders_below(folder):
        with suppress(OSError):
            unused = place != folder and place.stat().st_mtime < moment
            for path in list(place.iterdir()):
                if (path.is_symlink() or path.is_file()) and path.lstat().st_mtime < moment:
                    path.unlink(missing_ok=True)
            if unused:
                place.rmdir()  # unless something is left in it


def _folders_below(folder: Path) -> Iterator[Path]:
    """Yield the folders below a folder, inner ones first, and the folder itself."""
    for place, _, _ in os.walk(folder, topdown=False):  # does not follow links
        yield Path(place)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
