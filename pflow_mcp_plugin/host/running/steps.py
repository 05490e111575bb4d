"""One recorded step of a run: a node, or all items of its batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.running.attempts import Attempts, Prepare, Result, argument_types, failed
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.run_errors import node_failure
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore, Values
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.constructs import Retry
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.workflow_document import split_route

if TYPE_CHECKING:  # few runs have batches, or reuse results
    from pflow_mcp_plugin.host.running.batch import Engine
    from pflow_mcp_plugin.host.running.result_reuse import ResultReuse


@attrs.frozen(eq=False, repr=False)
class Steps:
    """Performs and records the steps of one run.

    Attributes:
        run: The run.
        values: The inputs, and what nodes have written so far.
        engine: Opens the executor that runs the items of parallel batches; daemon threads by default.
        reuse: The results of earlier runs, if any node may use them.
    """

    run: CurrentRun
    values: Values
    engine: Engine | None = None
    reuse: ResultReuse | None = None

    @property
    def attempts(self) -> Attempts:
        """What each step of the run calls to run its node, once or for each item."""
        return Attempts(self.run, self.values)

    def perform(self, planned: PlannedNode, prepare: Prepare) -> Result:
        """Perform a step: run a node, once or for each item; an exception it raises becomes a failure."""
        self.run.check()
        step = self.run.recorder.begin(planned.ref)
        self.run.progress.begin(planned.ref.id)
        store = self._store(planned)
        step.params = planned.ref.params  # as written, in case a template cannot be resolved
        reuse = self.reuse.of(planned) if self.reuse and planned.ttl is not None else None
        if reuse is not None:
            prepare = reuse.through(prepare)
        step.error = "interrupted"  # kept only if a KeyboardInterrupt skips the lines below
        try:
            if (settled := self._unless_wanted(planned, store)) is not None:
                result = settled
            elif planned.constructs.batch is None:
                note = partial(setattr, step, "params")
                retry = planned.constructs.retry or Retry()
                result = self.attempts.perform(planned, prepare, store, retry, note)
            else:
                from pflow_mcp_plugin.host.running.batch import run_batch

                batch = planned.constructs.batch
                result = run_batch(self.attempts, planned, batch, prepare, store, self.engine)
            step.error = said(result.failure.__cause__ or result.failure) if result.failure else None
            if planned.constructs.batch and result.failure:  # it names the item
                step.error = str(store.written["error"])
            step.action = None if result.skipped else result.action
            if result.skipped:
                step.details["skipped"] = {"when": planned.constructs.when and planned.constructs.when.text}
                self.values.skipped.add(planned.id)
            else:
                self.values.skipped.discard(planned.id)
            if result.failure and (details := self._shown(result.failure)):
                step.details["failure"] = details
            if result.retries:
                step.details["retries"] = result.retries
        finally:
            if reuse is not None and reuse.noted:
                step.details["cache"] = reuse.noted
            self.values.note(planned.id, store.written)
            step.outputs = store.written
            self.run.recorder.end(step)
        self.run.check()
        self.run.progress.end(planned.ref.id)
        return result

    def route(self, planned: PlannedNode, result: Result) -> str:
        """Return the route of the edge that follows a step: its action, and the condition that holds.

        Edges with a condition are tried in order, before the one without.

        Raises:
            PflowError: A condition cannot be evaluated.
        """
        for route in planned.successors:
            action, when = split_route(route)
            if when and action == result.action and self._holds(planned, when):
                self.run.annotate(planned.ref.id, {"edge": {"to": planned.successors[route], "when": when}})
                return route
        return result.action

    def _holds(self, planned: PlannedNode, when: str) -> bool:
        from pflow_mcp_plugin.host.workflow.expressions import is_true

        try:
            return is_true(self.attempts.evaluate(when))
        except PflowError as error:
            raise node_failure(planned.ref, error, " at the condition of an edge") from error

    def _unless_wanted(self, planned: PlannedNode, store: NodeAwareSharedStore) -> Result | None:
        """Return the result of a node whose condition is false, or fails; None if the node is to run."""
        condition = planned.constructs.when
        if condition is None:
            return None
        from pflow_mcp_plugin.host.workflow.expressions import is_true

        try:
            value = self.attempts.evaluate(condition.text)
        except PflowError as error:
            return failed(planned, node_failure(planned.ref, error), store)
        return None if is_true(value) else Result("default", skipped=True)

    def _shown(self, failure: PflowError) -> Any:
        shown = cast("dict[str, Any]", failure.to_dict()["details"])
        known = ("node", "node_type", "problems")
        details = {key: value for key, value in shown.items() if key not in known}
        return self.run.recorder.excerpt(details)

    def _store(self, planned: PlannedNode) -> NodeAwareSharedStore:
        return NodeAwareSharedStore(
            self.values.root,
            planned.mapping.inputs,
            planned.mapping.outputs,
            namespaced=self.values.document.namespaced,
            before=self.values.written.get(planned.id, {}),
            lookup=self.values.find,
            fit=argument_types(planned.ref.entry),
        )
