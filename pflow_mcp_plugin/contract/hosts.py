"""The handles a host gives to its plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import pluggy

from pflow_mcp_plugin.contract.entries import Entry
from pflow_mcp_plugin.contract.problems import PflowError, Problem

API: tuple[int, int] = (1, 0)
"""Major and minor version of this contract; a plugin written for 1.x runs on every later 1.y."""

FEATURES: Mapping[str, tuple[str, ...]] = {
    "registry": ("registry.get",),
    "search": ("registry.find", "registry.entries", "registry.search", "registry.discover"),
    "runner": ("runner.validate", "runner.run"),
    "settings": ("settings.get",),
    "settings-edit": ("settings.names", "settings.set", "settings.unset"),
    "library": ("library.names", "library.get", "library.describe", "library.save", "library.delete"),
    "traces": ("traces.paths", "traces.find", "traces.read"),
}
"""What a host promises by naming each feature: methods of what hangs on the handle."""


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


@attrs.frozen(kw_only=True)
class NodeRef:
    """A node of a workflow, as the compiler sees it.

    Attributes:
        id: The node's id in the workflow.
        type: The node type as the workflow wrote it (perhaps an alias).
        entry: The registry entry it was resolved to.
        params: Its params as written, templates and all.
    """

    id: str
    type: str
    entry: Entry
    params: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Workflow:
    """A compiled workflow, as a run shows it to plugins.

    Attributes:
        name: Its name or file, for messages.
        nodes: Every node.
        certain: Ids of the nodes that run whenever every node takes its default action.
    """

    name: str
    nodes: tuple[NodeRef, ...]
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
        exit_code: 0; 3 if a server could not be reached, or 2 if its config does not do, before any
            node had run; 130 if it was interrupted; 1 for any other failure.
    """

    success: bool
    outputs: Mapping[str, Any]
    run_id: str
    trace_path: Path | None = None
    error: PflowError | None = None
    steps: int = 0
    exit_code: int = 0


class Registry(Protocol):
    """Every node type that is known, from all sources."""

    def get(self, node_type: str) -> Entry:
        """Return the entry of a node type or alias.

        Raises:
            PflowError: Kind `not_found`, with the nearest names and what provides the node.
        """
        ...

    def find(self, node_type: str) -> Entry | None:
        """Return the entry of a node type or alias, None if there is none."""
        ...

    def entries(self, pattern: str = "") -> Iterator[Entry]:
        """Yield entries by name, those whose name contains `pattern` if one is given."""
        ...

    def search(self, words: str, limit: int = 20) -> Sequence[tuple[Entry, float]]:
        """Return entries that match, best first, each with its score (higher is better)."""
        ...

    def discover(self, task: str, limit: int = 10) -> Sequence[tuple[Entry, float]]:
        """Return the entries that a task in words needs, best first, each with its score."""
        ...


class Runner(Protocol):
    """Checks and runs workflows."""

    def validate(self, workflow: Mapping[str, Any]) -> Sequence[Problem]:
        """Return every problem of a workflow; nothing runs."""
        ...

    def run(
        self, workflow: Mapping[str, Any], inputs: Mapping[str, Any], *, name: str = "", trace: bool = True
    ) -> Outcome:
        """Run a workflow to its end.

        Args:
            workflow: The workflow as loaded, in any shape that normalising makes a whole of.
            inputs: Values by input name.
            name: The workflow's name or file, for messages and the trace.
            trace: Whether a trace is written.

        Raises:
            PflowError: Kind `validation` or `not_found`, before anything has run.
        """
        ...


class Settings(Protocol):
    """Keys and values that the user keeps with pflow, e.g. tokens."""

    def names(self) -> Mapping[str, str]:
        """Return every key that is set, with a word for where its value is kept, such as `file`."""
        ...

    def get(self, key: str) -> str | None:
        """Return a value, or None if it is not set."""
        ...

    def set(self, key: str, value: str) -> None:
        """Keep a value.

        Raises:
            PflowError: Kind `usage` if `key` is no name; or the value cannot be kept.
        """
        ...

    def unset(self, key: str) -> bool:
        """Forget a value; return whether there was one."""
        ...


