"""Files with the full stderr of failing servers, written if an error shows only a part of it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import attrs

from pflow_mcp_plugin import naming, storage

_KEPT = 5
"""Stderr files kept for each server; older ones are removed."""


@attrs.frozen
class StderrFiles:
    """Writes files with the stderr of servers, one folder for each, readable by the owner only.

    Attributes:
        folder: The parent of those folders; None saves nothing.
    """

    folder: Path | None = None

    def keep(self, server: str, text: str) -> Path | None:
        """Save the stderr of a server, and return the file or, if it cannot be saved, None.

        Args:
            server: The server's name.
            text: Its stderr, redacted.
        """
        if self.folder is None:
            return None
        content = text.encode("utf-8", "replace")
        # Named by content: a server that fails the same way in every run keeps one file.
        path = self.folder / naming.server_name(server) / f"{sha256(content).hexdigest()[:16]}.log"
        try:
            storage.write_atomic(path, content)
            _remove_older(path)
        except (storage.StoreError, OSError):  # must not hide the failure that is being reported
            return path if path.exists() else None
        return path


def _remove_older(written: Path) -> None:
    """Remove all but the newest files and the one just written."""
    others = [path for path in written.parent.glob("*.log") if path != written]
    others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in others[_KEPT - 1 :]:
        path.unlink(missing_ok=True)
