"""One recorded step of a run: a node, or all items of its batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.running.attempts import Attempts, Prepare, Result, argument_types
from pflow_mcp_plugin.host.running.batch import Engine, run_batch
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.run_values import Values
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.findings import said

if TYPE_CHECKING:  # few runs reuse results
    from pflow_mcp_plugin.host.running.result_reuse import ResultReuse


@attrs.frozen(eq=False, repr=False)
class Steps:
    """Performs and records the steps of one run.

    Attributes:
        run: The run.
        values: The inputs, and what nodes have written so far.
        engine: Opens the executor that runs the items of parallel batches.
        reuse: The results of earlier runs, if any node may use them.
    """

    run: CurrentRun
    values: Values
    engine: Engine
    reuse: ResultReuse | None = None

    @property
    def attempts(self) -> Attempts:
        """What each step of the run calls to run its node, once or for each item."""
        return Attempts(self.run, self.values)

    def perform(self, planned: PlannedNode, prepare: Prepare) -> Result:
        """Perform a step: run a node, once or for each item; an exception it raises becomes a failure.

        Args:
            planned: The node.
            prepare: Builds the real node.
        """
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
            if planned.batch is None:
                note = partial(setattr, step, "params")
                result = self.attempts.perform(planned, prepare, store, planned.retry, note)
            else:
                result = run_batch(self.attempts, planned, planned.batch, prepare, store, self.engine)
            step.error = said(result.failure.__cause__ or result.failure) if result.failure else None
            step.action = result.action
            if result.failure and (details := self._shown(result.failure)):
                step.details["failure"] = details
            if result.retries:
                step.details["retries"] = result.retries
        finally:
            if reuse is not None and reuse.noted:
                step.details["cache"] = reuse.noted
            self.values.written[planned.ref.id] = store.written
            step.outputs = store.written
            self.run.recorder.end(step)
        self.run.check()
        self.run.progress.end(planned.ref.id)
        return result

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
            before=self.values.written.get(planned.ref.id, {}),
            lookup=self.values.find,
            fit=argument_types(planned.ref.entry),
        )
