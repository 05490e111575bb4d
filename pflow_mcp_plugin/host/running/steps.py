"""One execution of one node: params in, action out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Field, NodeRef, PflowError
from pflow_mcp_plugin.host.running.failures import NodeFailed, RunFailed, ValueUnavailable, node_failure, said
from pflow_mcp_plugin.host.running.run import CurrentRun
from pflow_mcp_plugin.host.running.store import NodeAwareSharedStore
from pflow_mcp_plugin.host.running.trace import Step
from pflow_mcp_plugin.host.running.values import Values
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.templates import MissingValue, Reference, resolve

Execute = Callable[[Mapping[str, Any], NodeAwareSharedStore], object]
"""Runs a node with params and a store and returns its action."""


@attrs.frozen
class Result:
    """How an execution ended.

    Attributes:
        action: What the flow routes by; for a failure that no edge takes, what the node meant.
        failure: Set when the node failed, whether an edge takes it or not.
    """

    action: str
    failure: NodeFailed | None = None


class BadParameter(PflowError):
    """A parameter does not fit its declared type, and cannot be made to."""


@attrs.frozen(eq=False, repr=False)
class Steps:
    """Performs the steps of one run."""

    run: CurrentRun
    values: Values

    def perform(self, planned: PlannedNode, execute: Execute) -> Result:
        """Run a node once; whatever it raises becomes a failure.

        Args:
            planned: The node.
            execute: Runs the real node.
        """
        step = self.run.recorder.begin(planned.ref)
        store = self._store(planned)
        self.values.root.pop("__error__", None)
        step.error = "interrupted"  # stands only if nothing below gets to say otherwise
        try:
            result = self._attempt(planned, execute, store, step)
            step.error = said(result.failure.__cause__ or result.failure) if result.failure else None
            step.action = result.action
        finally:
            self.values.written[planned.ref.id] = store.written
            step.outputs = store.written
            self.run.recorder.end(step)
        return result

    def _store(self, planned: PlannedNode) -> NodeAwareSharedStore:
        return NodeAwareSharedStore(
            self.values.root,
            planned.mapping.inputs,
            planned.mapping.outputs,
            namespaced=self.values.document.namespaced,
            before=self.values.written.get(planned.ref.id),
            lookup=self.values.find,
        )

    def _attempt(
        self, planned: PlannedNode, execute: Execute, store: NodeAwareSharedStore, step: Step
    ) -> Result:
        node = planned.ref
        step.params = node.params  # as written, should a template lead nowhere
        try:
            step.params = params = self.params(node)
            action = execute({**params, **planned.special, "__node_id__": node.id}, store)
            return self._returned(planned, _checked_action(action), store)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # nodes are anyone's code: theirs to raise
            store["error"] = said(error)
            failure = node_failure(node, error)
            failure.__cause__ = error
            return Result(_routed(planned, failure.action), failure)

    def _returned(self, planned: PlannedNode, action: str, store: NodeAwareSharedStore) -> Result:
        told = store.written.get("error")
        if action == "default" or (told is None and action != "error"):
            return Result(action)
        left = self.values.root.pop("__error__", None)
        cause = left if isinstance(left, Exception) else RunFailed(_words(told))
        failure = node_failure(planned.ref, cause)
        failure.__cause__ = cause
        return Result(_routed(planned, action), failure)

    def params(self, node: NodeRef) -> dict[str, Any]:
        """Return a node's params with templates resolved, in their declared types.

        Raises:
            PflowError: A template names nothing, or a value does not fit; names node and parameter.
        """
        fields = {field.key: field for field in node.entry.interface.params}
        given = {key: value for key, value in node.params.items() if not self.values.is_left_out(value)}
        resolved = {key: self.resolve(value, f"parameter {key}") for key, value in given.items()}
        return {key: _coerced(value, fields.get(key)) for key, value in resolved.items()}

    def resolve(self, value: Any, user: str) -> Any:
        """Return a value with its templates resolved; `user` says in errors what needs them."""

        def lookup(reference: Reference) -> Any:
            try:
                return self.values.lookup(reference)
            except MissingValue as missing:
                if self.values.document.permissive:
                    raise
                raise ValueUnavailable(reference.text, user, missing) from missing

        return resolve(value, lookup, keep_missing=self.values.document.permissive)


def _coerced(value: Any, field: Field | None) -> Any:
    if field is None:
        return value
    try:
        return coerce(value, field)
    except TypeMismatch as error:
        details = {"parameter": field.key, "expected": error.expected, "given": error.given}
        raise BadParameter(
            f"parameter {field.key} must be {error.expected}, got {error.given}", details=details
        ) from error


def _checked_action(action: object) -> str:
    if action is None:
        return "default"
    if isinstance(action, str):
        return action or "default"
    raise RunFailed(f"its action must be a text, it returned {type(action).__name__}")


def _routed(planned: PlannedNode, action: str) -> str:
    """Return the action a failure takes: its own if an edge has it, else `error` if an edge has that."""
    if action in planned.successors or "error" not in planned.successors:
        return action
    return "error"


def _words(told: object) -> str:
    return "it took its error action and gave no reason" if told is None else str(told)
