"""A run and its record: each step is recorded, or answered if it was done before a crash."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem, RunStep
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.run_limits import RunLimits, is_call, reached
from pflow_mcp_plugin.host.running.earlier_steps import ASK, EarlierSteps, failed_items
from pflow_mcp_plugin.host.running.result_key import OWN_PARAMS, NotKept, identity_of, value_key
from pflow_mcp_plugin.host.running.run_record import UNDECIDED, RecordedStep, RunRecord, surrogates_replaced
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore, StoredValue
from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode
from pflow_mcp_plugin.storage import StoreError
from pflow_mcp_plugin.terminal.human_units import names_text

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Host, Run
    from pflow_mcp_plugin.host.running.trace_recorder import Recorder

_NAMED = 5
"""How many steps a message names."""
_LONGEST_SHOWN = 2_000
"""Characters of a step's params in the record."""
_LONGEST_ASKED = 100_000
"""The same of a step that asks: an answer is checked against its choices."""
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode  # `dumps` makes one for each value
current_step: ContextVar[StepOfRun | None] = ContextVar("pflow_step_of_run", default=None)
"""The step of a recorded run that runs in this thread."""


class RecordedRun:
    """A run whose steps are recorded as they run, or answered if a `record` says that they were done.

    The `head` is what its record says of the run as a whole: unless it is JSON, the run is not recorded. A
    run that is not `kept` only has its calls counted, against the `limits` by node type and key.
    """

    def __init__(  # noqa: PLR0913 - a run, and what its record shows
        self,
        compiled: Compiled,
        head: JSONObject,
        run: Run,
        recorder: Recorder,
        *,
        record: RunRecord | None,
        only_failed: bool,
        limits: Mapping[str, Mapping[str, int]],
        kept: bool,
    ) -> None:
        self.run_id = run.run_id
        self._compiled = compiled
        self._run = run
        self._recorder = recorder
        self.redactor = recorder.redactor
        self._head = head
        self._record = record
        self._lock = threading.Lock()
        self._passes: Counter[str] = Counter()
        self._is_recordable = kept and value_key(head) != ""
        self.failure: PflowError | None = None  # why its record could not be created
        self.kept = kept
        # The command that continues the run.
        self.resuming = f"pflow resume {self.run_id}" if kept else "run it again with"
        self._warned = False
        self.has_done = False  # whether a step or an item was done, or may have been
        steps = record.steps() if record else []
        self._keys = {step.key for step in steps}
        self._reruns = sum(step.reruns for step in steps)
        self.earlier = EarlierSteps(steps, compiled, only_failed=only_failed)
        # The numbers of the steps that asked something, by their places.
        self.asked = {step.place: step.number for step in steps if step.type == ASK}
        self.limits = RunLimits(limits, ((step.type, step.safe, step.attempts) for step in steps))
        self.question: PflowError | None = None  # what somebody has to answer before the run goes on
        self.refusal: PflowError | None = None  # why something in it must not be done, which ends the run
        if record:
            record.change(self.earlier.changed, "forgotten")
            # If this part of the run is killed, the next one runs them again, too.
            record.change([step for step in steps if self.earlier.repeats(step)], "not sent")
            record.begin_again(head)

    def goes_on_after(self, error: PflowError) -> bool:
        """Whether the ended run has left a record of what it did and its error does not say so yet."""
        is_left = self.has_done and self._record is not None and self._record.path.exists()
        return is_left and not any(self.resuming in step for step in error.suggestions)

    @contextmanager
    def step(  # noqa: PLR0913 - a step, and where it is
        self,
        planned: PlannedNode,
        params: Mapping[str, Any],
        store: NodeAwareSharedStore,
        above: str,
        item: int | None,
        *,
        items: Sequence[str],
        goes_on: bool,
        soon: bool,
    ) -> Iterator[StepOfRun]:
        """Enter the step in which a node of the recorded run works, or one item of its batch.

        `above` is the place around it, such as `outer/`, and `items` the keys of the batch items around it;
        `goes_on` says whether a batch goes on if the step fails; for `soon` see `RunRecord.ended`.
        """
        place = f"{above}{planned.id}{'' if item is None else f'[{item}]'}"
        with self._lock:
            self._passes[place] += 1
            number = self._passes[place]
        recorded = RecordedStep(
            place=f"{place}#{number}" if number > 1 else place,
            node=planned.ref.id,
            type=planned.ref.entry.node,
            identity="" if planned.sub else self.identity(planned, params, store, items),
            safe=planned.ref.entry.purity == "flow_safe",
            shown="",
        )
        step = StepOfRun(
            run=self,
            planned=planned,
            recorded=recorded,
            given={**{name: store[name] for name in planned.reads if name in store}, **params},
            is_item=item is not None,
            goes_on=goes_on,
            soon=soon,
        )
        if name := planned.ref.entry.idempotency_argument:
            step.given_key = params.get(name, store.get(name))
            usable = isinstance(step.given_key, str) and step.given_key.isprintable()
            recorded.key = str(step.given_key) if usable else ""
        if recipe := planned.constructs.verify or planned.ref.entry.verify:
            from pflow_mcp_plugin.host.running.verification import recorded_recipe

            recorded.recipe = recorded_recipe(recipe, step.given, self.redactor.value)
        if planned.sub is None:
            step.earlier, step.replaced = self.earlier.take(recorded)
            if step.earlier is None:
                recorded.place = self.earlier.free_place(recorded)
        token = current_step.set(step)
        try:
            yield step
        finally:
            current_step.reset(token)

    def identity(
        self,
        planned: PlannedNode,
        params: Mapping[str, Any],
        store: NodeAwareSharedStore,
        items: Sequence[str],
    ) -> str:
        left_out = (*OWN_PARAMS, planned.ref.entry.idempotency_argument)
        reads = {name: store[name] for name in planned.reads if name not in left_out and name in store}
        given = {name: it for name, it in params.items() if name not in left_out and not callable(it)}
        return identity_of(planned.ref.entry.node, given, reads, items)

    def new_key(self, step: RecordedStep) -> str:
        """Return an idempotency key that no other step of the recorded run has, even at the same place."""
        with self._lock:
            for number in itertools.count():
                text = json.dumps([self.run_id, step.place, step.identity, self._reruns, number])
                key = f"pflow-{sha256(text.encode()).hexdigest()[:32]}"
                if key not in self._keys:
                    break
            self._keys.add(key)
            return key

    def refuse(self, reason: PflowError) -> PflowError:
        """Make the recorded run end for this reason, even if an edge handles it; return the reason."""
        self.refusal = self.refusal or reason
        return reason

    def record(self) -> RunRecord | None:
        with self._lock:
            if self._record is None and self._is_recordable and self.failure is None:
                try:
                    self._record = RunRecord.create(runs_folder(self._run.host), self.run_id, self._head)
                except PflowError as error:
                    self.failure = error
                    self.warn(f"The run cannot be resumed: its record cannot be written: {error.message}")
            return self._record

    def sent(self, steps: Sequence[RecordedStep], *, first: Sequence[RecordedStep]) -> None:
        """For a recorded run, note that harmful steps are about to happen; raise StoreError if they must not.

        Those that do so for the `first` time have then not happened. On a full disk a run without a record
        does not go on either, unlike one that may not write there.
        """
        record = self.record()
        if record is None:
            if isinstance(self.failure, StoreError) and self.failure.is_disk_full:
                raise self.failure
            return
        try:
            record.sent(steps)
        except StoreError:
            with suppress(PflowError):
                record.change(first, "not sent")
            raise

    def enter(
        self,
        content: dict[str, Any],
        *,
        parent: int | None = None,
        item: int | None = None,
        number: int | None = None,
        soon: bool = False,
    ) -> int | None:
        """Record a step of this run, as a trace shows it; return its number, None without a record."""
        record = self.record()
        if record is None:
            return None
        known = self.redactor.known
        try:
            number = record.put_entry(self.redactor.value(content), number, parent, item, soon=soon)
        except PflowError as error:
            self.warn(f"The trace of the run is not recorded: {error.message}")
        if self.redactor.known is not known:
            self.redact_again()
        return number

    def redact_again(self) -> None:
        if self._record is not None:
            try:
                self._record.redact(self.redactor.value, self.redactor.text)
            except PflowError as error:
                self.warn(f"The record of the run may contain a secret: {error.message}")

    def warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            self._run.warn(Problem(message=message, severity="warning", kind="execution"))

    def shown(self, given: Mapping[str, Any], most: int = _LONGEST_SHOWN) -> str:
        given = {key: it for key, it in given.items() if not is_reserved(key)}
        text = _encode(self._recorder.sample(given))
        if len(text) > most:
            text = json.dumps(f"{text[:most]}...")
        return surrogates_replaced(text)

    def end(self, error: PflowError | None) -> list[RecordedStep]:
        """End the recorded run and its record; return the steps that the user has to decide about."""
        record = self._record
        if record is None:
            return []
        try:
            if not error:
                record.change(self.earlier.never_came(), "failed")
            again = bool(failed_items(record.steps("state = 'failed' AND routed"), self._compiled))
            undecided = record.end(self.redactor.text(error.message) if error else "", keep=again)
        except PflowError as failure:
            record.close()
            self.warn(f"The record of the run could not be completed: {failure.message}")
            return []
        if not error and (left := self.earlier.left()):
            message = f"Begun before, but no longer in the workflow: {named_steps(left)}"
            self._run.warn(Problem(message=message, severity="warning", kind="execution"))
        return undecided


