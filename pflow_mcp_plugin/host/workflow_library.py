"""The library of saved workflows."""

from __future__ import annotations

import re
import time
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import Library, PflowError, SavedWorkflow
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.storage import (
    StoreError,
    decode_json,
    encode_json,
    files_in,
    locked,
    read_bytes,
    write_atomic,
)

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@attrs.frozen
class WorkflowLibrary(Library):
    """The library: a folder with one JSON file for each saved workflow, named after it.

    A file holds the plain workflow, so that it can be run, edited and shared as it is. Earlier versions
    are kept in `versions/NAME/NUMBER.json`.
    """

    folder: Path

    def names(self) -> list[str]:
        """Return the names of the library's files, sorted."""
        return sorted(path.stem for path in files_in(self.folder, ".json") if is_name(path.stem))

    def path(self, name: str) -> Path:
        """Return the library's file of a saved workflow."""
        return self.folder / f"{name}.json"

    def get(self, name: str, version: int | None = None) -> dict[str, JSON]:
        """Read a workflow from the library's folder, by default its current version.

        Raises:
            PflowError: It does not exist (kind `not_found`), or its file is corrupt.
        """
        path = self.path(name)
        content = read_bytes(path) if is_name(name) else None
        if content is None:
            raise self._not_saved(name)
        current = self._version(name)
        if version not in (None, current):
            path = self._versions(name) / f"{version}.json"
            content = read_bytes(path)
        if content is None:
            hint = f"Its versions are 1 to {current}"
            raise PflowError(f"{name} has no version {version}", suggestions=(hint,), kind="not_found")
        return decode_json(path, content, finite=True)

    def describe(self, name: str) -> SavedWorkflow:
        """Describe a workflow in the library: its name, description, version, file and last change.

        Raises:
            PflowError: As for `get`.
        """
        description = self.get(name).get("description", "")
        changed = time.gmtime(self.path(name).stat().st_mtime)
        return SavedWorkflow(
            name=name,
            description=description if isinstance(description, str) else "",
            version=self._version(name),
            path=self.path(name),
            saved=time.strftime("%Y-%m-%dT%H:%M:%SZ", changed),
        )

    def save(self, name: str, workflow: JSONObject, description: str = "") -> SavedWorkflow:
        """Write a workflow to the library; the file it replaces is kept under `versions`.

        Args:
            name: Its name in the library.
            workflow: The workflow as loaded.
            description: Replaces the workflow's own description unless empty.

        Raises:
            PflowError: The name is invalid, the workflow cannot be written, or the existing file is corrupt
                and would be lost.
        """
        if not is_name(name):
            raise PflowError(
                f"{name!r} is not a valid workflow name",
                suggestions=("Use a-z, 0-9 and single hyphens between them, like daily-report",),
                kind="usage",
            )
        path = self.path(name)
        content = encode_json(
            path, {**workflow, "name": name, **({"description": description} if description else {})}
        )
        with locked(self.folder / "library"):
            before = read_bytes(path)
            if before is not None and before != content:
                # Raises if the file is corrupt: such a file is never overwritten.
                decode_json(path, before, finite=True)
                write_atomic(self._versions(name) / f"{self._version(name)}.json", before)
            if before != content:
                write_atomic(path, content)
        return self.describe(name)

    def delete(self, name: str) -> None:
        """Delete a workflow from the library's folder, with all its versions.

        Raises:
            PflowError: It does not exist, or a file cannot be deleted.
        """
        with locked(self.folder / "library"):
            if name not in self.names():
                raise self._not_saved(name)
            try:
                self._delete_versions(name)
                self.path(name).unlink()  # last: until then it is listed, and deleting can be repeated
            except OSError as error:
                reason = f"could not be deleted: {error.strerror}"
                raise StoreError(Path(error.filename or self.path(name)), reason) from error

    def _delete_versions(self, name: str) -> None:
        folder = self._versions(name)
        if folder.is_dir():
            for left in folder.iterdir():  # including temporary files of a killed writer
                left.unlink()
            folder.rmdir()

    def _versions(self, name: str) -> Path:
        return self.folder / "versions" / name

    def _version(self, name: str) -> int:
        stems = [path.stem for path in files_in(self._versions(name), ".json")]
        return max((int(stem) for stem in stems if stem.isdecimal()), default=0) + 1

    def _not_saved(self, name: str) -> PflowError:
        from difflib import get_close_matches

        close = get_close_matches(name, self.names(), 1)
        hint = f"Did you mean {close[0]}?" if close else "See: pflow workflow list"
        return PflowError(f"No workflow is saved as {name}", suggestions=(hint,), kind="not_found")


def is_name(text: str) -> bool:
    """Return whether a string is a valid name for a workflow in the library."""
    return len(text) <= 100 and _NAME.fullmatch(text) is not None
