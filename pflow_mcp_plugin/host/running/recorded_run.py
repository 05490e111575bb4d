"""A run and its record: each step is recorded as it goes on, and answered if it was done before a crash.

A step of an earlier part of the run is matched by what it does, its `identity`, and by how often the same
was done before; where it stands in the workflow only decides between equals. So a workflow may be edited
before its run is resumed. A step that may do harm is not begun while a recorded one of the same type has no
counterpart that may still come: it could be the same, renamed or changed.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflow_mcp_plugin.contract import PflowError, Problem, RunStep
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.run_limits import RunLimits, is_call, reached
from pflow_mcp_plugin.host.running.result_key import NotKept, exact_pieces, identity_of
from pflow_mcp_plugin.host.running.run_record import UNDECIDED, RecordedStep, RunRecord, TraceEntry
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore, StoredValue
from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode
from pflow_mcp_plugin.storage import StoreError

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Host
    from pflow_mcp_plugin.host.running.trace_recorder import Recorder
    from pflow_mcp_plugin.redaction import Redactor

_ASK = "ask"
"""The node type of a question: at one place there is only the last."""
_NO_LIMITS: Mapping[str, Mapping[str, int]] = {}
_NOT_ARGUMENTS = frozenset({"__node_id__"})
_NAMED = 5
"""How many steps a message names."""
_LONGEST_SHOWN = 2_000
"""Characters of a step's params in the record."""
_step: ContextVar[StepOfRun | None] = ContextVar("pflow_step_of_run", default=None)


def current_step() -> StepOfRun | None:
    """Return the step that runs in this thread."""
    return _step.get()


