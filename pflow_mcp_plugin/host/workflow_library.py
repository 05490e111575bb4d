"""The library of saved workflows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import Discovery, Library, PflowError, SavedWorkflow
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow_name import check_name, is_name
from pflow_mcp_plugin.schemas.schema_reader import table_of
from pflow_mcp_plugin.storage import (
    StoreError,
    decode_json,
    encode_json,
    json_files_in,
    locked,
    read_own,
    write_atomic,
)
from pflow_mcp_plugin.terminal.similar_names import did_you_mean


@attrs.frozen
class WorkflowLibrary(Library):
    """The library of saved workflows: a folder with one JSON file for each, named after it.

    A file holds the plain workflow, so that it can be run, edited and shared as it is. Earlier versions are
    kept in `versions/NAME/NUMBER.json`.
    """

    folder: Path
    setting: Callable[[str], str | None] = attrs.field(default=lambda _: None, eq=False, repr=False)

    def names(self) -> list[str]:
        return sorted(path.stem for path in json_files_in(self.folder) if is_name(path.stem))

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def get(self, name: str, version: int | None = None) -> dict[str, JSON]:
        path = self.path(name)
        content = read_own(path) if is_name(name) else None
        if content is None:
            raise self._not_saved(name)
        if version is not None and version != self._version(name):
            path = self._versions(name) / f"{version}.json"
            content = read_own(path)
        if content is None:
            hint = f"Its versions are 1 to {self._version(name)}"
            raise PflowError(f"{name} has no version {version}", suggestions=(hint,), kind="not_found")
        return decode_json(path, content, finite=True)

    def describe(self, name: str) -> SavedWorkflow:
        return self._load(name)[0]

    def _load(self, name: str) -> tuple[SavedWorkflow, JSONObject]:
        workflow = self.get(name)
        path = self.path(name)
        try:
            changed = time.gmtime(path.stat().st_mtime)
        except FileNotFoundError:  # deleted since
            raise self._not_saved(name) from None
        description = workflow.get("description", "")
        saved = SavedWorkflow(
            name=name,
            description=description if isinstance(description, str) else "",
            version=self._version(name),
            path=path,
            saved=time.strftime("%Y-%m-%dT%H:%M:%SZ", changed),
            inputs=table_of(workflow.get("inputs")),
            outputs=table_of(workflow.get("outputs")),
        )
        return saved, workflow

    def saved(self, pattern: str = "") -> list[SavedWorkflow]:
        wanted = pattern.lower()
        every = (saved for saved, _ in self._loaded())
        return [saved for saved in every if wanted in f"{saved.name}\n{saved.description}".lower()]

    def _loaded(self) -> Iterator[tuple[SavedWorkflow, JSONObject]]:
        """Yield each saved workflow's description and content; for a broken one, its problem and {}."""
        for name in self.names():
            try:
                yield self._load(name)
            except PflowError as error:
                if error.kind != "not_found":  # deleted since
                    yield SavedWorkflow(name=name, path=self.path(name), problem=error.message), {}

    def discover(self, task: str, limit: int = 10) -> Discovery[SavedWorkflow]:
        # As for nodes, the model that `PFLOW_DISCOVER_MODEL` names chooses among those whose words match.
        from pflow_mcp_plugin.host.matching.model_ranking import ModelRanking
        from pflow_mcp_plugin.host.matching.task_fit import match_workflows

        matches = {match.item.name: match for match in match_workflows(task, self._loaded())}
        ranking = ModelRanking("saved workflows", self.setting)
        candidates = list(matches)[: ranking.candidates(limit)]
        described = {name: matches[name].item.description for name in candidates}
        names, ranked_by, note = ranking.rank(task, described, limit)
        return Discovery(matches=[matches[name] for name in names], ranked_by=ranked_by, note=note)

    def fingerprint(self) -> str:
        """Return a hash of the names, sizes and times of the library's files; none is opened."""
        from hashlib import sha256

        states = []
        for path in json_files_in(self.folder):
            with suppress(OSError):  # deleted since, or a link to nothing
                found = path.stat()
                times = f"{found.st_mtime_ns} {found.st_ctime_ns}"
                states.append(f"{path.name} {found.st_ino} {found.st_size} {times}")
        return sha256("\n".join(sorted(states)).encode("utf-8", "surrogateescape")).hexdigest()

    def save(self, name: str, workflow: JSONObject, description: str = "") -> SavedWorkflow:
        check_name(name)
        path = self.path(name)
        content = encode_json(
            path, {**workflow, "name": name, **({"description": description} if description else {})}
        )
        with locked(self.folder / "library"):
            before = read_own(path)
            if before is not None and before != content:
                # Raises if the file is corrupt: it is never overwritten.
                decode_json(path, before, finite=True)
                write_atomic(self._versions(name) / f"{self._version(name)}.json", before)
            if before != content:
                write_atomic(path, content)
            return self.describe(name)

    def delete(self, name: str) -> None:
        with locked(self.folder / "library"):
            if name not in self.names():
                raise self._not_saved(name)
            try:
                folder = self._versions(name)
                if folder.is_dir():
                    for left in folder.iterdir():  # including temporary files of a killed writer
                        left.unlink()
                    folder.rmdir()
                self.path(name).unlink()  # last: until then it is listed, and can be deleted again
            except OSError as error:
                reason = f"could not be deleted: {error.strerror}"
                raise StoreError(Path(error.filename or self.path(name)), reason) from error

    def _versions(self, name: str) -> Path:
        return self.folder / "versions" / name

    def _version(self, name: str) -> int:
        stems = [path.stem for path in json_files_in(self._versions(name))]
        return max((int(stem) for stem in stems if stem.isdecimal()), default=0) + 1

    def _not_saved(self, name: str) -> PflowError:
        hint = did_you_mean(name, self.names(), "See: pflow workflow list")
        return PflowError(f"No workflow is saved as {name}", suggestions=(hint,), kind="not_found")
