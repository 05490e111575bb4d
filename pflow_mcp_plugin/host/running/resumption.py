"""A run that failed or was killed, opened to go on with it: what is decided about its steps, and what it had.

The command line, what is served and programs in Python share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import attrs

from pflow_mcp_plugin.contract import Decision, PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.running.recorded_run import undecided
from pflow_mcp_plugin.host.running.run_record import RecordedStep, RunRecord, State, records
from pflow_mcp_plugin.host.workflow import WorkflowPlace
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

_STATES: Mapping[str, State] = {
    "done": "done",
    "not done": "not sent",
    "rerun": "not sent",
    "skip": "skipped",
    "forget": "forgotten",
}
"""The state of a step after each decision."""


@attrs.frozen(kw_only=True)
class Resumed:
    """A run that is resumed, by its record; with `only_failed`, the failed items of its batches run again."""

    record: RunRecord
    only_failed: bool = False


@attrs.frozen(eq=False, repr=False)
class EarlierRun:
    """What is left of a run: its record, which nobody else can use meanwhile, with its head and its steps."""

    record: RunRecord
    head: Mapping[str, Any]
    steps: Sequence[RecordedStep]

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, run: str = "") -> Iterator[Self]:
        """Open a run in the folder of records, by default the last one that did not end well.

        Raises:
            PflowError: There is none, it is going on, or its record cannot be used.
        """
        record = _found(folder, run)
        try:
            yield cls(record, record.head(), record.steps())
        finally:
            record.close()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.record.path.stem

    @property
    def place(self) -> WorkflowPlace:
        """Where its workflow was, so where those that it runs are looked up."""
        file = self.head["file"]
        return WorkflowPlace(name=self.head["name"], file=Path(file) if file else None)

    @property
    def undecided(self) -> list[RecordedStep]:
        """The steps that somebody has to decide about before the run goes on."""
        return [step for step in self.steps if step.undecided]

    def refusal(self) -> PflowError | None:
        """Return why the run cannot go on yet; None if nothing is undecided."""
        return undecided(self.run_id, left) if (left := self.undecided) else None

    def inputs(self, workflow: JSONObject) -> dict[str, Any]:
        """Return the inputs that the run had and a workflow declares; secret ones are not kept."""
        declared = workflow.get("inputs")
        names = declared if isinstance(declared, dict) else {}
        return {name: value for name, value in self.head["inputs"].items() if name in names}

    def decide(self, decisions: Iterable[tuple[str, Decision]], *, trying: bool = False) -> None:
        """Record decisions about steps, each named by its place or by its node; only `trying` keeps none.

        Raises:
            PflowError: One of them names no such step; nothing is recorded.
        """
        found = [(step, it) for name, it in decisions for step in self._named(name, it)]
        for step, decision in found:
            state = _STATES[decision.choice]
            if decision.choice == "rerun":
                step.key, step.reruns = "", step.reruns + 1
            if trying:
                step.state = state
            else:
                outputs = _outputs(decision.result) if decision.choice == "done" else None
                self.record.decide(step, state, outputs)

    def _named(self, name: str, decision: Decision) -> list[RecordedStep]:
        """Return the step of a place, or all open steps of a node, or all its steps for what was done."""
        if found := [step for step in self.steps if step.place == name]:
            return found
        of_node = [step for step in self.steps if step.node == name]
        wants_open = decision.choice not in ("rerun", "forget")
        if found := [step for step in of_node if step.undecided or not wants_open]:
            return found
        hint = did_you_mean(
            name, [step.place for step in self.steps], f"See: pflow resume {self.run_id} --dry-run"
        )
        what = "has no open step" if of_node else "is no step of the run"
        message = f"{name} {what}, so nothing can be decided about it"
        raise PflowError(message, suggestions=(hint,), kind="usage")


def _found(folder: Path, run: str) -> RunRecord:
    """Open the record of a run, by default of the last one that did not end well."""
    found = records(folder)
    if run:
        named = next((path for path in found if path.stem == run), None)
        if named is not None:
            return RunRecord.open(named)
        hint = did_you_mean(run, [path.stem for path in found], "See: pflow resume --list")
        message = f"There is no run {run} to resume: it succeeded, its record was removed, or it never was"
        raise PflowError(message, suggestions=(hint,), kind="not_found")
    for path in found:
        with suppress(PflowError):  # it is going on, or cannot be read
            record = RunRecord.open(path)
            if record.head().get("error") != "":
                return record
            record.close()
    step = "See: pflow resume --list" if found else "Every run has ended well, or left nothing to resume"
    raise PflowError("There is no run to resume", suggestions=(step,), kind="not_found")


def _outputs(value: Any) -> dict[str, Any]:
    """Return what a node writes whose result is known to be this."""
    natural = (
        {key: it for key, it in value.items() if not key.startswith("__")} if isinstance(value, dict) else {}
    )
    return {**natural, "result": value, "error": None}
