"""A run that failed or was killed, opened to resume it: the decisions about its steps, and its inputs.

The command line, the server and Python programs share it.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import attrs

from pflow_mcp_plugin.contract import Decision, PflowError, RunOptions
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.running.earlier_steps import ASK
from pflow_mcp_plugin.host.running.recorded_run import decisions, named_steps
from pflow_mcp_plugin.host.running.result_key import folder_now
from pflow_mcp_plugin.host.running.run_record import (
    UNDECIDED,
    RecordedStep,
    RunRecord,
    State,
    damaged,
    records,
    remove_record,
    summary_of,
)
from pflow_mcp_plugin.host.workflow import WorkflowPlace
from pflow_mcp_plugin.storage import StoreError
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

_STATES: Mapping[str, State] = {
    "done": "done",
    "not done": "not sent",
    "rerun": "not sent",
    "skip": "skipped",
    "forget": "forgotten",
    "answer": "done",
}
"""The state of a step after each decision."""
_SETTLED = ("done", "forgotten")
_HEAD = {
    "name": str,
    "workflow": dict,
    "file": str,
    "folder": str,
    "inputs": dict,
    "options": dict,
    "owner": str,
}
"""What a record says of its run as a whole."""


@attrs.define(eq=False, repr=False)
class EarlierRun:
    """A run to resume: its head, its steps, and its record, which nobody else can use meanwhile."""

    record: RunRecord
    head: Mapping[str, Any]
    steps: Sequence[RecordedStep]
    only_failed: bool = False  # when it goes on, the failed items of its batches run again
    _decided: list[tuple[RecordedStep, Mapping[str, Any] | None]] = attrs.field(factory=list, init=False)

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, run: str | None = None, owner: str | None = None) -> Iterator[Self]:
        """Open the run that `pflow resume` names, by default the last that did not end well.

        It must have been started by the `owner`, unless that is None. Raises if there is none, if it is going
        on, or if its record cannot be used.
        """
        record = _found(folder, run, owner)
        try:
            earlier = cls(record, record.head(), record.steps())
            earlier._check_head()
            if owner not in (None, earlier.head["owner"]):
                raise _unknown(run or "")
        except PflowError:
            record.close()
            raise
        try:
            yield earlier
        finally:
            earlier.record.close()

    @property
    def run_id(self) -> str:
        return self.record.path.stem

    @property
    def place(self) -> WorkflowPlace:
        """Where the resumed workflow was: other workflows that it runs are looked up from there."""
        file = self.head["file"]
        return WorkflowPlace(name=self.head["name"], file=Path(file) if file else None)

    @property
    def workflow(self) -> JSONObject:
        """The workflow to resume, with the content of the files that it named."""
        workflow: JSONObject = self.head["workflow"]
        return workflow

    @property
    def options(self) -> RunOptions:
        return RunOptions(**self.head["options"])

    def begin(self, kept: Container[str]) -> RunRecord:
        """Record what was decided; return the record: from now on, the run counts as going on.

        The results given for nodes other than those whose ids are `kept` stay out of its file.
        """
        self.record.changes()
        if self.record.path.parent.name == "ended":  # records there are removed after some days
            self.record.close_in("open")
            self.record = RunRecord.open(self.record.path)
        for step, outputs in self._decided:
            if step.state == "forgotten":
                self.record.change([step], "forgotten")
            else:
                self.record.ended(step, outputs if step.node in kept else None)
                self.record.given[step.number] = outputs
        return self.record

    @property
    def undecided(self) -> list[RecordedStep]:
        return [step for step in self.steps if step.undecided]

    def require_folder(self) -> None:
        """Refuse to resume in a folder other than the run's: relative paths in params would be wrong."""
        folder = self.head["folder"]
        now = folder_now()
        if folder and Path(folder).is_dir() and not (now and Path(folder).samefile(now)):
            raise PflowError(
                f"Run {self.run_id} was started in another folder, to which paths in its params are relative",
                suggestions=(f"Resume it with: pflow resume {self.run_id}", f"Or start in {folder}"),
                kind="usage",
            )

    def _check_head(self) -> None:
        wrong = [name for name, kind in _HEAD.items() if not isinstance(self.head.get(name), kind)]
        if not wrong:
            try:
                _ = self.options
            except (TypeError, ValueError, PflowError):
                wrong = ["options"]
        if wrong:
            raise damaged(self.record.path, f"it has no valid {wrong[0]}")

    def refusal(self) -> PflowError | None:
        """Return why the run cannot be resumed yet: nobody has decided about some steps. None if it can."""
        if not (left := self.undecided):
            return None
        return PflowError(
            f"Nobody knows whether these steps happened: {named_steps(left)}",
            details={"run_id": self.run_id, "undecided": [step.to_dict() for step in left]},
            suggestions=decisions(self.run_id, left),
            ran="unknown",
        )

    def question(self) -> PflowError | None:
        """Return the question that must be answered before the run resumes; None if there is none."""
        asked = next((step for step in self.steps if step.state == "asked"), None)
        if asked is None:
            return None
        question = self.head.get("error") or f"{asked.place} asks"
        return PflowError(
            f"The run waits for the user's answer: {question}",
            details={"run_id": self.run_id, "step": asked.place, "question": question},
            suggestions=(f"Let the user answer: pflow resume {self.run_id}",),
            ran="not ran",
        )

    def inputs(self, workflow: JSONObject) -> dict[str, Any]:
        """Return those inputs of the earlier run that a workflow declares; secret ones were not kept."""
        declared = workflow.get("inputs")
        names = declared if isinstance(declared, dict) else {}
        return {name: value for name, value in self.head["inputs"].items() if name in names}

    def decide(self, decisions: Iterable[tuple[str, Decision]]) -> None:
        """Decide about steps of a run before it is resumed; nothing is recorded until it is.

        Each step is named by its place or by its node. If a name matches none, that is an error, and nothing
        is decided.
        """
        made = [(str(name), it) for name, it in decisions]
        names = {name for name, _ in made}
        found = [(step, it) for name, it in made for step in self._named(name, it, names - {name})]
        for number, (step, decision) in enumerate(found):
            if any(step is other and decision != it for other, it in found[:number]):
                raise PflowError(
                    f"There are two decisions about {step.place}",
                    suggestions=("Decide once about each step",),
                    kind="usage",
                )
        outputs = [_outputs(step, it) for step, it in found]
        for (step, decision), written in zip(found, outputs, strict=True):
            state = _STATES[decision.choice]
            if decision.choice == "rerun":
                step.key, step.reruns = "", step.reruns + 1
            if state == "forgotten":  # it has no counterpart; if it comes after all, it is not done again
                if step.state not in ("done", *UNDECIDED):
                    continue
                state = "skipped"
                if step.state == "done":
                    with suppress(PflowError):  # its result could not be recorded
                        self.record.outputs(step)
                        state = "forgotten"
            if state != "forgotten":
                step.action, step.error = "default", ""
            step.state = state
            self._decided.append((step, written))

    def _named(self, name: str, decision: Decision, others: Container[str]) -> list[RecordedStep]:
        """Return the steps that a decision is about: the one at a place, or all applicable ones of a node.

        Of a loop's node, the first pass has the node's id as its place. If another pass is open, and the
        `others` that are decided about do not name it, that is meant.
        """
        if not isinstance(decision, Decision):  # of a Python program
            message = f"What is decided about {name} is a {type(decision).__name__}, not a decision"
            steps = ("Pass done(RESULT), NOT_DONE or answer(VALUE)",)
            raise PflowError(message, suggestions=steps, kind="usage")
        wants_open = decision.choice not in ("rerun", "forget")
        of_place = [step for step in self.steps if step.place == name]
        of_node = [step for step in self.steps if step.node == name]
        # Only "rerun" repeats a step that was done; but its result may be lost, and can be given.
        free = [step for step in of_place if step.state not in _SETTLED or step.state == decision.choice]
        found = free if wants_open else of_place
        still_open = [step for step in of_node if step.is_open and step.place not in others]
        if wants_open and not any(step.is_open for step in found):
            found = still_open or found
        found = found or ([] if wants_open else of_node)
        if decision.choice == "answer":
            asked = [step for step in of_place if step.state == "asked"]
            found = asked or [step for step in of_node if step.state == "asked"]
        if found:
            return found
        known = [] if of_place or of_node else [step.place for step in self.steps]  # it is one of them
        hint = did_you_mean(name, known, f"See: pflow resume {self.run_id} --dry-run")
        what = "has no open step" if of_node else "is done" if of_place else "is no step of the run"
        what = "asks nothing" if decision.choice == "answer" and (of_node or of_place) else what
        message = f"{name} {what}, so nothing can be decided about it"
        raise PflowError(message, suggestions=(hint,), kind="usage")


