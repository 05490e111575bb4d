"""The trace files of earlier runs."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError, Traces
from pflow_mcp_plugin.storage import CorruptFile, StoreError, decode_json, files_in, read_bytes

LATEST = "latest"
_HEAD = 8_192
"""Bytes of a trace file that are read for its owner."""
_OWNER = re.compile(r'\{\s*"run_id": "[^"\\]*",\s*(?:"owner": ("(?:[^"\\]|\\.)*")|"(?!owner"))')
"""The beginning of a trace file, as `trace_recorder` writes it."""


@attrs.frozen
class TraceFiles(Traces):
    """A folder of trace files, one JSON file for each run."""

    folder: Path

    def paths(self) -> list[Path]:
        """Return the trace files in the folder, newest first."""
        return [path for _, path in sorted(self._aged(), reverse=True)]

    def find(self, run: str = LATEST, *, owner: str | None = None) -> Path:
        """Find the trace file of a run: by its id, the beginning of one, `latest`, or the file's path.

        Args:
            run: The run.
            owner: Only runs of this owner, those of the user if it is empty; of all if None.

        Raises:
            PflowError: No run matches, or several do.
        """
        mine = (path for path in self._fitting(run) if owner is None or _owner(path) == owner)
        found = list(islice(mine, 1)) if run == LATEST else list(mine)
        exact = [path for path in found if path.stem == run]
        if len(found) == 1 or exact:
            return (exact or found)[0]
        if found:
            message = f"{len(found)} runs begin with {run}"
            raise PflowError(message, suggestions=tuple(path.stem for path in found[:5]), kind="not_found")
        if owner is None and Path(run).name == run:
            read_bytes(self.folder / f"{run}.json")  # says what it is, if not a regular file
        message = "No traces yet" if run == LATEST else f"No trace of a run {run or repr(run)}"
        steps = ("See: pflow trace list",) if owner is None and self.paths() else ()
        raise PflowError(message, suggestions=steps, kind="not_found")

    def _fitting(self, run: str) -> list[Path]:
        if run == LATEST:
            return self.paths()
        if run.endswith(".json"):
            wanted = os.path.abspath(run)  # noqa: PTH100 - `resolve` would follow a link out of the folder
            return [path for path in self.paths() if os.path.abspath(path) == wanted]  # noqa: PTH100 - the same
        return [path for path in self.paths() if run and path.stem.startswith(run)]

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
                status = path.lstat()
            except FileNotFoundError:  # deleted meanwhile
                continue
            except OSError as error:
                raise StoreError(path, f"could not be read: {error.strerror}") from error
            if stat.S_ISREG(status.st_mode):
                yield status.st_mtime_ns, path


def cached_words(step: Mapping[str, Any]) -> str:
    """Return in words how far a step of a trace was answered from kept results; empty if it was not."""
    found = step.get("details")
    details = found if isinstance(found, Mapping) else {}
    cache, batch = details.get("cache"), details.get("batch")
    if not isinstance(cache, Mapping) or not cache.get("cached"):
        return ""
    return f"{cache['cached']} of {batch.get('count')} cached" if isinstance(batch, Mapping) else "cached"


def _owner(path: Path) -> str | None:
    """Return the owner of a run from the head of its trace file; None if that cannot be told."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "ignore")
    except OSError:
        return None
    found = _OWNER.match(head)
    if found is None:
        return None
    return str(json.loads(found[1])) if found[1] else ""