class SavedWorkflow(Protocol):
    """What is known of a saved workflow without reading all of it."""

    @property
    def name(self) -> str:
        """Its name in the library."""
        ...

    @property
    def description(self) -> str:
        """What it says of itself, empty if nothing."""
        ...

    @property
    def version(self) -> int:
        """Counts how often it was changed, from 1."""
        ...

    @property
    def path(self) -> Path:
        """Its file."""
        ...


class Library(Protocol):
    """Saved workflows."""

    def names(self) -> Sequence[str]:
        """Return the names, sorted."""
        ...

    def get(self, name: str, version: int | None = None) -> Mapping[str, Any]:
        """Return a saved workflow as JSON, the current version unless another is asked for.

        Raises:
            PflowError: Kind `not_found`, with the nearest name; or its file is corrupt.
        """
        ...

    def describe(self, name: str) -> SavedWorkflow:
        """Return what is known of a saved workflow.

        Raises:
            PflowError: As for `get`.
        """
        ...

    def save(self, name: str, workflow: Mapping[str, Any], description: str = "") -> SavedWorkflow:
        """Save a workflow under a name; what was there before is kept as an older version.

        Raises:
            PflowError: Kind `usage` if the name does not do; or it cannot be written.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete a workflow with every version of it.

        Raises:
            PflowError: Kind `not_found`.
        """
        ...


class Traces(Protocol):
    """What earlier runs recorded."""

    def paths(self) -> Sequence[Path]:
        """Return the trace files, newest first."""
        ...

    def find(self, run: str = "latest") -> Path:
        """Return the trace of a run: by its id, the beginning of one, or `latest`.

        Raises:
            PflowError: Kind `not_found`: there is none, or several ids begin so.
        """
        ...

    def read(self, path: Path) -> Mapping[str, Any]:
        """Return what a trace file says: `run_id`, `success`, `error`, `inputs`, `steps` and more.

        Raises:
            PflowError: It cannot be read, or is no trace.
        """
        ...


class Run(Protocol):
    """One run of a workflow; a node reaches it as `shared["__run__"]`."""

    run_id: str
    workflow: Workflow
    host: Host
    artifacts_dir: Path
    """Where nodes put files that are too large or not text; made by whoever writes the first."""
    resources: dict[str, Any]
    """What plugins keep for the run, each under its own key."""
    cancelled: Callable[[], bool]

    def annotate(self, node_id: str, details: Mapping[str, Any]) -> None:
        """Add JSON values to the node's step in the trace."""
        ...

    def add_secrets(self, values: Iterable[str]) -> None:
        """Have these values redacted from trace, logs and errors of this run."""
        ...


class Host(Protocol):
    """The handle on pflow core that every hook is given."""

    api: tuple[int, int]
    features: frozenset[str]
    """What this host offers of `FEATURES`. What one of them names is there in whole; the rest may be
    missing, so a plugin asks here before it uses it."""
    paths: Paths

    @property
    def hook(self) -> pluggy.HookRelay:
        """The plugin manager's hooks, for plugins that specify hooks of their own."""
        ...

    @property
    def registry(self) -> Registry:
        """Every node type."""
        ...

    @property
    def runner(self) -> Runner:
        """What checks and runs workflows."""
        ...

    @property
    def settings(self) -> Settings:
        """What the user keeps with pflow."""
        ...

    @property
    def library(self) -> Library:
        """Saved workflows."""
        ...

    @property
    def traces(self) -> Traces:
        """What earlier runs recorded."""
        ...

    def report(self, problem: Problem) -> None:
        """Show a warning to the user, once for each text."""
        ...

    def refresh(self, source: str) -> None:
        """Make anew what was derived from a node source, such as an index; its entries have changed."""
        ...