@attrs.define(kw_only=True, eq=False, repr=False)
class StepOfRun(RunStep):
    """A step of a recorded run: what it is given, what is recorded, and which earlier step did the same."""

    run: RecordedRun
    planned: PlannedNode
    recorded: RecordedStep
    given: Mapping[str, Any]  # its params, and what it reads from the shared store
    is_item: bool
    goes_on: bool
    soon: bool
    earlier: RecordedStep | None = None  # from an earlier part of the run; it did the same
    replaced: RecordedStep | None = None  # from an earlier part; this step repeats it
    given_key: object = None  # the value that its node was given as idempotency key
    refusal: PflowError | None = None  # why it must not act, so that the run ends
    _has_begun: bool = False
    _was_sent: bool = False
    _is_counted: bool = False

    @property
    def place(self) -> str:
        return self.recorded.place

    def sending(self, *others: RunStep) -> None:
        steps = [step for step in (self, *others) if isinstance(step, StepOfRun)]
        for step in steps:
            step._was_sent = True  # noqa: SLF001 - the same class
        harmful = [step for step in steps if not step.recorded.safe]
        if not harmful:
            return
        for step in steps:
            step.recorded.shown = self.run.shown(step.given)
        first = [step.recorded for step in harmful if not step._has_begun]  # noqa: SLF001 - the same
        try:
            self.run.sent([step.recorded for step in harmful], first=first)
        except StoreError as error:
            refusal = PflowError(
                f"{self.place} was not begun, as the record of the run cannot be written: {error.message}",
                suggestions=("Free some disk space first",) if error.is_disk_full else error.suggestions,
                ran="not ran",
            )
            for step in steps:
                step.refusal = refusal
            raise self.run.refuse(refusal) from error
        for step in steps:
            step._has_begun = True  # noqa: SLF001 - the same

    def idempotency_key(self) -> str:
        """Return the key that the recorded run sends with the step: a given, earlier or new one."""
        recorded = self.recorded
        takes_one = self.planned.ref.entry.idempotency_argument and self.given_key in (None, "")
        if takes_one and not recorded.key:
            recorded.key = self.run.new_key(recorded)
        return recorded.key

    def replayed(self, store: NodeAwareSharedStore) -> RecordedStep | None:
        """Answer this step of a recorded run with an earlier one's outputs; return that step, else None."""
        earlier = self.earlier
        if earlier is None and not self.recorded.safe and self.planned.sub is None:
            # The record may have this harmful step under another name or with other params.
            if unmatched := self.run.earlier.unmatched(self.recorded):
                self.recorded.shown = self.run.shown(self.given)
                raise self.run.refuse(_unmatched(self.run.run_id, self.recorded, unmatched))
            replaced, takes_key = self.replaced, self.planned.ref.entry.idempotency_argument
            has_same_key = replaced and takes_key and self.recorded.key == replaced.key
            if replaced and replaced.state in UNDECIDED and not has_same_key:
                why = "nobody knows whether it happened, and it no longer takes its key"
                refused = PflowError(
                    f"{replaced.place} was not begun: {why}",
                    details={"step": replaced.to_dict()},
                    suggestions=decisions(self.run.run_id, [replaced]),
                    ran="not ran",
                )
                raise self.run.refuse(refused)
        record = self.run.record() if earlier else None
        if earlier is None or record is None:
            return None
        if earlier.state != "skipped":
            try:
                store.update(record.outputs(earlier))
            except PflowError as lost:
                if not self.recorded.safe:
                    raise self.run.refuse(lost) from lost
                self.recorded.number = earlier.number
                return None
            self.run.has_done = True
            if earlier.state == "forgotten":  # it has come after all
                record.change([earlier], "done")
            if self.is_item and record.is_large(earlier):
                store.stored = StoredValue(partial(_result, record, earlier))
        return earlier

    def call(self) -> None:
        """Count one more call of this step of the recorded run; raise if a limit does not allow it."""
        entry = self.planned.ref.entry
        if self.planned.sub is not None or not is_call(entry):
            return
        self._was_sent = False
        if (limit := self.run.limits.take(entry)) is not None:
            self.refusal = self.run.refuse(reached(self.place, limit, self.run.resuming))
            raise self.refusal
        self.recorded.attempts += 1
        self._is_counted = True

    def asks(self, question: PflowError) -> bool:
        """Record that the run ends here, to wait for an answer to its step; False if nothing is recorded."""
        record, recorded = self.run.record(), self.recorded
        if record is None:
            return False
        recorded.state, recorded.shown = "asked", self.run.shown(self.given, _LONGEST_ASKED)
        recorded.number = recorded.number or self.run.asked.get(recorded.place)
        record.ended(recorded)
        self.refusal = self.run.refuse(question)
        self.run.question = self.run.question or question
        return True

    def ended(
        self, action: str, failure: PflowError | None, reason: str | None, store: NodeAwareSharedStore
    ) -> None:
        """Record how this step of a recorded run ended; raise the refusal if it must not act."""
        recorded = self.recorded
        if self.refusal is not None:
            raise self.refusal
        if self.planned.sub is not None:
            if failure is not None and self.run.refusal is not None:
                raise self.run.refusal  # of a step inside
            return
        if self._is_counted and not self._was_sent:
            recorded.attempts -= 1
            self.run.limits.give_back(self.planned.ref.entry)
        self._is_counted = False
        recorded.action, recorded.state, recorded.error = action, "done", ""
        recipe, recorded.recipe = recorded.recipe, ""
        if failure is not None:
            recorded.state = "unknown" if failure.ran == "unknown" and self._has_begun else "failed"
            recorded.recipe = recipe
            recorded.routed = self.goes_on or action in self.planned.routed
            # A reason may name a file whose name is not UTF-8.
            recorded.error = surrogates_replaced(self.run.redactor.text(reason or ""))
        self.run.has_done |= recorded.state != "failed"
        # A step that failed before it began is run again, unless the run goes on; its calls count.
        is_counted = recorded.attempts and self.run.limits.are_set
        is_kept = failure is None or recorded.routed or self._has_begun or is_counted
        record = self.run.record() if is_kept else None
        if record is None:
            return
        if not (recorded.shown or recorded.safe):
            recorded.shown = self.run.shown(self.given)
        self._record(record, store, has_returned=failure is None)

    def _record(self, record: RunRecord, store: NodeAwareSharedStore, *, has_returned: bool) -> None:
        recorded = self.recorded
        try:
            try:
                kept = recorded.state not in UNDECIDED and self.planned.constructs.keep
                is_large = record.ended(recorded, store.written if kept else None, soon=self.soon)
                if self.is_item and has_returned and is_large:
                    store.stored = StoredValue(partial(_result, record, recorded))
            except NotKept as inexact:
                record.ended(recorded)
                self.run.warn(f"The run cannot be resumed past {recorded.place}: {inexact}")
        except PflowError as error:
            self.run.warn(f"The run cannot be resumed past {recorded.place}: {error.message}")


