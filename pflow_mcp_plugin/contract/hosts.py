"""The handles a host gives to its plugins.

A host extends `Host`, `Registry` and `Run`, and `Runner`, `Settings`, `Library` and `Traces` where it
has such a part. What a later 1.x adds to these classes has a default, so that a host written for an
earlier 1.x still fits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pluggy

from pflow_mcp_plugin.contract.entries import Entry
from pflow_mcp_plugin.contract.problems import PflowError, Problem
from pflow_mcp_plugin.contract.validators import each, flag, is_a, items, text, valid_name

API: tuple[int, int] = (1, 0)
"""Major and minor version of the contract in this package; see `docs/plugins.md`, "Versions"."""


@attrs.frozen(kw_only=True)
class Paths:
    """The folders of pflow on this machine; each may not exist yet.

    Attributes:
        config: What people edit or `settings` writes.
        data: What was fetched or saved and is kept.
        state: Traces and what runs leave behind.
        cache: Derived; may be deleted at any time.
    """

    config: Path
    data: Path
    state: Path
    cache: Path


@attrs.frozen(kw_only=True, eq=False)
class NodeRef:
    """A node of a compiled workflow. It holds its host, so it cannot be pickled.

    Attributes:
        id: The node's id in the workflow.
        type: The node type as the workflow wrote it (perhaps an alias).
        entry: The registry entry it was resolved to.
        host: The host that compiles or runs it.
        params: Its params as written, templates and all.
        injected: What plugins injected, of all of them; empty while they are being asked.
    """

    id: str = attrs.field(validator=valid_name)
    type: str = attrs.field(validator=valid_name)
    entry: Entry = attrs.field(validator=is_a(Entry), repr=False)
    host: Host = attrs.field(repr=False)
    params: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    injected: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


@attrs.frozen(kw_only=True)
class Workflow:
    """A compiled workflow, as a run shows it to plugins.

    Attributes:
        name: Its name or file, for messages.
        nodes: Every node.
        certain: Ids of the nodes that run whenever every node takes its default action.
    """

    name: str = attrs.field(validator=text)
    nodes: tuple[NodeRef, ...] = attrs.field(converter=items, validator=each(NodeRef))
    certain: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        success: Whether it ended without an unrouted failure.
        outputs: The workflow's outputs by name.
        run_id: Unique; names the trace.
        trace_path: The trace file, None when none was written.
        error: The failure, when there is one.
        steps: How many node executions began.
        exit_code: 0; 3 if a server could not be reached, or 2 if its config does not allow it, before
            any node had run; 130 if it was interrupted; 1 for any other failure.
    """

    success: bool = attrs.field(validator=flag)
    outputs: Mapping[str, Any]
    run_id: str = attrs.field(validator=valid_name)
    trace_path: Path | None = None
    error: PflowError | None = None
    steps: int = 0
    exit_code: int = 0


class Registry(ABC):
    """Every node type that is known, from all sources."""

    @abstractmethod
    def get(self, node_type: str) -> Entry:
        """Return the entry of a node type or alias.

        Raises:
            PflowError: Kind `not_found`, with the nearest names and what provides the node.
        """

    @abstractmethod
    def entries(self, pattern: str = "") -> Iterator[Entry]:
        """Yield entries by name, those whose name contains `pattern` if one is given."""

    def find(self, node_type: str) -> Entry | None:
        """Return the entry of a node type or alias, None if there is none."""
        try:
            return self.get(node_type)
        except PflowError as error:
            if error.kind != "not_found":
                raise
            return None

    def search(self, words: str, limit: int = 20) -> Sequence[tuple[Entry, float]]:
        """Return entries that match, best first, each with its score (higher is better).

        By default, the score is the share of the words that stand in the name or the description.
        """
        wanted = words.lower().split()
        scored = ((entry, _share(wanted, entry)) for entry in self.entries())
        found = [(entry, score) for entry, score in scored if score]
        return sorted(found, key=lambda pair: (-pair[1], pair[0].node))[:limit]

    def discover(self, task: str, limit: int = 10) -> Sequence[tuple[Entry, float]]:
        """Return the entries that a task in words needs, best first, each with its score.

        By default, what `search` finds.
        """
        return self.search(task, limit)


class Runner(ABC):
    """Checks and runs workflows."""

    @abstractmethod
    def validate(self, workflow: Mapping[str, Any]) -> Sequence[Problem]:
        """Return every problem of a workflow; nothing runs."""

    @abstractmethod
    def run(
        self, workflow: Mapping[str, Any], inputs: Mapping[str, Any], *, name: str = "", trace: bool = True
    ) -> Outcome:
        """Run a workflow to its end.

        Args:
            workflow: The workflow as loaded; the host normalises it.
            inputs: Values by input name.
            name: The workflow's name or file, for messages and the trace.
            trace: Whether a trace is written, by a host that writes any.

        Raises:
            PflowError: Kind `validation`, `not_found` or `config`, before anything has run.
        """


