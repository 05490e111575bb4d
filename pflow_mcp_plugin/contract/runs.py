"""A run of a workflow in any host, as plugins and nodes see it from inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.contract.entries import Entry
from pflow_mcp_plugin.contract.run_requests import THE_USER, RunOrigin
from pflow_mcp_plugin.contract.validators import each, is_a, items, text, valid_name

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.hosts import Host
    from pflow_mcp_plugin.contract.json_types import JSONObject
    from pflow_mcp_plugin.contract.problems import Problem


@attrs.frozen(kw_only=True, eq=False)
class NodeRef:
    """A node of the workflow that is run, as plugins see it from inside. It holds its host: no pickling.

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
    """The workflow that is run, as plugins see it from inside.

    Attributes:
        name: Its name or file, for messages.
        nodes: Every node.
        certain: Ids of the nodes that run if every node takes its default action, without those that the
            result of an earlier run may stand in for.
    """

    name: str = attrs.field(validator=text)
    nodes: tuple[NodeRef, ...] = attrs.field(converter=items, validator=each(NodeRef))
    certain: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True, eq=False)
class LockCheck:
    """A run that is about to begin, as plugins see it: all its nodes, to compare with a lock file.

    Attributes:
        host: The host.
        nodes: Every node of the workflow; what plugins inject is not yet in them.
        folder: The folder of the workflow's file, where a lock file may stand beside it; None for a workflow
            that has no file.
    """

    host: Host = attrs.field(repr=False)
    nodes: tuple[NodeRef, ...] = attrs.field(converter=items, validator=each(NodeRef))
    folder: Path | None = None


class RunStep:
    """A step of a run in any host, which may record its effects; by default, it records nothing.

    Attributes:
        run: What records it; steps with the same one can be recorded together.
    """

    run: object = None

    def sending(self, *others: RunStep) -> None:
        """Record that this step is about to act, before it does; blocks until that is on the disk.

        After a crash, a step that was recorded so and never ended is not run again until somebody has said
        whether it happened. So call it as late as possible, and again before each repetition.

        Args:
            others: Steps of the same run that are about to act, too: they share one wait for the disk.

        Raises:
            PflowError: It must not act, as that cannot be recorded.
        """
        return

    def idempotency_key(self) -> str:
        """Return the key that a plugin's node sends in its `idempotency_argument`; empty by default.

        It is recorded by `sending`, and is the same in each repetition, also after a crash and an edit of the
        workflow. It is the string that the node was given as its param, if there is one. A node that gets the
        empty string sends what it was given, or else a key that it makes itself.
        """
        return ""


class Run(ABC):
    """Base class of a run in any host, as plugins get it; a node reaches it as `shared["__run__"]`.

    Attributes:
        run_id: Unique; names the trace.
        workflow: The workflow that runs.
        host: The host it runs in.
        artifacts_dir: The folder for results that are not text or too large to be shown; created by
            whoever writes the first file.
        resources: Objects that plugins keep for the run, each under its own key. Under `network`, if it is
            there, is a function that returns the rules for the hosts that a node may connect to
            (`NetworkRules`).
        origin: Who asked for the run, and through what.
        locked: Whether the user asked that its nodes are as a lock file says; what a plugin learns only when
            it connects, it compares then.
    """

    run_id: str
    workflow: Workflow
    host: Host
    artifacts_dir: Path
    resources: dict[str, Any]
    origin: RunOrigin = THE_USER
    locked: bool = False

    @abstractmethod
    def add_secrets(self, values: Iterable[str]) -> None:
        """Let this run, in any host, redact these values from its trace, logs and errors."""

    def cancelled(self) -> bool:
        """Return whether the user has stopped this run, in any host; by default, False."""
        return False

    def on_cancel(self, stop: Callable[[], object]) -> None:
        """Call a plugin's `stop` when the run is cancelled from another thread; by default, never.

        Args:
            stop: Ends what a node or plugin is waiting for; must return at once and not raise. Called
                immediately if the run is already cancelled.
        """
        return

    def distinguish(self, node_id: str, state: Callable[[], str]) -> None:
        """Let a host reuse a node's result from an earlier run only if `state` returned the same then.

        Does nothing by default, as in a host that keeps no results.

        Args:
            node_id: The node.
            state: Returns what its results depend on besides its entry, params and inputs, such as a hash of
                the account that it uses. It is called only where results are kept, before the node would
                run. If it raises, the node runs, and its result is not kept.
        """
        return

    def current_step(self) -> RunStep | None:
        """Return the step of this run in which the calling node is, if its class sets `announces_sending`.

        Such a node calls `sending` itself, just before it acts; one of any other class is recorded as acting
        from its beginning. None, as by default, if nothing is recorded.
        """
        return None

    def warn(self, problem: Problem) -> None:
        """Report a warning about this run; a host may also add it to the run's outcome."""
        self.host.report(problem)

    def annotate(self, node_id: str, details: JSONObject) -> None:
        """Add a plugin's JSON values to a node's step in the trace of this run; does nothing by default."""
        return

    def name_file(self, value: str, file: Path) -> None:
        """Name the file behind a string that the host shows shortened in this run; does nothing by default.

        Args:
            value: The string, as it is among the outputs of a node.
            file: Holds what it stands for: its text, or what it encodes.
        """
        return

    def begin_preparation(self, label: str, node_ids: Iterable[str] = ()) -> Callable[[str], object]:
        """Tell the run, from inside, that something starts for which nodes wait, such as a program.

        Does nothing by default. A host that shows or records it keeps its time apart from that of the nodes.

        Args:
            label: What is prepared, in a few words: `database orders`.
            node_ids: The nodes that wait for it when they run meanwhile.

        Returns:
            The function to call once when it has ended, from any thread: with the empty string if it is
            ready, else with what went wrong.
        """
        return lambda _: None

    def report_progress(
        self, node_id: str, done: float, total: float | None = None, message: str = ""
    ) -> None:
        """Tell from inside a run how far one of its nodes has come; does nothing by default.

        Args:
            node_id: The node that runs.
            done: What it has done, in any unit.
            total: What it has to do in the same unit; None if unknown.
            message: What it does now, for people.
        """
        return