class RecordedRun:
    """Records the steps of one run, and knows those of its earlier parts.

    Args:
        run_id: The id of the run.
        compiled: Its workflow.
        head: What its record says of the run as a whole; a value that is not JSON leaves the run unrecorded.
        record: The record of the earlier parts of the run; None for a new one.
        only_failed: Whether failed items of batches run again.
        limits: How many calls the run may make, by node type and key.
        kept: Whether it is recorded at all; if not, its calls are counted only.

    Attributes:
        refusal: Why something in it must not be done, which ends the run; None if nothing was refused.
        question: What somebody has to answer before the run goes on; None if nothing is asked.
        limits: Counts its calls.
        kept: Whether it is recorded.
        resuming: The command that goes on with it.
    """

    def __init__(  # noqa: PLR0913 - a run, and what its record shows
        self,
        run_id: str,
        compiled: Compiled,
        head: JSONObject,
        host: Host,
        *,
        recorder: Recorder,
        redactor: Redactor,
        record: RunRecord | None = None,
        only_failed: bool = False,
        limits: Mapping[str, Mapping[str, int]] = _NO_LIMITS,
        kept: bool = True,
    ) -> None:
        self.run_id = run_id
        self._host = host
        self._recorder = recorder
        self._redactor = redactor
        self._head = head
        self._record = record
        self._lock = threading.Lock()
        self._passes: Counter[str] = Counter()
        self._lacking = not (kept and _is_json(head))
        self.kept = kept
        self.resuming = f"pflow resume {run_id}" if kept else "run it again with"
        self._warned = False
        steps = record.steps() if record else []
        self._keys = {step.key for step in steps}
        self._reruns = sum(step.reruns for step in steps)
        self._earlier = EarlierSteps(steps, compiled, only_failed=only_failed)
        self.question: PflowError | None = None
        self._asked = {step.place: step.number for step in steps if step.type == _ASK}
        self.limits = RunLimits(limits, ((step.type, step.safe, step.attempts) for step in steps))
        self.refusal: PflowError | None = None
        if record:
            record.begin_again(head)

    @property
    def resumes(self) -> bool:
        """Whether an earlier part of the run is known."""
        return self._earlier.known

    @contextmanager
    def step(
        self,
        planned: PlannedNode,
        params: Mapping[str, Any],
        store: NodeAwareSharedStore,
        above: str,
        item: int | None,
    ) -> Iterator[StepOfRun]:
        """Yield the step in which a node runs, or one item of its batch; `above` is the place around it."""
        place = f"{above}{planned.id}{'' if item is None else f'[{item}]'}"
        with self._lock:
            self._passes[place] += 1
            number = self._passes[place]
        recorded = RecordedStep(
            place=f"{place}#{number}" if number > 1 else place,
            node=planned.ref.id,
            type=planned.ref.entry.node,
            identity="" if planned.sub else self.identity(planned, params, store),
            safe=planned.ref.entry.purity == "flow_safe",
            shown="",
        )
        step = StepOfRun(self, planned, recorded, params, is_item=item is not None)
        if name := planned.ref.entry.idempotency_argument:
            step.given_key = params.get(name, store.get(name))
            usable = isinstance(step.given_key, str) and step.given_key.isprintable()
            recorded.key = str(step.given_key) if usable else ""
        verify = planned.constructs.verify
        if recipe := verify.recipe if verify else planned.ref.entry.verify:
            from pflow_mcp_plugin.host.running.verification import recorded_recipe

            reads = planned.ref.entry.interface.reads
            given = {**{name: store[name] for name in reads if name in store}, **params}
            recorded.recipe = recorded_recipe(recipe, given, self._redactor.value)
        if planned.sub is None:
            step.earlier, step.replaced = self._earlier.take(recorded)
            if step.earlier is None:
                recorded.place = self._earlier.free_place(recorded)
        token = _step.set(step)
        try:
            yield step
        finally:
            _step.reset(token)

    def identity(self, planned: PlannedNode, params: Mapping[str, Any], store: NodeAwareSharedStore) -> str:
        """Return what tells a step from those that do something else."""
        left_out = {*_NOT_ARGUMENTS, planned.ref.entry.idempotency_argument}
        names = {*planned.ref.entry.interface.reads, *planned.mapping.inputs} - left_out
        reads = {name: store[name] for name in sorted(names) if name in store}
        given = {name: it for name, it in params.items() if name not in left_out and not callable(it)}
        return identity_of(planned.ref.entry.node, given, reads)

    def new_key(self, step: RecordedStep) -> str:
        """Return a key for a step that no other step of the run has, also if it has the place of another."""
        with self._lock:
            for number in itertools.count():
                text = json.dumps([self.run_id, step.place, step.identity, self._reruns, number])
                key = f"pflow-{sha256(text.encode()).hexdigest()[:32]}"
                if key not in self._keys:
                    break
            self._keys.add(key)
            return key

    def expect(self, planned: PlannedNode, above: str, identities: Sequence[str], count: int) -> None:
        """Take note of the items that a batch is going to run for, before any of them begins."""
        self._earlier.expect(f"{above}{planned.id}", identities, count)

    def refuse_unmatched(self, step: RecordedStep, params: Mapping[str, Any]) -> None:
        """Raise if a step that may do harm could be a recorded one of the same type, renamed or changed."""
        unmatched = self._earlier.unmatched(step)
        if unmatched:
            step.shown = self.shown(params)
            raise self.refuse(_unmatched(self.run_id, step, unmatched))

    def asked_before(self, place: str) -> int | None:
        """Return the number of the step that asked something else at the same place, if there is one."""
        return self._asked.get(place)

    def refuse(self, reason: PflowError) -> PflowError:
        """Let the run end with this reason, whatever edges follow a failure; return it."""
        self.refusal = self.refusal or reason
        return reason

    def record(self) -> RunRecord | None:
        """Return the record, which begins with the first step that is recorded; None if there is none."""
        with self._lock:
            if self._record is None and not self._lacking:
                try:
                    self._record = RunRecord.create(runs_folder(self._host), self.run_id, self._head)
                except PflowError as error:
                    self._lacking = True
                    self.warn(f"The run cannot be resumed: its record cannot be written: {error.message}")
            return self._record

    def enter(
        self,
        content: dict[str, Any],
        *,
        parent: int | None = None,
        item: int | None = None,
        number: int | None = None,
    ) -> int | None:
        """Record what the trace shows of a step; return the number of the entry, None if there is none."""
        record = self.record()
        if record is None:
            return None
        known = self._redactor.known
        entry = TraceEntry(number=number, parent=parent, item=item, content=self._redactor.value(content))
        try:
            number = record.put_entry(entry)
        except PflowError as error:
            self.warn(f"The trace of the run is not recorded: {error.message}")
        if self._redactor.known is not known:
            self.redact_again()
        return number

    def redact_again(self) -> None:
        """Redact in the record, once more, what it shows: something has become known as a secret."""
        if self._record is not None:
            try:
                self._record.redact(self._redactor.value, self._redactor.text)
            except PflowError as error:
                self.warn(f"A secret may stand in the record of the run: {error.message}")

    def warn(self, message: str) -> None:
        """Warn the user, once in each run."""
        if not self._warned:
            self._warned = True
            self._host.report(Problem(message=message, severity="warning", kind="execution"))

    def shown(self, params: Mapping[str, Any]) -> str:
        """Return the params of a step for people: as JSON text, shortened and redacted."""
        given = {key: it for key, it in params.items() if not is_reserved(key)}
        text = json.dumps(self._recorder.sample(given), ensure_ascii=False, default=str)
        if len(text) > _LONGEST_SHOWN:
            text = json.dumps(f"{text[:_LONGEST_SHOWN]}...")
        return text.encode("utf-8", "replace").decode()

    def redacted(self, text: str) -> str:
        """Return a text without the secrets of the run."""
        return self._redactor.text(text)

    def end(self, error: PflowError | None) -> list[RecordedStep]:
        """End the record with the run; return the steps that somebody has to decide about."""
        record = self._record
        if record is None:
            return []
        try:
            undecided = record.end(self.redacted(error.message) if error else "")
        except PflowError as failure:
            record.close()
            self.warn(f"The record of the run could not be completed: {failure.message}")
            return []
        if not error and (left := self._earlier.left()):
            message = f"Begun before, and nothing in the workflow does it any more: {_named(left)}"
            self._host.report(Problem(message=message, severity="warning", kind="execution"))
        return undecided