def _found(folder: Path, run: str | None, owner: str | None) -> RunRecord:
    while True:
        path = _path(folder, run, owner)
        try:
            return RunRecord.open(path)  # raises if it is damaged or going on: an older run may not be meant
        except StoreError:
            if path.exists():
                raise
            # Otherwise another process has resumed it meanwhile, which moves the record, or removed it.


def _path(folder: Path, run: str | None, owner: str | None) -> Path:
    found = records(folder)
    if run is not None:
        named = next((path for path in found if path.stem == run), None)
        if named is not None:
            return named
        hint = did_you_mean(run, [path.stem for path in found], "See: pflow resume --list")
        raise _unknown(run, *([hint] if owner is None else []))
    for path in found:
        if _summary(path)["state"] != "ended":
            return path
    step = "See: pflow resume --list" if found else "No run has left a record; see: pflow trace list"
    raise PflowError("There is no run to resume", suggestions=(step,), kind="not_found")


def abandoned(folder: Path, run: str) -> None:
    """Give up resuming a run: remove its record, unless it is unusable; an empty one has nothing to lose."""
    path = next((path for path in records(folder) if path.stem == run), None)
    if path is None or path.is_symlink() or not path.is_file() or path.stat().st_size:
        with EarlierRun.opened(folder, run) as earlier:
            path = earlier.record.path
    remove_record(path)


