"""Attempts to run a node: resolve its params, run it, and retry where that is safe.

A node is attempted once. Where the workflow asks for more (`retry` of a node, `max_retries` of a
batch), a failure is retried only if that does no harm:

- the error is `retryable`: the work was not started, or the other side asks to retry later; or
- the node's entry is `flow_safe`: running it twice does no harm (unless a retry never helps);

and never when it is unknown whether the work was done (`PflowError.ran` is `unknown`). With an idempotency
key, any failure may be retried: the other side does the work once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.contract import Field, PflowError
from pflow_mcp_plugin.host.foreign_code import end_if_interrupted, foreign_code
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.run_report import node_failure, node_skipped
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore, Prepare, Values
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, passed_on
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.constructs import IF_NOT_RUN, LONGEST_WAIT, Retry
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.shell_lines import bind_line, is_shell_line
from pflow_mcp_plugin.host.workflow.templates import (
    IN_CODE,
    Absent,
    Lookup,
    MissingValue,
    TemplateReference,
    in_code,
    lone,
    resolve,
)
from pflow_mcp_plugin.host.workflow.workflow_reads import EVALUATE, READS, expression_params, own_type
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.running.result_reuse import ResultReuse
    from pflow_mcp_plugin.host.running.run_record import RecordedStep


@attrs.frozen
class Result:
    """How the attempts at a node ended.

    The flow routes by `action`; for a failure that no edge handles, it is the node's own. `failure` is set if
    the node failed, whether or not an edge handles it. A node is `skipped` if its condition is false.
    """

    action: str
    failure: PflowError | None = None
    retries: int = 0
    skipped: bool = False

    @property
    def reason(self) -> str | None:
        return said(self.failure.__cause__ or self.failure) if self.failure else None


@attrs.frozen(eq=False, repr=False)
class Attempts:
    """Makes the attempts at nodes, on the values of one run or of one item of a batch.

    `reuse` has the results of earlier runs, if any node may use them.
    """

    run: CurrentRun
    values: Values
    item: int | None = None
    reuse: ResultReuse | None = None

    def perform(
        self,
        planned: PlannedNode,
        prepare: Prepare,
        store: NodeAwareSharedStore,
        retry: Retry,
        note: Callable[[Mapping[str, object]], None],
    ) -> Result:
        """Attempt to run a node, and retry where that is safe; an exception that it raises is a failure."""
        try:
            params = self.params(planned, store)
        except PflowError as error:
            return failed(planned, error, store)
        note(params)
        given = {**params, **planned.ref.injected, "__node_id__": planned.ref.id}
        if own_type(planned.ref.entry) == "shell":
            given[READS] = planned.use.reads
        record = self.run.record
        if expression_params(planned.ref.entry):
            # Its params only name the values that its result depends on, and it costs nothing: it runs again.
            given[EVALUATE], record = self.evaluate, None
        known = {**params, **planned.ref.injected}
        run = self.run
        begin = record and partial(record.step, items=run.items, goes_on=run.goes_on, soon=run.is_parallel)
        entered = begin(planned, known, store, run.above, self.item) if begin else None
        with entered or nullcontext() as step:
            if step is not None and (earlier := step.replayed(store)) is not None:
                return _of_earlier(planned, earlier)
            failing = partial(node_failure, planned.ref)
            pauses, retries = _waits(retry), 0
            while True:
                # The exception of an earlier failure must not be reported as the cause of this attempt's.
                self.values.root.pop("__error__", None)
                try:
                    with foreign_code(failing):
                        result = self._returned(planned, prepare(given)(store), store)
                except PflowError as error:
                    result = failed(planned, error, store)
                if result.failure is not None:
                    self.run.check()  # it failed because it was stopped: nobody knows how far it got
                if step is not None:
                    step.ended(result.action, result.failure, result.reason, store)
                pause = next(pauses, None)
                has_key = step is not None and step.recorded.key != ""
                if pause is None or not _may_retry(planned, result.failure, has_key=has_key):
                    return attrs.evolve(result, retries=retries) if retries else result
                # The failure may ask for a longer wait, of at most an hour.
                wanted = result.failure.retry_after if result.failure else None
                self.run.pause(max(pause, min(wanted or 0.0, LONGEST_WAIT)))
                store.take_back()
                retries += 1

    def _returned(self, planned: PlannedNode, returned: object, store: NodeAwareSharedStore) -> Result:
        if returned is not None and not isinstance(returned, str):
            raise PflowError(f"its action must be a string, it returned {type(returned).__name__}")
        action = returned or "default"
        if not store.has_failed(action):
            known = {"default", *planned.ref.entry.interface.actions, *planned.routed}
            if action in known or own_type(planned.ref.entry) == "branch":  # its actions are its cases
                return Result(action)
            step = did_you_mean(
                action, known, "Add an edge for it, or name it in Interface.actions of the entry"
            )
            message = f"it returned the action {action}, which it does not declare and no edge takes"
            raise PflowError(message, suggestions=(step,))
        reported = store.written.get("error")
        left = self.values.root.pop("__error__", None)
        words = "it returned its error action without a reason" if reported is None else str(reported)
        cause = left if isinstance(left, BaseException) else PflowError(words)
        end_if_interrupted(cause)
        return _failure(planned, action, node_failure(planned.ref, cause))

    def params(self, planned: PlannedNode, store: NodeAwareSharedStore) -> dict[str, object]:
        """Return the params for an attempt to run a node: templates resolved, in their declared types.

        A param that consists of an optional input without a value, or of an output of a skipped node, is left
        out, unless the node requires the param and the store has no value for it. An error names node and
        parameter.
        """
        entry = planned.ref.entry
        fields, unresolved = entry.interface.fields, expression_params(entry)
        params: dict[str, object] = {}
        with foreign_code(partial(node_failure, planned.ref)):  # the values may be objects of other nodes
            for key, value in planned.ref.params.items():
                field = fields.get(key)
                is_needed = field is not None and field.required and key not in store
                user = f"parameter {key}"
                if key in unresolved:
                    params[key] = _coerced(value, field)
                elif field is not None and field.source_code:
                    params[key] = _coerced(resolve(value, _refuse_in_code), field)
                elif not is_needed and self.values.is_left_out(value):
                    continue
                elif is_shell_line(value, field):
                    params[key] = bind_line(value, self._lookup(user))
                else:
                    resolved = self.resolve(value, user)
                    try:
                        params[key] = _coerced(resolved, field)
                    except PflowError:
                        reference = lone(value)
                        if reference is None or not self.values.is_skipped(reference):
                            raise
                        raise node_skipped(reference.text, user, reference.root) from None
        return params

    def store(self, planned: PlannedNode, **options: Any) -> NodeAwareSharedStore:
        """For an attempt to run a node, return the shared store, with what it reads in its declared types.

        A value that does not fit is returned unchanged; the node decides what to do with it. `options` are
        those of the store.
        """
        fields, values = planned.ref.entry.interface.fields, self.values

        def fit(key: str, value: object) -> object:
            try:
                return passed_on(value, fields[key]) if key in fields else value
            except TypeMismatch:
                return value

        inputs = planned.mapping.inputs
        return NodeAwareSharedStore(values.root, inputs, lookup=values.find, fit=fit, **options)

    def identity(self, planned: PlannedNode) -> str:
        """Return the identity of the step if an attempt at the node were made now; empty if not known."""
        record, store = self.run.record, self.store(planned)
        if record is None:
            return ""
        try:
            params = self.params(planned, store)
        except PflowError:  # it needs the outputs of other nodes, or fails when its turn comes
            return ""
        return record.identity(planned, {**params, **planned.ref.injected}, store, self.run.items)

    def resolve(self, value: object, user: str) -> Any:
        """Resolve a value's templates before an attempt; errors say that `user` needs what is missing."""
        return resolve(value, self._lookup(user))

    def evaluate(self, text: str, *current: Any) -> Any:
        """Evaluate an expression for an attempt, on all values of the run, or on `current`."""
        from pflow_mcp_plugin.host.workflow.expressions import Secrets, parsed

        redactor = self.run.redactor
        secrets = Secrets(lambda: redactor.known, redactor.text, self.run.add_derived)
        everything = self.values.everything(text)
        return parsed(text).value(
            everything, *(current or (everything,)), secrets=secrets, now=self.run.began
        )

    def _lookup(self, user: str) -> Lookup:
        def lookup(reference: TemplateReference) -> Any:
            if self.values.is_skipped(reference):
                return Absent(node_skipped(reference.text, user, reference.root))
            try:
                return self.values.lookup(reference)
            except MissingValue as missing:
                if self.values.document.permissive:  # the template is left as text
                    return reference.text
                name, template, why = reference.root, reference.text, str(missing)
                steps: tuple[str, ...] = ()
                details: dict[str, object] = {"template": template, "available": list(missing.available)}
                if name in self.values.document.inputs and name not in self.values.root:
                    why = f"the run was not given the input {name}"
                    details = {"template": template, "input": name}
                    steps = (f"Pass {name}=..., or give the input a default",)
                elif not missing.reached and any(node.id == name for node in self.values.document.nodes):
                    why, steps = f"node {name} has not run", (IF_NOT_RUN,)
                message = f"{user} needs {template}, but {why}"
                raise PflowError(message, details=details, suggestions=steps) from missing

        return lookup