class StepOfRun(RunStep):
    """A step of a run, as its node and its record know it.

    Attributes:
        recorded: What the record has of it.
        planned: Its node.
        params: The params of the node.
        run: What records it.
        earlier: The step of an earlier part of the run that did the same.
        replaced: The step of an earlier part of the run that this one does again.
        given_key: The value that its node was given as idempotency key.
        refusal: Why it must not act, so that the run ends.
    """

    def __init__(
        self,
        run: RecordedRun,
        planned: PlannedNode,
        recorded: RecordedStep,
        params: Mapping[str, Any],
        *,
        is_item: bool,
    ) -> None:
        self.recorded = recorded
        self.planned = planned
        self.earlier: RecordedStep | None = None
        self.replaced: RecordedStep | None = None
        self.given_key: object = None
        self.refusal: PflowError | None = None
        self._run = self.run = run
        self.params = params
        self._is_item = is_item
        self._has_begun = False
        self._was_sent = self._is_counted = False

    @property
    def place(self) -> str:
        """The place of the step in the run."""
        return self.recorded.place

    def sending(self, *others: RunStep) -> None:
        """Record that the step, and others of the run, are about to act; raise if they must not."""
        for step in (self, *others):
            if isinstance(step, StepOfRun):
                step._was_sent = True  # noqa: SLF001 - another of this class
        steps = [step.recorded for step in (self, *others) if isinstance(step, StepOfRun)]
        harmful = [step for step in steps if not step.safe]
        if not harmful:
            return
        for step in (self, *others):
            if isinstance(step, StepOfRun):
                step.recorded.shown = self._run.shown(step.params)
                step._has_begun = True  # noqa: SLF001 - another of this class
        record = self._run.record()
        if record is None:
            return
        try:
            record.sent(harmful)
        except StoreError as error:
            refusal = PflowError(
                f"It was not begun, because the record of the run cannot be written: {error.message}",
                suggestions=(f"Free some space, then: pflow resume {self._run.run_id}",),
                ran="not ran",
            )
            for step in (self, *others):
                if isinstance(step, StepOfRun):
                    step.refusal = refusal
            raise self._run.refuse(refusal) from error

    def idempotency_key(self) -> str:
        """Return the key of the step: that of an earlier part of the run, the given one, or a new one."""
        recorded = self.recorded
        takes_one = self.planned.ref.entry.idempotency_argument and self.given_key in (None, "")
        if takes_one and not recorded.key:
            recorded.key = self._run.new_key(recorded)
        return recorded.key

    def replayed(self, store: NodeAwareSharedStore) -> RecordedStep | None:
        """Return the earlier step that did the same, and write what it wrote; None if the step is to run."""
        earlier = self.earlier
        if earlier is None and not self.recorded.safe and self.planned.sub is None:
            self._run.refuse_unmatched(self.recorded, self.params)
            if self.replaced and self.replaced.state in UNDECIDED and not self._has_same_key(self.replaced):
                raise _without_key(self._run.run_id, self.replaced)
        record = self._run.record() if earlier else None
        if earlier is None or record is None:
            return None
        if earlier.state != "skipped":
            store.update(record.outputs(earlier))
            if self._is_item and record.is_large(earlier):
                store.stored = StoredValue(partial(_result, record, earlier))
        return earlier

    def _has_same_key(self, earlier: RecordedStep) -> bool:
        return bool(self.planned.ref.entry.idempotency_argument) and self.recorded.key == earlier.key

    def call(self) -> None:
        """Count a call that the step is going to make; raise if a limit of the run does not allow it."""
        entry = self.planned.ref.entry
        if self.planned.sub is not None or not is_call(entry):
            return
        self._was_sent = False
        if (limit := self._run.limits.take(entry)) is not None:
            self.refusal = self._run.refuse(reached(self.place, limit, self._run.resuming))
            raise self.refusal
        self.recorded.attempts += 1
        self._is_counted = True

    def asks(self, question: PflowError) -> bool:
        """Record that the step waits for an answer, without which the run ends; False if it has no record."""
        record, recorded = self._run.record(), self.recorded
        if record is None:
            return False
        recorded.state, recorded.shown = "asked", self._run.shown(self.params)
        recorded.number = recorded.number or self._run.asked_before(recorded.place)
        record.ended(recorded)
        self.refusal = self._run.refuse(question)
        self._run.question = self._run.question or question
        return True

    def ended(
        self, action: str, failure: PflowError | None, reason: str | None, store: NodeAwareSharedStore
    ) -> None:
        """Record how an attempt at the step ended; raise why it must not act, if that is so."""
        recorded = self.recorded
        if self.refusal is not None:
            raise self.refusal
        if self.planned.sub is not None:
            if failure is not None and self._run.refusal is not None:
                raise self._run.refusal  # of a step inside
            return
        if self._is_counted and not self._was_sent:
            recorded.attempts -= 1
            self._run.limits.give_back(self.planned.ref.entry)
        self._is_counted = False
        recorded.action, recorded.state, recorded.error = action, "done", ""
        recipe, recorded.recipe = recorded.recipe, ""
        if failure is not None:
            recorded.state = "unknown" if failure.ran == "unknown" and self._has_begun else "failed"
            recorded.recipe = recipe
            batch = self.planned.constructs.batch
            goes_on = self._is_item and batch is not None and batch.goes_on
            recorded.routed = goes_on or action in self.planned.routed
            recorded.error = self._run.redacted(reason or "")
        # What failed before it had begun is run again, unless the run goes on; its calls count.
        is_counted = recorded.attempts and self._run.limits.are_set
        is_kept = failure is None or recorded.routed or self._has_begun or is_counted
        record = self._run.record() if is_kept else None
        if record is None:
            return
        if not (recorded.shown or recorded.safe):
            recorded.shown = self._run.shown(self.params)
        self._record(record, store, has_returned=failure is None)

    def _record(self, record: RunRecord, store: NodeAwareSharedStore, *, has_returned: bool) -> None:
        recorded = self.recorded
        try:
            try:
                is_large = record.ended(recorded, None if recorded.state in UNDECIDED else store.written)
                if self._is_item and is_large and has_returned:
                    store.stored = StoredValue(partial(_result, record, recorded))
            except NotKept as inexact:
                record.ended(recorded)
                self._run.warn(f"The run cannot be resumed past {recorded.place}: {inexact}")
        except PflowError as error:
            self._run.warn(f"The run cannot be resumed past {recorded.place}: {error.message}")


