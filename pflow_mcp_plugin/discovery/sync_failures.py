"""Why the last sync of a server failed, for `pflow mcp list`: one small file beside its tool file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pflow_mcp_plugin import storage

_LONGEST = 500
"""Characters of a failure's message that are kept."""


def keep(folder: Path, server: str, message: str) -> None:
    """Keep the message of a failed sync, which is redacted; what cannot be written is left out."""
    with suppress(storage.StoreError):
        storage.write_atomic(_path(folder, server), message[:_LONGEST].encode("utf-8", "replace"))


def forget(folder: Path, server: str) -> None:
    """Remove what is kept of a failed sync, after one that worked."""
    path = _path(folder, server)
    if path.exists():
        with suppress(storage.StoreError):
            storage.remove(path)


def read(folder: Path, server: str) -> str:
    """Return the message of the last sync if it failed, otherwise an empty string."""
    try:
        return _path(folder, server).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _path(folder: Path, server: str) -> Path:
    return folder / f"{server}.sync-failure"