def listed_runs(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a summary of each run that can be resumed, the newest first.

    Only records of runs that are going on or were killed are opened, the latter once.
    """
    for path in records(folder):
        yield {"run": path.stem, **_summary(path)}


def _summary(path: Path) -> dict[str, Any]:
    if (summary := summary_of(path)) is not None:
        return summary
    try:
        with closing(RunRecord.open(path)) as record:
            return record.summary()
    except PflowError as error:
        state = "going on" if error.kind == "usage" else error.message
        return {"workflow": "", "state": state, "done": 0, "open": []}


def _unknown(run: str, *hints: str) -> PflowError:
    named = run or '""'
    why = "it succeeded, had done nothing to keep when it failed, its record was removed, or it never existed"
    again = "If it failed with nothing done, run its workflow again"
    return PflowError(
        f"There is no run {named} to resume: {why}", suggestions=(*hints, again), kind="not_found"
    )


def _outputs(step: RecordedStep, decision: Decision) -> dict[str, Any] | None:
    """Return the outputs that a decision gives a step: its result or answer; None if it gives none.

    The result of a step that asks is its answer, or has it as `answer`.
    """
    value = decision.result
    if step.type == ASK and decision.choice in ("answer", "done"):
        value = value.get("answer") if isinstance(value, dict) else value
        params = json.loads(step.shown)
        choices = params.get("choices") if isinstance(params, dict) else None
        known = [*map(str, choices)] if isinstance(choices, list) else []
        if not isinstance(value, str) or (known and value not in known):
            words = f"Answer one of: {', '.join(known)}" if known else "Answer with a string"
            hint = did_you_mean(str(value), known, words)
            raise PflowError(f"{value} is no answer to {step.place}", suggestions=(hint,), kind="usage")
        return {"answer": value, "error": None}
    if decision.choice != "done":
        return None
    natural = (
        {key: it for key, it in value.items() if not key.startswith("__")} if isinstance(value, dict) else {}
    )
    return {**natural, "result": value, "error": None}
