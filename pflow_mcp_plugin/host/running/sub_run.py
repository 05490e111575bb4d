"""The node `workflow`: runs another workflow as a step of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.running.run_outputs import collect_outputs
from pflow_mcp_plugin.host.running.run_values import Values
from pflow_mcp_plugin.host.running.steps import Steps
from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode
from pflow_mcp_plugin.host.workflow.run_inputs import bind_inputs, secret_values


class Flow(Protocol):
    """The flow of a sub-run."""

    history: list[str]

    def run(self, shared: MutableMapping[str, Any]) -> object:
        """Run the flow on the root of a shared store."""


class SubRun:
    """Runs a workflow as a node: on a shared store of its own, with the servers of the run around it.

    Args:
        planned: The node.
        steps: Performs the steps of the workflow around it.
        build: Builds the flow of a plan from what performs its steps.
    """

    max_retries = 1
    """As of pocketflow's nodes: a run decides itself what it repeats."""

    def __init__(
        self,
        planned: PlannedNode | None = None,
        steps: Steps | None = None,
        build: Callable[[Compiled, Steps], Flow] | None = None,
    ) -> None:
        self._planned = planned
        self._steps = steps
        self._build = build
        self._params: Mapping[str, Any] = {}

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set the inputs of the sub-run that the workflow gives as params."""
        self._params = params

    def run(self, store: MutableMapping[str, Any]) -> str:
        """Run the workflow, write its outputs into the store of the node, and return `default`.

        Raises:
            PflowError: A step of it failed; says which.
        """
        planned, steps, build = self._planned, self._steps, self._build
        if planned is None or planned.sub is None or steps is None or build is None:
            raise PflowError("The node workflow can only run as a part of a workflow", ran="not ran")
        run = store["__run__"].inside(planned.ref.id, planned.sub.size, silent=planned.constructs.repeats)
        given = self._inputs(planned.sub, store)
        if secrets := secret_values(planned.sub.document, given):
            run.add_secrets(secrets)
        values = Values(planned.sub.document, {**given, "__run__": run})
        inner = Steps(run, values, steps.engine, steps.reuse)
        flow = build(planned.sub, inner)
        try:
            flow.run(values.root)
            outputs = collect_outputs(inner)
        except PflowError as error:
            _forbid_repetition(error, planned.sub, flow.history)
            raise
        store["error"] = None
        store.update({key: value for key, value in outputs.items() if not is_reserved(key)})
        return "default"

    def _inputs(self, plan: Compiled, store: Mapping[str, Any]) -> dict[str, object]:
        """Return the values that the sub-run begins with.

        Raises:
            PflowError: One is missing or of the wrong type.
        """
        given = {key: value for key, value in self._params.items() if not is_reserved(key)}
        for name in plan.document.inputs:
            if name not in given and name in store:
                given[name] = store[name]
        values, problems = bind_inputs(plan.document, given)
        if problems:
            said = "; ".join(problem.message for problem in problems)
            steps = tuple(dict.fromkeys(problem.suggestion for problem in problems if problem.suggestion))
            raise PflowError(
                f"workflow {plan.name}: {said}", suggestions=steps, problems=tuple(problems), ran="not ran"
            )
        return values


def _forbid_repetition(error: PflowError, plan: Compiled, history: Sequence[str]) -> None:
    """Let a failed sub-run not be retried as a whole if that would repeat what was done before."""
    done = set(history)
    if any(node.ref.id in done and node.ref.entry.purity != "flow_safe" for node in plan.nodes):
        error.retryable = False
        error.ran = "ran" if error.ran == "not ran" else error.ran