def runs_folder(host: Host) -> Path:
    """Return the folder in which a host keeps its recorded runs."""
    return host.paths.state / "runs"


def decisions(run_id: str, steps: Sequence[RecordedStep]) -> tuple[str, ...]:
    """Suggest how to decide on an open step of a recorded run, in the error that stops the run there."""
    one = steps[0].place
    return (
        f"If {one} happened: pflow resume {run_id} --assume-done {quote(f'{one}=RESULT')}",
        f"If it did not: pflow resume {run_id} --assume-not-done {quote(one)}",
    )


def named_steps(steps: Sequence[RecordedStep]) -> str:
    """Name steps of a recorded run in an error: the places of the first, and how many more there are."""
    return names_text([step.place for step in steps], _NAMED)


def _unmatched(run_id: str, step: RecordedStep, earlier: Sequence[RecordedStep]) -> PflowError:
    return PflowError(
        f"{step.place} was not begun, as it may be one of these steps, changed or moved: they have "
        f"begun, and nothing has done the same so far: {named_steps(earlier)}",
        details={"step": step.to_dict(), "unmatched": [it.to_dict() for it in earlier]},
        suggestions=(
            f"If it is not: pflow resume {run_id} --forget {quote(earlier[0].place)}",
            "If it is the same, write it as it was, with the inputs that it had",
        ),
        ran="not ran",
        action="unmatched",
    )


def _result(record: RunRecord, step: RecordedStep) -> dict[str, Any]:
    return {key: it for key, it in record.outputs(step).items() if key != "error" or it is not None}
