"""Runs workflows from Python, and resumes runs that failed or were killed.

from pflow_mcp_plugin.workflows import NOT_DONE, done, resume, run_workflow
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import JSON, Decision, Outcome, PflowError, RunControl, RunOptions
from pflow_mcp_plugin.contract.run_requests import USUAL_OPTIONS
from pflow_mcp_plugin.host.embedded_host import open_host

__all__ = ["FORGET", "NOT_DONE", "RERUN", "SKIP", "answer", "done", "resume", "run_workflow"]

NOT_DONE = Decision(choice="not done")
"""The step did not happen: it is run."""
SKIP = Decision(choice="skip")
"""The step is left out, as if its condition were false."""
RERUN = Decision(choice="rerun")
"""The step was done, and is done again."""
FORGET = Decision(choice="forget")
"""The step was done, and nothing in the workflow does it any more."""


def done(result: JSON = None) -> Decision:
    """For a workflow that is resumed from Python: decide that a step happened, and had this result."""
    return Decision(choice="done", result=result)


def answer(value: str) -> Decision:
    """For a workflow that is resumed from Python: answer the node at which it stopped."""
    return Decision(choice="answer", result=value)


def run_workflow(
    workflow: str | Path | Mapping[str, Any],
    inputs: Mapping[str, object] | None = None,
    *,
    options: RunOptions = USUAL_OPTIONS,
    control: RunControl | None = None,
) -> Outcome:
    """Run a workflow from a Python program, as `pflow run` does, and return its outcome.

    Args:
        workflow: The name of a saved workflow, a file, or the workflow itself.
        inputs: Values by input name.
        options: What the options of `pflow run` set.
        control: Receives the run's progress, and can cancel it from another thread.

    Raises:
        PflowError: The workflow or its inputs are invalid, and nothing has run; or the run failed. Then
            `details` has its `run_id` for `resume`, and under `undecided` the steps whose outcome is unknown.
    """
    from pflow_mcp_plugin.host.cli.run_commands import find_workflow, place_of
    from pflow_mcp_plugin.host.workflow.workflow_text import locating

    _require_names("inputs", inputs)
    with open_host() as host:
        runner, name = host.runner.with_options(options), "workflow"
        if isinstance(workflow, Mapping):
            return _succeeded(runner.run(workflow, inputs or {}, name=name, control=control))
        name = str(workflow)
        place = place_of(host, name)
        with locating(place.file):
            document = find_workflow(host, name)
            return _succeeded(runner.at(place).run(document, inputs or {}, name=name, control=control))


def resume(
    run_id: str | None = None,
    inputs: Mapping[str, object] | None = None,
    *,
    decisions: Mapping[str, Decision] | None = None,
    options: RunOptions = USUAL_OPTIONS,
    control: RunControl | None = None,
) -> Outcome:
    """Resume from Python a run that failed or was killed, as `pflow resume` does; return its outcome.

    Args:
        run_id: The run to resume; by default, the last one that did not end well.
        inputs: Values by input name, which replace those that the run had; secret ones are not kept.
        decisions: `done(RESULT)`, `NOT_DONE`, `SKIP`, `RERUN`, `FORGET` or `answer(VALUE)` by step, as
            `pflow resume --list` names it.
        options: What the options of `pflow run` set; by default the run keeps its own.
        control: Receives the run's progress, and can cancel it from another thread.

    Raises:
        PflowError: As for `run_workflow`; or there is no such run, or it was started in another folder.
    """
    _require_names("inputs", inputs)
    _require_names("decisions", decisions)
    with open_host() as host:
        runner = host.runner.with_options(options)
        return _succeeded(runner.resume(run_id, inputs or {}, decisions=decisions, control=control))


def _require_names(what: str, given: object) -> None:
    if not isinstance(given, Mapping | None):
        message = f"The {what} must be a mapping from names to values, not {type(given).__name__}"
        raise PflowError(message, kind="usage")


def _succeeded(outcome: Outcome) -> Outcome:
    if outcome.error is not None:
        outcome.error.details["run_id"] = outcome.run_id
        raise outcome.error
    return outcome
