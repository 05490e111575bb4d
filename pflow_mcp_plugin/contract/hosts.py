"""The handles that a host passes to its plugins.

A host extends `Host`, `Registry` and `Run`, and `Runner`, `Settings`, `Library` and `Traces` if it
has such a part. Members that a later 1.x adds to these classes have a default, so that a host written
for an earlier 1.x still works.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pluggy

from pflow_mcp_plugin.contract.entries import Entry
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import PflowError, Problem
from pflow_mcp_plugin.contract.validators import each, flag, is_a, items, text, valid_name

API: tuple[int, int] = (1, 0)
"""Major and minor version of the contract in this package; see `docs/plugins.md`, "Versions"."""


@attrs.frozen(kw_only=True)
class Paths:
    """The folders that a host hands to its plugins; each may not exist yet.

    Attributes:
        config: Files that people edit or `settings` writes.
        data: Fetched or saved files that are kept.
        state: Traces and other files that runs leave behind.
        cache: Derived files; may be deleted at any time.
    """

    config: Path
    data: Path
    state: Path
    cache: Path


@attrs.frozen(kw_only=True, eq=False)
class NodeRef:
    """A compiled workflow's node, as any host hands it to plugins. It holds its host: it cannot be pickled.

    Attributes:
        id: The node's id in the workflow.
        type: The node type as the workflow wrote it (perhaps an alias).
        entry: The registry entry it was resolved to.
        host: The host that compiles or runs it.
        params: Its params as written, with unresolved templates.
        injected: The params that all plugins injected; empty while `pflow_inject_params` is being called.
    """

    id: str = attrs.field(validator=valid_name)
    type: str = attrs.field(validator=valid_name)
    entry: Entry = attrs.field(validator=is_a(Entry), repr=False)
    host: Host = attrs.field(repr=False)
    params: JSONObject = attrs.field(factory=dict, repr=False)
    injected: Mapping[str, object] = attrs.field(factory=dict, repr=False)


@attrs.frozen(kw_only=True)
class Workflow:
    """A compiled workflow, as any host shows it to plugins in a run.

    Attributes:
        name: Its name or file, for messages.
        nodes: Every node.
        certain: Ids of the nodes that run if every node takes its default action.
    """

    name: str = attrs.field(validator=text)
    nodes: tuple[NodeRef, ...] = attrs.field(converter=items, validator=each(NodeRef))
    certain: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class Outcome:
    """The outcome of a run, as any host returns it.

    Attributes:
        success: Whether it ended without an unrouted failure.
        outputs: The workflow's outputs by name.
        run_id: Unique; names the trace.
        trace_path: The trace file, None when none was written.
        error: The failure, None on success.
        steps: The number of node executions that began.
        exit_code: 0; 3 if a server could not be reached, or 2 if its config is invalid, before any
            node had run; 130 if it was interrupted; 1 for any other failure.
    """

    success: bool = attrs.field(validator=flag)
    outputs: Mapping[str, Any]
    run_id: str = attrs.field(validator=valid_name)
    trace_path: Path | None = None
    error: PflowError | None = None
    steps: int = 0
    exit_code: int = 0


class Registry(ABC):
    """Base class of any host's registry: every node type that is known, from all sources."""

    @abstractmethod
    def get(self, node_type: str) -> Entry:
        """Any host's registry: return the entry of a node type or alias.

        Raises:
            PflowError: Kind `not_found`, with the nearest names and what provides the node.
        """

    @abstractmethod
    def entries(self, pattern: str = "") -> Iterator[Entry]:
        """Any host's registry: yield entries sorted by name, only those whose name contains `pattern`."""

    def find(self, node_type: str) -> Entry | None:
        """Any host's registry: return the entry of a node type or alias, None if it does not exist."""
        try:
            return self.get(node_type)
        except PflowError as error:
            if error.kind != "not_found":  # for example, a source that cannot be read
                raise
            return None

    def search(self, words: str, limit: int = 20) -> Sequence[tuple[Entry, float]]:
        """Any host's registry: return entries that match, best first, each with its score (higher is better).

        By default, the score is the share of the words that occur in the name or the description.
        """
        wanted = words.lower().split()
        scored = ((entry, _share(wanted, entry)) for entry in self.entries())
        found = [(entry, score) for entry, score in scored if score]
        return sorted(found, key=lambda pair: (-pair[1], pair[0].node))[:limit]

    def discover(self, task: str, limit: int = 10) -> Sequence[tuple[Entry, float]]:
        """Any host's registry: return the entries that a task in words needs, best first, with scores.

        By default, the same as `search`.
        """
        return self.search(task, limit)


class Runner(ABC):
    """Base class of any host's runner, which checks and runs workflows."""

    @abstractmethod
    def validate(self, workflow: JSONObject) -> Sequence[Problem]:
        """Any host's runner: return every problem of a workflow; nothing runs."""

    @abstractmethod
    def run(
        self, workflow: JSONObject, inputs: Mapping[str, object], *, name: str = "", trace: bool = True
    ) -> Outcome:
        """Any host's runner: run a workflow to its end.

        Args:
            workflow: The workflow as loaded; the host normalises it.
            inputs: Values by input name.
            name: The workflow's name or file, for messages and the trace.
            trace: Whether to write a trace, if the host writes traces at all.

        Raises:
            PflowError: Kind `validation`, `not_found` or `config`, before anything has run.
        """


