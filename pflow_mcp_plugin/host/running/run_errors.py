"""The errors that stop a run, worded for the user."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from pflow_mcp_plugin.contract import NodeRef, PflowError, Problem
from pflow_mcp_plugin.host.workflow.constructs import IF_SKIPPED
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.templates import MissingValue
from pflow_mcp_plugin.redaction import Redactor

_LAST_DONE = 5
"""How many of the completed nodes the message names."""


def value_unavailable(template: str, user: str, missing: MissingValue) -> PflowError:
    """Return the error of a run in which the template of a node or output has no value.

    Args:
        template: The template as written.
        user: What needs it, such as `parameter path`.
        missing: How far its path leads.
    """
    message = f"{user} needs {template}, but {missing}"
    return PflowError(message, details={"template": template, "available": list(missing.available)})


def input_not_given(template: str, user: str, name: str) -> PflowError:
    """Return the error of a run whose template names an optional input that was not given.

    Args:
        template: The template as written.
        user: What needs it, such as `parameter path`.
        name: The input.
    """
    message = f"{user} needs {template}, but the run was not given the input {name}"
    step = f"Pass {name}=..., or give the input a default"
    return PflowError(message, details={"template": template, "input": name}, suggestions=(step,))


def node_skipped(template: str, user: str, node_id: str) -> PflowError:
    """Return the error of a run in which something needs a value of a skipped node.

    Args:
        template: The template as written.
        user: What needs it, such as `parameter path`.
        node_id: The node that was skipped.
    """
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
