"""What a run tells its user: what it shows meanwhile, its report, and the errors that stop it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.contract import EXIT_CODES, NodeRef, Outcome, PflowError, Problem, Report
from pflow_mcp_plugin.host.running.trace_recorder import RunWatcher, Step
from pflow_mcp_plugin.host.standard_streams import is_terminal, printed
from pflow_mcp_plugin.host.workflow.constructs import IF_SKIPPED
from pflow_mcp_plugin.host.workflow.findings import listing, said
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.terminal.looks import abbreviated

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.running.current_run import CurrentRun
    from pflow_mcp_plugin.host.running.terminal_display import Detail


_LAST_DONE = 5
"""The maximum number of completed nodes that the message names."""
_NAMED = 5
"""The maximum number of failed items of a batch, or of handled failures, that a warning names."""


def node_skipped(template: str, user: str, node_id: str) -> PflowError:
    """Return the error in the report of a run in which something needs a value of a skipped node."""
    message = f"{user} needs {template}, but node {node_id} was skipped"
    return PflowError(message, details={"template": template, "skipped": node_id}, suggestions=(IF_SKIPPED,))


def node_failure(node: NodeRef, error: BaseException, where: str = "") -> PflowError:
    """Return the error that tells the user which node failed and why; `where` names the item of its batch."""
    named = node.id if node.id == node.type else f"{node.id} ({node.type})"
    message = f"Node {named} failed{where}: {said(error)}"
    known = error if isinstance(error, PflowError) else PflowError("")
    failure = PflowError(
        message,
        kind=known.kind,
        details={"node": node.id, "node_type": node.type, **known.details},
        suggestions=known.suggestions,
        problems=known.problems,
        action=known.action,
        ran=known.ran,
        retryable=known.retryable,
        retry_after=known.retry_after,
    )
    failure.__cause__ = error
    return failure


def with_done(error: PflowError, done: Sequence[NodeRef]) -> PflowError:
    """Add to a run's error the nodes that succeeded before it, and return it."""
    if done and "loop" not in error.details:  # an endless loop names its nodes itself
        last = ", ".join(f"{node.id} ({node.type})" for node in done[-_LAST_DONE:])
        some = f"{len(done):,} nodes, last " if len(done) > _LAST_DONE else ""
        error.message = f"{error.message}\nDone before it: {some}{last}"
        error.args = (error.message,)
        error.details["done"] = [node.id for node in done]
    return error


def redacted(error: PflowError, redactor: Redactor) -> PflowError:
    """Return the error of a run as it is shown to its user, with secrets redacted everywhere."""
    error.message = redactor.text(error.message)
    error.args = (error.message,)
    error.details = redactor.value(error.details)
    error.suggestions = tuple(redactor.text(step) for step in error.suggestions)
    error.problems = tuple(
        attrs.evolve(
            problem,
            message=redactor.text(problem.message),
            path=redactor.text(problem.path),
            suggestion=redactor.text(problem.suggestion),
            source=redactor.text(problem.source),
        )
        for problem in error.problems
    )
    return error


def endless(history: Sequence[str], bound: int) -> PflowError:
    """Report that a run was stopped after `bound` steps: return the error, which names the loop."""
    last = history[-1]
    before = [index for index, node_id in enumerate(history[:-1]) if node_id == last]
    loop = list(history[before[-1] :]) if before else []
    where = f" in the loop {' -> '.join(loop)}" if loop else ""
    return PflowError(
        f"The run was stopped after {bound:,} steps{where}",
        details={"steps": bound, "loop": loop[:-1]},
        suggestions=("End the loop with an action that leaves it",),
    )


def failed_items(steps: Sequence[Step], run_id: str) -> Iterator[Problem]:
    """Yield what a run's report warns of: each batch that went on although some items failed.

    `run_id` is the id of the run if it has a trace, else empty.
    """
    for name, batch in dict(_partly_failed(steps, "")).items():  # the latest, where a batch ran several times
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


def must_succeed(run: CurrentRun) -> PflowError | None:
    """Report the failed items of a run in which all must succeed: return the error, None if none failed."""
    if not run.failed_items:
        return None
    named = [f"{place} ({failed:,} of {count:,})" for place, failed, count in run.failed_items]
    failed = sum(failed for _, failed, _ in run.failed_items)
    return PflowError(
        f"{failed:,} item{'' if failed == 1 else 's'} of batches failed: {listing(named, _NAMED)}",
        details={"failed": failed, "batches": [place for place, _, _ in run.failed_items]},
        suggestions=again(run),
    )


def again(run: CurrentRun) -> tuple[str, ...]:
    """Return what a run's report suggests if items failed: to resume it; nothing if it is not recorded."""
    is_kept = run.record is not None and run.record.kept
    return (f"To run the failed items again: pflow resume {run.run_id} --only-failed",) if is_kept else ()


