"""What stops a run, told to the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from pflow_mcp_plugin.contract import EXIT_CODES, Kind, NodeRef, PflowError, Problem
from pflow_mcp_plugin.host.workflow.coercion import described
from pflow_mcp_plugin.host.workflow.templates import MissingValue
from pflow_mcp_plugin.redaction import Redactor

_LAST_DONE = 5
"""So many of the nodes that were done are named to people."""


class RunFailed(PflowError):
    """A run ended without a node being at fault."""


class NodeUnloadable(PflowError):
    """The class of a node cannot be imported or made."""

    kind: ClassVar[Kind] = "config"


class ValueUnavailable(PflowError):
    """A template of a node or output names something that is not there."""

    def __init__(self, template: str, user: str, missing: MissingValue) -> None:
        message = f"{user} needs {template}, but {missing}"
        details = {"template": template, "available": list(missing.available)}
        super().__init__(message, details=details)


class InputNotGiven(PflowError):
    """A template names an optional input that the run was not given."""

    def __init__(self, template: str, user: str, name: str) -> None:
        message = f"{user} needs {template}, but the run was not given the input {name}"
        step = f"Pass {name}=..., or give the input a default"
        super().__init__(message, details={"template": template, "input": name}, suggestions=(step,))


class BatchUnusable(PflowError):
    """What a batch is to run over is no list."""

    def __init__(self, items: object) -> None:
        super().__init__(f"batch.items must be a list, got {described(items)}")


class NodeFailed(PflowError):
    """A node failed; kind, details and suggestions are those of its own error, which is the cause."""

    def __reduce__(self) -> tuple[object, ...]:
        if type(self) is NodeFailed:
            return super().__reduce__()
        return _blank_of, (self.kind, self.args), self.__dict__  # its class has no name of its own


# `kind` belongs to the class: that of the tree of errors a host's user may catch.
_OF_KIND: Mapping[Kind, type[NodeFailed]] = {
    kind: type("NodeFailed", (NodeFailed,), {"kind": kind, "__doc__": NodeFailed.__doc__})
    for kind in EXIT_CODES
}


def _blank_of(kind: Kind, args: tuple[object, ...]) -> NodeFailed:
    """Return the failure of a kind, without its fields."""
    return _OF_KIND[kind].__new__(_OF_KIND[kind], *args)


def node_failure(node: NodeRef, error: BaseException, where: str = "") -> NodeFailed:
    """Return the error that tells which node failed, at which item of its batch, and how."""
    message = f"Node {node.id} ({node.type}) failed{where}: {said(error)}"
    details: dict[str, object] = {"node": node.id, "node_type": node.type}
    if not isinstance(error, PflowError):
        failure = NodeFailed(message, details=details)
        failure.__cause__ = error
        return failure
    failure = _OF_KIND[error.kind](
        message,
        details={**details, **error.details},
        suggestions=error.suggestions,
        problems=error.problems,
    )
    failure.action = error.action
    failure.__cause__ = error
    return failure


def with_done(error: PflowError, done: Sequence[NodeRef]) -> PflowError:
    """Say in the error of a run which nodes ended well before it; return it."""
    if done and not isinstance(error, RunFailed):  # a loop without end names its nodes itself
        last = ", ".join(f"{node.id} ({node.type})" for node in done[-_LAST_DONE:])
        some = f"{len(done):,} nodes, the last of them " if len(done) > _LAST_DONE else ""
        error.message = f"{error.message}\nDone before it: {some}{last}"
        error.args = (error.message,)
        error.details["done"] = [node.id for node in done]
    return error


def said(error: BaseException) -> str:
    """Return an exception's own words, with its class where they alone would say too little."""
    if isinstance(error, PflowError):
        return error.message
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def redacted(error: PflowError, redactor: Redactor) -> PflowError:
    """Take the run's secrets out of everything an error shows, and return it."""
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


def endless(history: Sequence[str], bound: int) -> RunFailed:
    """Return the error for a run that took `bound` steps; names the loop it is in."""
    last = history[-1]
    before = [index for index, node_id in enumerate(history[:-1]) if node_id == last]
    loop = list(history[before[-1] :]) if before else []
    where = f" in the loop {' -> '.join(loop)}" if loop else ""
    return RunFailed(
        f"The run was stopped after {bound:,} steps{where}",
        details={"steps": bound, "loop": loop[:-1]},
        suggestions=("Make the loop end by an action that leaves it",),
    )
