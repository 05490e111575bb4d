"""The errors that stop a run, and the failed items after which it went on, worded for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

import attrs

from pflow_mcp_plugin.contract import NodeRef, PflowError, Problem
from pflow_mcp_plugin.host.running.trace_recorder import Step
from pflow_mcp_plugin.host.workflow.constructs import IF_SKIPPED
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.templates import MissingValue
from pflow_mcp_plugin.redaction import Redactor

_LAST_DONE = 5
"""How many of the completed nodes the message names."""
_NAMED = 5
"""How many failed items of a batch a warning names."""


def value_unavailable(template: str, user: str, missing: MissingValue) -> PflowError:
    """Return the error of a run in which the template of a node or output has no value."""
    message = f"{user} needs {template}, but {missing}"
    return PflowError(message, details={"template": template, "available": list(missing.available)})


def input_not_given(template: str, user: str, name: str) -> PflowError:
    """Return the error of a run whose template names an optional input that was not given."""
    message = f"{user} needs {template}, but the run was not given the input {name}"
    step = f"Pass {name}=..., or give the input a default"
    return PflowError(message, details={"template": template, "input": name}, suggestions=(step,))


def node_skipped(template: str, user: str, node_id: str) -> PflowError:
    """Return the error of a run in which something needs a value of a skipped node."""
    message = f"{user} needs {template}, but node {node_id} was skipped"
    return PflowError(message, details={"template": template, "skipped": node_id}, suggestions=(IF_SKIPPED,))


def node_failure(node: NodeRef, error: BaseException, where: str = "") -> PflowError:
    """Return the error of a run that says which node failed, at which item of its batch, and why.

    Args:
        node: The node.
        error: Why it failed.
        where: The item of its batch, in words that follow `failed`.
    """
    named = node.id if node.id == node.type else f"{node.id} ({node.type})"
    message = f"Node {named} failed{where}: {said(error)}"
    details: dict[str, object] = {"node": node.id, "node_type": node.type}
    if not isinstance(error, PflowError):
        failure = PflowError(message, details=details)
        failure.__cause__ = error
        return failure
    failure = PflowError(
        message,
        kind=error.kind,
        details={**details, **error.details},
        suggestions=error.suggestions,
        problems=error.problems,
        action=error.action,
        ran=error.ran,
        retryable=error.retryable,
        retry_after=error.retry_after,
    )
    failure.__cause__ = error
    return failure


def with_done(error: PflowError, done: Sequence[NodeRef]) -> PflowError:
    """Return the error of a run with the nodes added that succeeded before it."""
    if done and "loop" not in error.details:  # an endless loop names its nodes itself
        last = ", ".join(f"{node.id} ({node.type})" for node in done[-_LAST_DONE:])
        some = f"{len(done):,} nodes, last " if len(done) > _LAST_DONE else ""
        error.message = f"{error.message}\nDone before it: {some}{last}"
        error.args = (error.message,)
        error.details["done"] = [node.id for node in done]
    return error


def redacted(error: PflowError, redactor: Redactor) -> PflowError:
    """Return the error of a run with its secrets redacted in everything it shows."""
    error.message = redactor.text(error.message)
    error.args = (error.message,)
    error.details = redactor.value(error.details)
    error.suggestions = tuple(redactor.text(step) for step in error.suggestions)
    error.problems = tuple(_redacted_problem(problem, redactor) for problem in error.problems)
    return error


def _redacted_problem(problem: Problem, redactor: Redactor) -> Problem:
    return attrs.evolve(
        problem,
        message=redactor.text(problem.message),
        path=redactor.text(problem.path),
        suggestion=redactor.text(problem.suggestion),
        source=redactor.text(problem.source),
    )


def endless(history: Sequence[str], bound: int) -> PflowError:
    """Return the error of a run that was stopped after `bound` steps; names the loop it is in."""
    last = history[-1]
    before = [index for index, node_id in enumerate(history[:-1]) if node_id == last]
    loop = list(history[before[-1] :]) if before else []
    where = f" in the loop {' -> '.join(loop)}" if loop else ""
    return PflowError(
        f"The run was stopped after {bound:,} steps{where}",
        details={"steps": bound, "loop": loop[:-1]},
        suggestions=("Make the loop end by an action that leaves it",),
    )


def failed_items(steps: Sequence[Step], run_id: str) -> Iterator[Problem]:
    """Yield a warning for each batch of a run that went on although some of its items failed.

    Args:
        steps: The recorded steps of the run.
        run_id: The run, if it has a trace; else empty.
    """
    found = {name: batch for name, batch in _partly_failed(steps, "") if batch["failed"]}
    for name, batch in found.items():  # the latest, where a batch ran several times
        errors = [it for it in batch.get("errors", ()) if isinstance(it, Mapping) and "index" in it]
        named = [f"{name}[{it['index']}]" for it in errors[:_NAMED]]
        more = batch["failed"] - len(named)
        items = f"{', '.join(named)}{f' and {more:,} more' if more else ''}"
        step = f"See: pflow trace show {run_id} --step {quote(named[0])}" if run_id and named else ""
        yield Problem(
            message=f"{name}: {batch['failed']:,} of {batch['count']:,} items failed: {items}",
            suggestion=step,
            severity="warning",
            kind="execution",
        )


def _partly_failed(steps: Sequence[Step], items: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the counts of each batch that did not fail as a whole, by its name in the trace.

    Args:
        steps: Steps that follow one another.
        items: The indexes of the items of the batches around them: `[0][2]`.
    """
    for step in steps:
        batch = step.details.get("batch")
        if isinstance(batch, Mapping) and step.error is None:
            yield f"{step.node.id}{items}", batch
        yield from _partly_failed(step.steps, items)
        for index, item in step.items.items():
            yield from _partly_failed(item.steps, f"{items}[{index}]")