class Settings(ABC):
    """Keys and values that the user keeps with pflow, e.g. tokens."""

    @abstractmethod
    def get(self, key: str) -> str | None:
        """Return a value, or None if it is not set."""

    def names(self) -> Mapping[str, str]:
        """Return every key that is set, with a word for where its value is kept, such as `file`.

        By default there are none: the host keeps its settings to itself.
        """
        return {}

    def set(self, key: str, value: str) -> None:
        """Keep a value.

        Raises:
            PflowError: Kind `usage` if `key` is not a valid name; or the value cannot be kept. By
                default, no value can.
        """
        raise PflowError(f"{key} cannot be set: this pflow does not keep settings", kind="usage")

    def unset(self, key: str) -> bool:
        """Forget a value; return whether there was one. By default there is none to forget."""
        return False


@attrs.frozen(kw_only=True)
class SavedWorkflow:
    """What is known of a saved workflow without reading all of it.

    Attributes:
        name: Its name in the library.
        description: What it says of itself, empty if nothing.
        version: Counts how often it was changed, from 1.
        path: Its file.
        saved: When, as UTC time (ISO 8601); empty if the host does not know.
    """

    name: str = attrs.field(validator=valid_name)
    description: str = attrs.field(default="", validator=text)
    version: int = 1
    path: Path
    saved: str = attrs.field(default="", validator=text)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**attrs.asdict(self), "path": str(self.path)}


class Library(ABC):
    """Saved workflows."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names, sorted."""

    @abstractmethod
    def get(self, name: str, version: int | None = None) -> Mapping[str, Any]:
        """Return a saved workflow as JSON, the current version unless another is asked for.

        Raises:
            PflowError: Kind `not_found`, with the nearest name; or its file is corrupt.
        """

    @abstractmethod
    def describe(self, name: str) -> SavedWorkflow:
        """Return what is known of a saved workflow.

        Raises:
            PflowError: As for `get`.
        """

    @abstractmethod
    def save(self, name: str, workflow: Mapping[str, Any], description: str = "") -> SavedWorkflow:
        """Save a workflow under a name; what was there before is kept as an older version.

        Args:
            name: Its name in the library.
            workflow: The workflow as loaded.
            description: What it is for; what the workflow says of itself when left empty.

        Raises:
            PflowError: Kind `usage` if the name is invalid; or it cannot be written.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a workflow with every version of it.

        Raises:
            PflowError: Kind `not_found`.
        """


class Traces(ABC):
    """What earlier runs recorded."""

    @abstractmethod
    def paths(self) -> Sequence[Path]:
        """Return the trace files, newest first."""

    @abstractmethod
    def find(self, run: str = "latest") -> Path:
        """Return the trace of a run: by its id, the beginning of one, or `latest`.

        Raises:
            PflowError: Kind `not_found`: there is none, or several ids begin so.
        """

    @abstractmethod
    def read(self, path: Path) -> Mapping[str, Any]:
        """Return what a trace file says: `run_id`, `success`, `error`, `inputs`, `steps` and more.

        Raises:
            PflowError: It cannot be read, or is not a trace.
        """


class Run(ABC):
    """One run of a workflow; a node reaches it as `shared["__run__"]`.

    Attributes:
        run_id: Unique; names the trace.
        workflow: What runs.
        host: The host it runs in.
        artifacts_dir: Where nodes put files that are too large or not text; made by whoever writes
            the first.
        resources: What plugins keep for the run, each under its own key.
    """

    run_id: str
    workflow: Workflow
    host: Host
    artifacts_dir: Path
    resources: dict[str, Any]

    @abstractmethod
    def add_secrets(self, values: Iterable[str]) -> None:
        """Redact these values from trace, logs and errors of this run."""

    def cancelled(self) -> bool:
        """Return whether the user has stopped the run; by default, nobody can."""
        return False

    def annotate(self, node_id: str, details: Mapping[str, Any]) -> None:
        """Add JSON values to the node's step in the trace; by default, there is no trace."""
        return


class Host(ABC):
    """The handle on pflow core that every hook is given.

    Attributes:
        api: The version of the contract that the host was written for, such as `(1, 0)`. A plugin
            that needs what a later one added looks here.
        paths: The folders to work in.
    """

    api: tuple[int, int]
    paths: Paths

    @property
    @abstractmethod
    def hook(self) -> pluggy.HookRelay:
        """The plugin manager's hooks, for plugins that specify hooks of their own."""

    @property
    @abstractmethod
    def registry(self) -> Registry:
        """Every node type."""

    @property
    def runner(self) -> Runner | None:
        """What checks and runs workflows, if it can."""
        return None

    @property
    def settings(self) -> Settings | None:
        """What the user keeps with pflow, if anything is kept."""
        return None

    @property
    def library(self) -> Library | None:
        """Saved workflows, if it saves any."""
        return None

    @property
    def traces(self) -> Traces | None:
        """What earlier runs recorded, if they do."""
        return None

    @abstractmethod
    def report(self, problem: Problem) -> None:
        """Show a warning to the user, once for each message."""

    def refresh(self, source: str) -> None:
        """Rebuild what was derived from a node source, such as an index; its entries have changed.

        By default nothing is derived.
        """
        return


def _share(wanted: Sequence[str], entry: Entry) -> float:
    where = f"{entry.node} {entry.description}".lower()
    return sum(word in where for word in wanted) / len(wanted) if wanted else 0.0