class EarlierSteps:
    """The steps of the earlier parts of a run, each of which answers for one step.

    Args:
        steps: The steps.
        compiled: The workflow as it is now.
        only_failed: Whether failed items of batches run again.
    """

    def __init__(self, steps: Sequence[RecordedStep], compiled: Compiled, *, only_failed: bool) -> None:
        self.known = bool(steps)
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, list[RecordedStep]] = defaultdict(list)
        self._again: defaultdict[str, list[RecordedStep]] = defaultdict(list)
        self._forgotten: defaultdict[str, list[RecordedStep]] = defaultdict(list)
        self._places = {step.place: step.number for step in steps if step.type != _ASK}
        self._expected: Counter[str] = Counter()
        self._visited: set[str] = set()
        self._counts: dict[str, int] = {}
        self._nodes = {node.ref.id for node in compiled.every()} if steps else set()
        self._after = _following(compiled) if steps else {}
        for step in steps:
            answers = step.state in ("done", "skipped") or (
                step.state == "failed" and step.routed and not (only_failed and "[" in step.place)
            )
            found = self._waiting if answers else self._again
            (self._forgotten if step.state == "forgotten" else found)[step.identity].append(step)

    def take(self, step: RecordedStep) -> tuple[RecordedStep | None, RecordedStep | None]:
        """Return the step that did the same, if it is not taken yet; else the one that is to do it again.

        The latter is replaced, and its key is sent again.
        """
        if not self.known:
            return None, None
        with self._lock:
            self._visited.add(_without_pass(step.place))
            if self._expected[step.identity] > 0:
                self._expected[step.identity] -= 1
            if not step.identity:
                return None, None
            waiting, again = self._waiting[step.identity], self._again[step.identity]
            begun = step.key and any(it.key == step.key for it in again)
            if not begun and (answer := _taken(waiting, step)):
                return answer, None
            if replaced := _taken(again, step):
                step.number, step.reruns = replaced.number, replaced.reruns
                step.attempts = replaced.attempts
                step.key = replaced.key or step.key
                return None, replaced
            # What was forgotten is not done again, should it come after all.
            return _taken(self._forgotten[step.identity], step), None

    def free_place(self, step: RecordedStep) -> str:
        """Return the place of a step, with a number if an earlier one, whose node was moved, has the same."""
        places = (f"{step.place}~{number}" if number > 1 else step.place for number in itertools.count(1))
        return next(it for it in places if self._places.get(it, step.number) == step.number)

    def expect(self, place: str, identities: Sequence[str], count: int) -> None:
        """Take note of the items of a batch that are going to run."""
        if self.known:
            with self._lock:
                self._expected.update(identities)
                self._visited.update(f"{place}[{index}]" for index in range(count) if identities)
                self._counts[place] = count

    def left(self) -> list[RecordedStep]:
        """Return the steps that may have done harm, and have no counterpart yet."""
        done = [it for steps in self._waiting.values() for it in steps if it.state == "done"]
        begun = [it for steps in self._again.values() for it in steps if it.state in UNDECIDED]
        return [it for it in done + begun if not it.safe]

    def unmatched(self, step: RecordedStep) -> list[RecordedStep]:
        """Return the steps of the same type whose counterpart has been passed, or does not exist any more."""
        if not self.known:
            return []
        with self._lock:
            alike = [it for it in self.left() if it.type == step.type]
            waiting = Counter(self._expected)
            found = []
            for it in alike:
                if waiting[it.identity] > 0:  # an item of the batch that runs now does the same
                    waiting[it.identity] -= 1
                elif not self._may_come(it, step):
                    found.append(it)
            return found

    def _may_come(self, earlier: RecordedStep, now: RecordedStep) -> bool:
        place = _without_pass(earlier.place)
        if earlier.node not in self._nodes or place in self._visited:
            return False
        for batch, count in self._counts.items():
            index = re.match(rf"{re.escape(batch)}\[(\d+)\]", place)
            if index and int(index[1]) >= count:
                return False
        above = ""
        for theirs, ours in zip(earlier.place.split("/"), now.place.split("/"), strict=False):
            names = _named_node(theirs), _named_node(ours)
            if names[0] != names[1]:  # here their ways part: the one must lead to the other
                return f"{above}{names[0]}" in self._after[f"{above}{names[1]}"]
            if theirs != ours:
                return True  # another item of a batch around both, or another pass
            above += f"{names[0]}/"
        return True