class Settings(ABC):
    """Base class of any host's settings: the user's saved keys and values, e.g. tokens."""

    @abstractmethod
    def get(self, key: str) -> str | None:
        """Any host's settings: return a value, or None if it is not set."""

    def names(self) -> Mapping[str, str]:
        """Any host's settings: return every key, with a word for where its value is stored, such as `file`.

        Empty by default: the host does not list its settings.
        """
        return {}

    def set(self, key: str, value: str) -> None:
        """Any host's settings: save a value.

        Raises:
            PflowError: Kind `usage` if `key` is invalid; or the value cannot be saved. Always raised by
                default.
        """
        raise PflowError(f"{key} cannot be set: this pflow does not save settings", kind="usage")

    def unset(self, key: str) -> bool:
        """Any host's settings: delete a value; return whether it was set. By default, False."""
        return False


@attrs.frozen(kw_only=True)
class SavedWorkflow:
    """A saved workflow, as any host's library describes it.

    Attributes:
        name: Its name in the library.
        description: Its description, possibly empty.
        version: Its version number, counted from 1.
        path: Its file.
        saved: When it was saved, as UTC time (ISO 8601); empty if the host does not know.
    """

    name: str = attrs.field(validator=valid_name)
    description: str = attrs.field(default="", validator=text)
    version: int = 1
    path: Path
    saved: str = attrs.field(default="", validator=text)

    def to_dict(self) -> dict[str, JSON]:
        """Return the JSON form of a saved workflow's description, for any host's lists."""
        return {**attrs.asdict(self), "path": str(self.path)}


class Library(ABC):
    """Base class of any host's library of saved workflows."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Any host's library: return the names of the saved workflows, sorted."""

    @abstractmethod
    def get(self, name: str, version: int | None = None) -> JSONObject:
        """Any host's library: return a saved workflow as JSON, by default its current version.

        Raises:
            PflowError: Kind `not_found`, with the nearest name; or its file is corrupt.
        """

    @abstractmethod
    def describe(self, name: str) -> SavedWorkflow:
        """Any host's library: return a saved workflow's name, description, version, file and time.

        Raises:
            PflowError: As for `get`.
        """

    @abstractmethod
    def save(self, name: str, workflow: JSONObject, description: str = "") -> SavedWorkflow:
        """Any host's library: save a workflow under a name; the one it replaces is kept as an older version.

        Args:
            name: Its name in the library.
            workflow: The workflow as loaded.
            description: What it is for; the workflow's own description when left empty.

        Raises:
            PflowError: Kind `usage` if the name is invalid; or it cannot be written.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Any host's library: delete a workflow with all its versions.

        Raises:
            PflowError: Kind `not_found`.
        """


class Traces(ABC):
    """Base class of any host's traces of earlier runs."""

    @abstractmethod
    def paths(self) -> Sequence[Path]:
        """Any host's traces: return the trace files, newest first."""

    @abstractmethod
    def find(self, run: str = "latest") -> Path:
        """Any host's traces: return the trace of a run, by its id, the beginning of one, or `latest`.

        Raises:
            PflowError: Kind `not_found`: no run matches, or several do.
        """

    @abstractmethod
    def read(self, path: Path) -> JSONObject:
        """Any host's traces: return what a trace file holds: `run_id`, `success`, `error`, `steps` and more.

        Raises:
            PflowError: It cannot be read, or is not a trace.
        """


class Run(ABC):
    """Base class of any host's run of a workflow; a node reaches it as `shared["__run__"]`.

    Attributes:
        run_id: Unique; names the trace.
        workflow: The workflow that runs.
        host: The host it runs in.
        artifacts_dir: The folder for results that are too large or not text; created by whoever writes
            the first file.
        resources: Objects that plugins keep for the run, each under its own key.
    """

    run_id: str
    workflow: Workflow
    host: Host
    artifacts_dir: Path
    resources: dict[str, Any]

    @abstractmethod
    def add_secrets(self, values: Iterable[str]) -> None:
        """Any host's run: redact these values from the run's trace, logs and errors."""

    def cancelled(self) -> bool:
        """Any host's run: return whether the user has stopped it; by default, False."""
        return False

    def annotate(self, node_id: str, details: JSONObject) -> None:
        """Add JSON values to the node's step in the trace; does nothing by default."""
        return


class Host(ABC):
    """Base class of any host, the handle on pflow core that every hook receives.

    Attributes:
        api: The version of the contract that the host was written for, such as `(1, 0)`. A plugin
            that needs a later addition checks it.
        paths: The folders to work in.
    """

    api: tuple[int, int]
    paths: Paths

    @property
    @abstractmethod
    def hook(self) -> pluggy.HookRelay:
        """Any host's hooks, for plugins that specify hooks of their own."""

    @property
    @abstractmethod
    def registry(self) -> Registry:
        """Any host's registry."""

    @property
    def runner(self) -> Runner | None:
        """Any host's runner; None if the host cannot run workflows."""
        return None

    @property
    def settings(self) -> Settings | None:
        """Any host's settings; None if the host saves none."""
        return None

    @property
    def library(self) -> Library | None:
        """Any host's library; None if the host saves no workflows."""
        return None

    @property
    def traces(self) -> Traces | None:
        """Any host's traces; None if the host writes none."""
        return None

    @abstractmethod
    def report(self, problem: Problem) -> None:
        """Any host: show a warning to the user, once for each message."""

    def refresh(self, source: str) -> None:
        """Any host: rebuild what is derived from a node source, such as an index, after its entries changed.

        Does nothing by default.
        """
        return


def _share(wanted: Sequence[str], entry: Entry) -> float:
    where = f"{entry.node} {entry.description}".lower()
    return sum(word in where for word in wanted) / len(wanted) if wanted else 0.0
