"""The trace files of earlier runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError, Traces
from pflow_mcp_plugin.storage import CorruptFile, StoreError, decode_json, files_in, read_bytes

LATEST = "latest"


@attrs.frozen
class TraceFiles(Traces):
    """A folder of trace files, one JSON file for each run."""

    folder: Path

    def paths(self) -> list[Path]:
        """Return the trace files in the folder, newest first."""
        return [path for _, path in sorted(self._aged(), reverse=True)]

    def find(self, run: str = LATEST, *, owner: str | None = None) -> Path:
        """Find the trace file of a run: by its id, the beginning of one, or `latest`.

        Raises:
            PflowError: No run matches, or several do.
        """
        paths = self.paths()
        found = paths[:1] if run == LATEST else [path for path in paths if run and path.stem.startswith(run)]
        exact = [path for path in found if path.stem == run]
        if len(found) == 1 or exact:
            return (exact or found)[0]
        if found:
            message = f"{len(found)} runs begin with {run}"
            raise PflowError(message, suggestions=tuple(path.stem for path in found[:5]), kind="not_found")
        message = "No traces yet" if run == LATEST else f"No trace of a run {run or repr(run)}"
        raise PflowError(message, suggestions=("See: pflow trace list",) if paths else (), kind="not_found")

    def read(self, path: Path) -> dict[str, Any]:
        """Read a trace file and return its content.

        Raises:
            PflowError: It cannot be read, or is not a trace.
        """
        content = read_bytes(path)
        if content is None:
            raise PflowError(f"No such file: {path}", kind="not_found")
        data = decode_json(path, content)
        steps = data.get("steps")
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise CorruptFile(path, "not a trace: it has no list of steps")
        return data

    def _aged(self) -> Iterator[tuple[int, Path]]:
        for path in files_in(self.folder, ".json"):
            try:
                yield path.stat().st_mtime_ns, path
            except FileNotFoundError:  # deleted meanwhile
                continue
            except OSError as error:
                raise StoreError(path, f"could not be read: {error.strerror}") from error
