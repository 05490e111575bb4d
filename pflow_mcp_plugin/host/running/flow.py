"""The workflow as a pocketflow `Flow`, its recorded steps, and another workflow that runs in it as a node.

This imports pocketflow.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import attrs
import pocketflow

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.running.attempts import Attempts, Result, failed
from pflow_mcp_plugin.host.running.run_report import endless, node_failure
from pflow_mcp_plugin.host.running.shared_store import BatchOutputs, NodeAwareSharedStore, Values
from pflow_mcp_plugin.host.running.trace_recorder import Step
from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode, load_node
from pflow_mcp_plugin.host.workflow.constructs import Retry
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.templates import named, with_strings
from pflow_mcp_plugin.host.workflow.workflow_document import (
    OutputSpec,
    bind_inputs,
    secret_values,
    split_route,
)
from pflow_mcp_plugin.host.workflow.workflow_reads import expression_params, own_type

MOST_STEPS = 1_000
STEPS_PER_NODE = 10
_PACKAGE = __name__.partition(".")[0]


class StepNode(pocketflow.BaseNode):
    """A node of any class as a node of the pocketflow flow: one step, which is recorded.

    pocketflow's `Flow` overwrites the params of each node with its own before the node runs. It does
    so to this object's params; the real node gets the compiled ones. `around` is the step that runs the
    workflow of this one, if any.
    """

    def __init__(self, planned: PlannedNode, attempts: Attempts, around: StepNode | None = None) -> None:
        super().__init__()
        self.planned = planned
        self.attempts = attempts
        self.result: Result | None = None
        self.around = around
        self._node = SubRun(self) if planned.sub else load_node(planned.ref)

    def following(self) -> Iterator[tuple[PlannedNode, set[str], Attempts]]:
        """Yield the nodes to which the pocketflow `Flow` may go next, also past those that only compute.

        If the workflow may end before, they include those after the step that runs the workflow. Each comes
        with the ids of the nodes in its workflow that lead there, and the attempts of that workflow.
        """
        leading, found = [self], dict[StepNode, None]()
        for step in leading:
            for node in step.successors.values():
                if node not in found and expression_params(node.planned.ref.entry):
                    leading.append(node)
                found[node] = None
            if step.around and step.around not in leading and "default" not in step.successors:
                leading.append(step.around)
        for node in found:
            before = {it.planned.id for it in leading if it.attempts is node.attempts}
            yield node.planned, before, node.attempts

    def _run(self, shared: MutableMapping[str, Any]) -> str:
        """Run the node in the flow, once or for each item; an exception that it raises becomes a failure."""
        planned, attempts = self.planned, self.attempts
        run, values, batch = attempts.run, attempts.values, planned.constructs.batch
        run.check()
        step = run.recorder.begin(planned.ref)
        run.progress.begin(planned.ref.id)
        store = attempts.store(
            planned,
            output_mappings=planned.mapping.outputs,
            namespaced=values.document.namespaced,
            before=values.written.get(planned.id, {}),
        )
        step.params = planned.ref.params  # as written, in case a template cannot be resolved
        reuse = attempts.reuse.of(planned) if attempts.reuse and planned.ttl is not None else None
        prepare = self._prepared if reuse is None else reuse.through(self._prepared)
        step.error = "interrupted"  # stays so only if a KeyboardInterrupt skips the lines below
        try:
            result = self._unless_wanted(store)
            if result is None and batch is not None:
                from pflow_mcp_plugin.host.running.batch import run_batch

                result = run_batch(attempts, planned, batch, prepare, store)
            elif result is None:
                retry, note = planned.constructs.retry or Retry(), partial(setattr, step, "params")
                if own_type(planned.ref.entry) == "ask":
                    from pflow_mcp_plugin.host.running.question import with_question

                    planned = with_question(planned, self.following(), attempts.run)
                result = attempts.perform(planned, prepare, store, retry, note)
            self._record(step, result, store)
        except PflowError as refusal:
            step.error = said(refusal)
            raise
        finally:
            if reuse is not None and reuse.noted:
                step.details["cache"] = reuse.noted
            values.note(planned.id, store.written)
            step.outputs = planned.constructs.traced(store.written)
            run.recorder.end(step)
        run.check()
        run.progress.end(planned.ref.id)
        self.result = result
        return self._route(result)

    def _prepared(self, params: Mapping[str, object]) -> Callable[[NodeAwareSharedStore], object]:
        step = self.attempts.run.current_step()
        if step is not None and step.planned is not self.planned:
            step = None
        if step is not None:
            step.call()
        # A copy for each execution, as pocketflow makes one itself: no state is left over from the last one.
        node = copy.copy(self._node)
        if isinstance(node, pocketflow.Node):
            # One attempt: `attempts` decides whether a retry is safe. With 0, pocketflow never calls `exec`.
            node.max_retries = 1
        own = dict(params)
        if type(node).__module__.partition(".")[0] != _PACKAGE:
            # What a template gives belongs to the shared store, and a node may change its params in place.
            with suppress(RecursionError):  # what contains itself is passed as it is
                own = with_strings(own, lambda text: text)
        node.set_params(own)
        run: Callable[[NodeAwareSharedStore], object]
        if isinstance(node, pocketflow.AsyncNode):
            from pflow_mcp_plugin.daemon_threads import to_its_end

            run = lambda store: to_its_end(lambda: node._run_async(store))  # noqa: E731, SLF001  # as its flows do
        else:
            run = node._run if isinstance(node, pocketflow.BaseNode) else node.run  # noqa: SLF001  # the same
        if step is None or self.planned.sub is not None or getattr(node, "announces_sending", False):
            return run

        def announced(store: NodeAwareSharedStore) -> object:
            step.sending()
            return run(store)

        return announced

    def _unless_wanted(self, store: NodeAwareSharedStore) -> Result | None:
        """Return the result of a node whose condition is false or fails; None if the flow is to run it."""
        condition = self.planned.constructs.when
        if condition is None:
            return None
        from pflow_mcp_plugin.host.workflow.expressions import is_true

        try:
            value = self.attempts.evaluate(condition.text)
        except PflowError as error:
            return failed(self.planned, node_failure(self.planned.ref, error), store)
        return None if is_true(value) else Result("default", skipped=True)

    def _record(self, step: Step, result: Result, store: NodeAwareSharedStore) -> None:
        planned, failure, skipped = self.planned, result.failure, self.attempts.values.skipped
        # The error of a batch names the item.
        step.error = str(store.written["error"]) if planned.constructs.batch and failure else result.reason
        step.action = None if result.skipped else result.action
        if result.skipped:
            step.details["skipped"] = {"when": planned.constructs.when and planned.constructs.when.text}
            skipped.add(planned.id)
        else:
            skipped.discard(planned.id)
        if failure:
            known = ("node", "node_type", "problems")
            shown = cast("dict[str, Any]", failure.to_dict()["details"])
            if details := {key: value for key, value in shown.items() if key not in known}:
                step.details["failure"] = self.attempts.run.recorder.excerpt(details)
        if result.retries:
            step.details["retries"] = result.retries
        if not (planned.constructs.keep or failure):
            written = store.written.get("results") if planned.constructs.batch else store.written
            with foreign_code(partial(node_failure, planned.ref)):  # nodes may write any objects
                self.attempts.run.conceal([written])

    def _route(self, result: Result) -> str:
        """Return the route by which the flow leaves the step: its action, and the edge condition that holds.

        Edges with a condition are tried in order, before the one without.
        """
        planned = self.planned
        routes = [(route, *split_route(route)) for route in planned.successors]
        if any(when for _, _, when in routes):
            from pflow_mcp_plugin.host.workflow.expressions import is_true
        for route, action, when in routes:
            if not when or action != result.action:
                continue
            try:
                holds = is_true(self.attempts.evaluate(when))
            except PflowError as error:
                raise node_failure(planned.ref, error, " at the condition of an edge") from error
            if holds:
                edge = {"to": planned.successors[route], "when": when}
                self.attempts.run.annotate(planned.ref.id, {"edge": edge})
                return route
        return result.action


class RoutedFlow(pocketflow.Flow):
    """The pocketflow flow: goes from node to node by their actions, at most `bound` steps.

    `history` are the ids of the nodes that have run and were left by an edge or at the end.
    """

    def __init__(self, start: StepNode, bound: int) -> None:
        super().__init__(start=start)
        self._bound = bound
        self.history: list[str] = []

    def get_next_node(self, curr: StepNode, action: str | None) -> StepNode | None:
        # pocketflow only warns about an action without an edge; a failure must not pass silently.
        following: StepNode | None = curr.successors.get(action or "default")
        if following is None and curr.result and curr.result.failure:
            raise curr.result.failure
        self.history.append(curr.planned.ref.id)
        if following is not None and len(self.history) >= self._bound:
            raise endless([*self.history, following.planned.ref.id], self._bound)
        return following


def build_flow(compiled: Compiled, attempts: Attempts, around: StepNode | None = None) -> RoutedFlow:
    """Return the pocketflow `Flow` that runs a compiled workflow; imports the node classes.

    `around` is the step that runs the workflow, if any. The flow may take `MOST_STEPS` steps, or
    `STEPS_PER_NODE` for each of its nodes if that is more.
    """
    nodes = {planned.id: StepNode(planned, attempts, around) for planned in compiled.nodes}
    for node in nodes.values():
        for action, target in node.planned.successors.items():
            node.next(nodes[target], action)
    _announce(compiled, attempts)
    # A flow may loop on purpose, so only a limit on its steps detects an endless loop.
    bound = max(MOST_STEPS, STEPS_PER_NODE * len(compiled.nodes))
    return RoutedFlow(nodes[compiled.graph.start], bound)


def _announce(compiled: Compiled, attempts: Attempts) -> None:
    # A resumed run must know what the nodes are to do, or one could be given the result of another.
    record, document = attempts.run.record, compiled.document
    writes = not document.namespaced or any(node.mapping.outputs for node in compiled.nodes)
    if record is None or not record.earlier.known or document.permissive or writes:
        return
    for planned in compiled.nodes:
        entry, is_batch = planned.ref.entry, planned.constructs.batch
        # A question depends on the steps that follow, and what a mapping reads may still change.
        if planned.sub or is_batch or planned.mapping.inputs or own_type(entry) == "ask":
            continue
        record.earlier.announce(f"{attempts.run.above}{planned.id}", attempts.identity(planned))


@attrs.define(eq=False, repr=False)
class SubRun:
    """A node of the pocketflow `Flow` that runs a workflow: on its own store, with the run's servers."""

    _step: StepNode | None = None
    _params: Mapping[str, Any] = attrs.field(init=False, factory=dict)

    def set_params(self, params: Mapping[str, Any]) -> None:
        self._params = params

    def run(self, store: MutableMapping[str, Any]) -> str:
        around = self._step
        if around is None or (planned := around.planned).sub is None:
            raise PflowError("The node workflow can only run as a part of a workflow", ran="not ran")
        expected = 0 if planned.constructs.repeats else planned.sub.size
        run = store["__run__"].inside(planned.ref.id, expected)
        given = {key: value for key, value in self._params.items() if not is_reserved(key)}
        for name in planned.sub.document.inputs:
            if name not in given and name in store:
                given[name] = store[name]
        given, problems = bind_inputs(planned.sub.document, given)
        if problems:
            mistakes = "; ".join(problem.message for problem in problems)
            raise PflowError(
                f"workflow {planned.sub.name}: {mistakes}",
                suggestions=tuple(dict.fromkeys(it.suggestion for it in problems if it.suggestion)),
                problems=tuple(problems),
                ran="not ran",
            )
        if secrets := secret_values(planned.sub.document, given):
            run.add_secrets(secrets)
        values = Values(planned.sub.document, {**given, "__run__": run})
        inner = Attempts(run, values, reuse=around.attempts.reuse)
        flow = build_flow(planned.sub, inner, around)
        try:
            flow.run(values.root)
            outputs = collect_outputs(inner)
        except PflowError as error:
            done = set(flow.history)
            nodes = [node.ref for node in planned.sub.nodes if node.ref.id in done]
            if any(ref.entry.purity != "flow_safe" for ref in nodes):
                # A retry of the whole would repeat what they did.
                error.retryable = False
                error.ran = "ran" if error.ran == "not ran" else error.ran
            raise
        store["error"] = None
        store.update({key: value for key, value in outputs.items() if not is_reserved(key)})
        return "default"