def handled_failures(steps: Sequence[Step]) -> Iterator[Problem]:
    """Yield a warning in one line about the steps whose failure an edge handled, in a run that succeeded."""
    lost = {step.node.id: step.error for step in steps if step.error is not None}
    named = [f"{name} ({abbreviated(' '.join(error.split()), 200)})" for name, error in lost.items()]
    if named:
        message = f"Failed, and handled by an edge: {listing(named, _NAMED)}"
        yield Problem(message=message, severity="warning", kind="execution")


def _partly_failed(steps: Sequence[Step], items: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the counts of each batch that failed only in part, by its name in the trace.

    `items` are the indexes in the batches around these steps, such as `[0][2]`.
    """
    for step in steps:
        batch = step.details.get("batch")
        if isinstance(batch, Mapping) and step.error is None and batch["failed"]:
            yield f"{step.node.id}{items}", batch
        yield from _partly_failed(step.steps, items)
        for index, item in step.items.items():
            yield from _partly_failed(item.steps, f"{items}[{index}]")


Around = Callable[[Callable[[], AbstractContextManager[None]]], AbstractContextManager[None]]
"""Makes the host write what it reports meanwhile inside the given context."""


@contextmanager
def shown_run(
    names: Sequence[str], detail: Detail | None, around: Around
) -> Iterator[tuple[RunWatcher, Callable[[Outcome], None]]]:
    """Report to the user how a run goes and ends: on a terminal, or elsewhere in plain lines if `verbose`.

    Yields what watches the run, and what to call with its outcome. `detail` is None for nothing, and
    `around` coordinates warnings with what is shown.
    """
    terminal = is_terminal(sys.stderr)
    asks = terminal and is_terminal(sys.stdin)
    if detail is None or not (terminal or detail == "verbose") or sys.stderr is None:
        watcher = RunWatcher()
        watcher.asks = asks
        yield watcher, lambda _: None
        return
    from pflow_mcp_plugin.host.running.terminal_display import TerminalDisplay

    display = TerminalDisplay(sys.stderr, names, detail, terminal=terminal)
    display.asks = asks

    def ended(outcome: Outcome) -> None:
        display.close()
        error = outcome.error
        if error is not None:  # its report names the trace itself
            display.summarize("interrupted" if error.kind == "interrupted" else "failed", "")
            return
        trace, home = outcome.trace_path, Path.home()
        at_home = trace.relative_to(home) if trace and trace.is_relative_to(home) else None
        display.summarize("succeeded", f"~/{at_home}" if at_home else str(trace or ""))

    with around(display.paused):
        display.start()
        try:
            yield display, ended
        finally:
            display.close()


def outcome_report(outcome: Outcome) -> Report:
    """Return what `pflow run` reports of an outcome."""
    return Report(
        data={"outputs": dict(outcome.outputs), "run_id": outcome.run_id},
        text=lambda: outputs_text(outcome),
        is_data=True,
        error=outcome.error,
        beside={
            "trace_path": None if outcome.trace_path is None else str(outcome.trace_path),
            **({} if outcome.error is None else {"checkpoint": dict(outcome.checkpoint)}),
        },
        exit_code=outcome.exit_code,
    )


def outputs_text(outcome: Outcome) -> str:
    """Return the outputs in a run's report as text; a single one without its name, for use in scripts."""
    if len(outcome.outputs) == 1:
        return printed(*outcome.outputs.values())
    if outcome.outputs:
        return "\n".join(f"{name}: {printed(value)}" for name, value in outcome.outputs.items())
    return f"Done, {outcome.steps} steps" if outcome.success else ""


UNDECIDED_CODE = 4
"""The exit code of a run that the user has to decide about."""


def interrupted(run: CurrentRun) -> PflowError:
    """Report that a run was interrupted, and where: cancel it and return the error."""
    run.cancel()
    steps = run.recorder.steps
    details: dict[str, Any] = {"steps": len(steps)}
    where = " before its first node"
    if steps:
        last = steps[-1]
        while last.steps:
            last = last.steps[-1]
        where = f" at node {last.node.id}"
        if batch := last.details.get("batch"):
            details |= {key: batch[key] for key in ("count", "succeeded", "failed")}
            where += f", {batch['succeeded']} of {batch['count']} items done"
    return PflowError(f"The run was interrupted{where}", details=details, kind="interrupted")


def exit_code_of(error: PflowError | None, steps: Sequence[Step], *, is_open: bool) -> int:
    """Return the exit code to report for a run, from its error, its steps, and whether any are left open."""
    if error is None:
        return 0
    if is_open and error.kind != "interrupted":
        return UNDECIDED_CODE
    # Scripts rely on it: after 2 and 3, no node and no item of a batch had run.
    is_first = error.kind == "interrupted" or not _has_run(steps)
    return EXIT_CODES[error.kind if is_first else "execution"]


def _has_run(steps: Sequence[Step]) -> bool:
    """Return whether a failed run did anything else to report: other steps, or items of the failed one."""
    if len(steps) != 1:
        return bool(steps)
    if steps[0].steps:
        return _has_run(steps[0].steps)
    batch = steps[0].details.get("batch")
    return steps[0].error is None or bool(isinstance(batch, Mapping) and batch.get("succeeded"))