def runs_folder(host: Host) -> Path:
    """Return the folder with the records of runs."""
    return host.paths.state / "runs"


def undecided(run_id: str, steps: Sequence[RecordedStep]) -> PflowError:
    """Return the error of a run that cannot go on before somebody has decided about steps."""
    return PflowError(
        f"Nobody knows whether these steps happened: {_named(steps)}",
        details={"run_id": run_id, "undecided": [step.to_dict() for step in steps]},
        suggestions=decisions(run_id, steps),
        ran="unknown",
    )


def decisions(run_id: str, steps: Sequence[RecordedStep]) -> tuple[str, ...]:
    """Return the next steps of somebody who has to decide about steps of a run."""
    one = steps[0].place
    return (
        f"If {one} happened: pflow resume {run_id} --assume-done {one}=RESULT",
        f"If it did not: pflow resume {run_id} --assume-not-done {one}",
    )


def _named(steps: Sequence[RecordedStep]) -> str:
    more = f" and {len(steps) - _NAMED:,} more" if len(steps) > _NAMED else ""
    return ", ".join(step.place for step in steps[:_NAMED]) + more


def _unmatched(run_id: str, step: RecordedStep, earlier: Sequence[RecordedStep]) -> PflowError:
    return PflowError(
        f"{step.place} was not begun, as it may be one of these steps, changed: they have begun, and "
        f"nothing has done the same so far: {_named(earlier)}",
        details={"step": step.to_dict(), "unmatched": [it.to_dict() for it in earlier]},
        suggestions=(
            f"If it is not: pflow resume {run_id} --forget {earlier[0].place}",
            "If it is the same, write it as it was",
        ),
        ran="not ran",
        action="unmatched",
    )


