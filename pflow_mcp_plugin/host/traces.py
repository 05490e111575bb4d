"""What earlier runs recorded."""

from __future__ import annotations

from pathlib import Path

import attrs


@attrs.frozen
class Traces:
    """A folder with one JSON file for each run."""

    folder: Path

    def paths(self) -> list[Path]:
        """Return the trace files, newest first."""
        return sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