def collect_outputs(attempts: Attempts) -> dict[str, object]:
    """Return the outputs of a pocketflow flow that ran: the declared ones, else what its last node wrote.

    A declared output is None when it names a node that the run did not reach, or recovered from, or an
    optional input that was not given. If a node ran and did not write what an output names, that is an error.
    """
    values, found = attempts.values, dict[str, object]()
    for name, output in values.document.outputs.items():
        if any(values.is_absent(part) for part in named(output.source)):
            found[name] = None
            continue
        with foreign_code(partial(_unreadable, output), passing=(PflowError,)):  # nodes may write any objects
            found[name] = attempts.resolve(output.source, f"output {output.name}")
    if found:
        return found
    ran = (it for it in reversed(values.written.items()) if it[0] not in values.skipped)
    last, written = next(ran, ("", {}))
    written = written.loaded() if isinstance(written, BatchOutputs) else written
    nodes = values.document.nodes
    left_out = next((node.constructs.repeated_outputs for node in nodes if node.id == last), frozenset())
    return {
        key: value
        for key, value in written.items()
        if key not in left_out and not (key == "error" and value is None)
    }


def _unreadable(output: OutputSpec, error: BaseException) -> PflowError:
    return PflowError(f"output {output.name} ({output.source}) cannot be read: {said(error)}")