def _without_key(run_id: str, step: RecordedStep) -> PflowError:
    return PflowError(
        f"{step.place} was not begun: nobody knows whether it happened, and it no longer takes its key",
        details={"step": step.to_dict()},
        suggestions=decisions(run_id, [step]),
        ran="not ran",
    )


def _taken(alike: list[RecordedStep], step: RecordedStep) -> RecordedStep | None:
    """Take one of several steps that did the same as a step, if possible with its key, or at its place."""
    if not alike:
        return None
    of_place = next((it for it in alike if it.place == step.place), alike[0])
    taken = next((it for it in alike if step.key and it.key == step.key), of_place)
    alike.remove(taken)
    return taken


def _following(compiled: Compiled, above: str = "") -> dict[str, set[str]]:
    """Return the nodes that may run after each node, itself among them in a loop."""
    direct = {node.id: set(node.successors.values()) for node in compiled.nodes}
    found: dict[str, set[str]] = {}
    for node in compiled.nodes:
        seen: set[str] = set()
        waiting = [*direct[node.id]]
        while waiting:
            following = waiting.pop()
            if following not in seen:
                seen.add(following)
                waiting += direct.get(following, ())
        found[f"{above}{node.id}"] = {f"{above}{name}" for name in seen}
        if node.sub:
            found |= _following(node.sub, f"{above}{node.id}/")
    return found


def _named_node(part: str) -> str:
    """Return the id of the node in a part of a place, without item and pass."""
    return re.sub(r"\[\d+\]$", "", _without_pass(part))


def _without_pass(place: str) -> str:
    return re.sub(r"(#\d+)?(~\d+)?$", "", place)


def _result(record: RunRecord, step: RecordedStep) -> dict[str, Any]:
    """Return what an item wrote, as the results of its batch have it."""
    return {key: it for key, it in record.outputs(step).items() if key != "error" or it is not None}


def _is_json(head: JSONObject) -> bool:
    try:
        for _ in exact_pieces(head, "the run"):
            pass
    except NotKept:
        return False
    return True


def folder_now() -> str:
    """Return the current folder, to which files in params are relative."""
    with suppress(OSError):  # it was deleted
        return os.getcwd()  # noqa: PTH109 - no path is needed
    return ""