def _refuse_in_code(reference: TemplateReference) -> Any:
    raise PflowError(in_code(reference.text), suggestions=(IN_CODE,))


def _may_retry(planned: PlannedNode, failure: PflowError | None, *, has_key: bool) -> bool:
    if failure is None or (failure.ran == "unknown" and not has_key):
        return False
    entry = planned.ref.entry
    return has_key or failure.retryable or (entry.purity == "flow_safe" and entry.retryable)


def _of_earlier(planned: PlannedNode, earlier: RecordedStep) -> Result:
    if earlier.state == "failed":
        cause = PflowError(earlier.error, action=earlier.action, ran="ran")
        return Result(earlier.action, node_failure(planned.ref, cause))
    return Result(earlier.action or "default", skipped=earlier.state == "skipped")


def failed(planned: PlannedNode, failure: PflowError, store: NodeAwareSharedStore) -> Result:
    """End failed attempts at a node: set its output `error` to the cause, and return the result."""
    result = _failure(planned, failure.action, failure)
    store["error"] = result.reason
    return result


def _failure(planned: PlannedNode, action: str, failure: PflowError) -> Result:
    # The failure's action chooses the edge, unless only `error` has one.
    only_error = action not in planned.routed and "error" in planned.routed
    return Result("error" if only_error else action, failure)


def _coerced(value: object, field: Field | None) -> object:
    if field is None:
        return value
    try:
        return passed_on(value, field)
    except TypeMismatch as error:
        details = {"parameter": field.key, "expected": error.expected, "given": error.given}
        raise PflowError(
            f"parameter {field.key} must be {error.expected}, got {error.given}", details=details
        ) from error


def _waits(retry: Retry) -> Iterator[float]:
    """Yield the seconds to wait before each retry that the workflow allows, at most an hour."""
    wait = retry.wait
    for _ in range(retry.max):
        yield min(wait, LONGEST_WAIT)
        wait *= retry.backoff
