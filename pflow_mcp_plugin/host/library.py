"""Saved workflows."""

from __future__ import annotations

from pathlib import Path

import attrs


@attrs.frozen
class Library:
    """A folder with one JSON file for each saved workflow, named after it."""

    folder: Path

    def names(self) -> list[str]:
        """Return the names, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.json"))
