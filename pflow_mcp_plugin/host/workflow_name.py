"""The names that workflows are saved under."""

from __future__ import annotations

import re
from pathlib import Path

from pflow_mcp_plugin.contract import PflowError

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")
"""Names of devices on Windows, with any suffix; a library may be shared with Windows."""


def is_name(text: str) -> bool:
    """Return whether a workflow can be saved under this name."""
    return len(text) <= 100 and bool(_NAME.fullmatch(text)) and not _DEVICE.fullmatch(text)


def check_name(text: str) -> None:
    """Raise PflowError if a text is not a valid workflow name."""
    if not is_name(text):
        raise PflowError(
            f"{text!r} is not a valid workflow name",
            suggestions=("Use a-z, 0-9 and single hyphens between them, like daily-report",),
            kind="usage",
        )


def suggested_name(file: Path) -> str:
    """Return the name for a workflow that its file suggests; it may be invalid."""
    from unicodedata import normalize

    # Letters lose their marks, so that `Übersicht.json` becomes `ubersicht`.
    stem = normalize("NFKD", file.stem).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
