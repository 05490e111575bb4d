"""The trace of a run: each step with its params, outputs and times, secrets redacted."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import NodeRef, PflowError
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.running.value_excerpt import (
    LONGEST_NAME,
    LONGEST_TEXT,
    Excerpt,
    ValueFiles,
    is_larger,
)
from pflow_mcp_plugin.host.trace_files import write_trace
from pflow_mcp_plugin.host.workflow.templates import with_strings
from pflow_mcp_plugin.redaction import Redactor

LARGEST_STEP = 50_000
"""Characters that the trace keeps of a step's params, and of its outputs; approximate."""
LARGEST_ITEM = 4_000
"""The same for an item of a batch, whose result is also among the outputs of its step."""
LARGEST_CHECKPOINT = 200_000
"""Characters that a checkpoint keeps of what all nodes wrote; approximate."""
LARGEST_SHOWN = 256 << 10
"""A value of up to this many characters is shown whole to whoever asked for the run."""
MOST_STEPS = 100_000
"""The steps that the trace keeps, including those inside others; a run with more is in a loop of loops."""
MOST_IN_ITEM = 1_000
"""The same for one item of a batch."""
ITEMS_KEPT = 10
"""How many items of a batch the trace keeps separately: of successful ones, and of failed ones."""
ITEMS_INSIDE = 2
"""The same for a batch inside an item of another."""
MOST_TIMES = 250
"""Items of a batch whose times the trace keeps; of more, all that failed and some others."""
ItemTime = tuple[int, float, float, bool]
"""An item of a batch: its number from 0, when it began and ended (`perf_counter`), whether it succeeded."""
_SHOWN = 32_000
"""Characters that are shown of a larger value; approximate."""
_LONGEST_NOTE = 1_000
"""Characters that the path of a file may add to a string that was shortened."""


@attrs.define(eq=False, repr=False)
class Step:
    """What is noted of a step for the trace of the run, from its start to its end; times are in milliseconds.

    `offset` is the time from the start of the run to the start of the step, and `waited` the part of the step
    in which its node waited for a preparation, such as the start of a program. `steps` are those of the
    workflow that the node ran, and `items` some of the items of its batch, by index. `number` is the number
    of its entry in the run's record, and `around` the step inside which it runs.
    """

    node: NodeRef
    offset: float = 0.0
    began: float = attrs.field(factory=time.perf_counter)
    milliseconds: float = 0.0
    waited: float = 0.0
    action: str | None = None
    params: object = None
    outputs: object = None
    error: str | None = None
    details: dict[str, Any] = attrs.field(factory=dict)
    steps: list[Step] = attrs.field(factory=list)
    items: dict[int, Step] = attrs.field(factory=dict)
    number: int | None = None
    around: Step | None = None

    @property
    def waited_inside(self) -> float:
        steps = sum(step.waited for step in self.steps)
        return max((steps, *(item.waited for item in self.items.values())))

    def to_dict(self) -> dict[str, object]:
        inside: dict[str, object] = {}
        if self.steps:
            inside["steps"] = [step.to_dict() for step in self.steps]
        if self.items:
            inside["items"] = [self.items[index].to_item(index) for index in sorted(self.items)]
        return {**self.own(), **inside}

    def begun(self) -> dict[str, Any]:
        details = {"details": self.details} if self.details else {}
        return {"id": self.node.id, "type": self.node.type, "offset": self.offset, **details}

    def own(self) -> dict[str, Any]:
        return {
            "id": self.node.id,
            "type": self.node.type,
            "action": self.action,
            "offset": self.offset,
            "milliseconds": self.milliseconds,
            **({"waited": self.waited} if self.waited else {}),
            "params": self.params,
            "outputs": self.outputs,
            "error": self.error,
            "details": self.details,
        }

    def to_item(self, index: int) -> dict[str, object]:
        shown = ("offset", "milliseconds", "error", "params", "outputs")
        named = {key: getattr(self, key) for key in shown}
        details = {"details": self.details} if self.details else {}
        inside = {"steps": [step.to_dict() for step in self.steps]} if self.steps else {}
        return {"index": index, **named, **details, **inside}


@attrs.define(eq=False, repr=False)
class Preparation:
    """What is traced of something that `nodes` wait for, such as a program's start; times in milliseconds.

    `offset` is the time from the start of the run to its beginning, and `milliseconds` how long it took, None
    until it has ended.
    """

    label: str
    nodes: frozenset[str] = frozenset()
    offset: float = 0.0
    milliseconds: float | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, object]:
        return {key: value for key, value in attrs.asdict(self).items() if key != "nodes"}

    def overlap(self, step: Step, now: float) -> float:
        if step.node.id not in self.nodes:
            return 0.0
        end = now if self.milliseconds is None else self.offset + self.milliseconds
        return max(0.0, min(end, now) - max(step.offset, self.offset))


class RunWatcher:
    """Hears from the recorder of each step of a run; this base class ignores everything.

    The methods are called from any thread, and must not raise.
    """

    shows_handled = False
    """Whether the user has seen which failures of steps were handled."""

    asks = False
    """Whether the user can be asked, on the terminal."""

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    def step_began(self, step: Step) -> None: ...

    def step_ended(self, step: Step) -> None: ...

    def items_ended(self, node_id: str, counts: Mapping[str, int]) -> None:
        """Hear from the trace's recorder how a batch's items ended: `count`, `succeeded` and `failed`."""

    def progressed(self, node_id: str, done: float, total: float | None, message: str) -> None: ...

    def preparing(self, preparation: Preparation) -> None: ...

    def prepared(self, preparation: Preparation) -> None: ...


class Recorder:
    """Records the trace of one run, and tells the `watcher`.

    `files`, if not None, hold what is left out where a value is shortened. The `owner` is empty for the user.
    `enter` also puts what is traced into the record of the run, if it has one.
    """

    enter: Callable[..., int | None] | None = None

    def __init__(
        self,
        run_id: str,
        workflow: str,
        redactor: Redactor,
        files: ValueFiles | None = None,
        owner: str = "",
        watcher: RunWatcher | None = None,
    ) -> None:
        self.files = files
        self.steps: list[Step] = []
        self.preparations: list[Preparation] = []
        self._watcher = watcher or RunWatcher()
        self.run_id = run_id
        self._owner = owner
        self._workflow = workflow
        self.redactor = redactor
        self._inputs: object = {}
        self.outputs: object = {}  # of the run
        self._room = iter(range(MOST_STEPS))
        self.is_item = False
        self._around: Step | None = None
        self._started = datetime.now(UTC)
        self._began = time.perf_counter()

    def item(self, node: NodeRef) -> tuple[Recorder, Step]:
        """Return a trace recorder for one item of a batch, and its step, which is not yet part of the trace.

        Its values are copied only by `keep`: most items are not kept.
        """
        inner = copy.copy(self)
        inner.is_item = True
        inner.steps = []
        inner._watcher = RunWatcher()  # noqa: SLF001 - a copy of this object; items show as a count
        if not self.is_item:  # steps inside an item share its quota
            inner._room = iter(range(MOST_IN_ITEM))  # noqa: SLF001 - the same
        return inner, inner.begin(node)

    def keep(self, node_id: str, index: int, item: Step) -> None:
        """Keep an item of a batch in the latest step of its node, unless enough are in the trace."""
        step = self._latest(node_id)
        if step is None:
            return
        most = ITEMS_INSIDE if self.is_item else ITEMS_KEPT
        alike = sum((other.error is None) == (item.error is None) for other in step.items.values())
        if alike < most:
            step.items[index] = item
            if not self.is_item:
                self._copy(item, LARGEST_ITEM)
                if self.enter and step.number is not None:
                    self.enter(item.to_item(index), parent=step.number, item=index, soon=True)

    def _copy(self, step: Step, most: int = LARGEST_STEP) -> None:
        step.params = self.excerpt(step.params, most)
        step.outputs = self.excerpt(step.outputs, most)
        step.error = self.redactor.text(step.error) if step.error else step.error
        step.details = self.excerpt(step.details, most)
        for inner in step.steps:
            self._copy(inner)
        for item in step.items.values():
            self._copy(item, LARGEST_ITEM)

    @property
    def done(self) -> tuple[NodeRef, ...]:
        """The nodes that the recorder saw succeed, in the order in which they last succeeded."""
        distinct: dict[str, NodeRef] = {}
        for node in _ended(self.steps):
            distinct.setdefault(node.id, node)
        return tuple(reversed(distinct.values()))

    def inside(self, node_id: str) -> Recorder:
        inner = copy.copy(self)
        inner.steps = []
        if step := self._latest(node_id):
            step.steps = inner.steps
            inner._around = step  # noqa: SLF001 - a copy of this object
        return inner

    def given(self, inputs: Mapping[str, object]) -> None:
        self._inputs = inputs
        with suppress(RecursionError):  # what contains itself is kept as it is
            # A copy, as nodes could change what is inside the inputs in place.
            self._inputs = with_strings(dict(inputs), lambda text: text)

    def begin(self, node: NodeRef) -> Step:
        """Begin a step of the trace; the caller sets its fields to any values, and ends it."""
        step = Step(node, offset=_since(self._began), around=self._around)
        if next(self._room, None) is not None:
            self.steps.append(step)
            self._enter(step, step.begun())
        self._watcher.step_began(step)
        return step

    def prepare(self, label: str, node_ids: Iterable[str]) -> Callable[[str], None]:
        """Record that a preparation for nodes begins; call the returned function once it has ended."""
        begun = Preparation(
            self.redactor.text(label)[:LONGEST_NAME], frozenset(node_ids), _since(self._began)
        )
        self.preparations.append(begun)
        self._watcher.preparing(begun)

        def end(error: str) -> None:
            begun.milliseconds = round(_since(self._began) - begun.offset, 3)
            begun.error = self.redactor.text(error)[:LONGEST_TEXT] or None
            self._watcher.prepared(begun)

        return end

    def end(self, step: Step) -> None:
        """End a step of the trace; its values are copied now, as later nodes may change them."""
        step.milliseconds = _since(step.began)
        now = step.offset + step.milliseconds
        own = max((it.overlap(step, now) for it in self.preparations), default=0.0)
        step.waited = round(own + step.waited_inside, 3)
        if self.is_item:
            return
        step.params = self.excerpt(step.params)
        # A batch has each result twice: with its item, and without.
        repeated = "items" if "batch" in step.details else ""
        step.outputs = self.excerpt(step.outputs, repeated=repeated)
        step.error = self.redactor.text(step.error) if step.error else step.error
        if step.number is not None:
            self._enter(step, step.own())
        self._watcher.step_ended(step)

    def _enter(self, step: Step, content: dict[str, Any], *, soon: bool = False) -> None:
        if self.enter is not None and not self.is_item:
            parent = step.around.number if step.around else None
            step.number = self.enter(content, parent=parent, number=step.number, soon=soon)

    def end_item(self, step: Step) -> None:
        """Note the times of an item's step for the recorder's trace, in which `keep` may put it."""
        step.milliseconds = _since(step.began)
        step.waited = round(step.waited_inside, 3)

    def times_of(self, items: Sequence[ItemTime]) -> list[JSON]:
        """Return the times that the recorder traces of items: `[index, offset, milliseconds, succeeded]`.

        Of many items, the failed ones are kept, and as many of the others as there is room for.
        """
        lost = _some([it for it in items if not it[3]], MOST_TIMES // 2)
        chosen = sorted([*lost, *_some([it for it in items if it[3]], MOST_TIMES - len(lost))])
        return [
            [index, round((began - self._began) * 1000, 1), round((ended - began) * 1000, 1), fine]
            for index, began, ended, fine in chosen
        ]

    def annotate(self, node_id: str, details: JSONObject, *, soon: bool = False) -> None:
        """Add details to the latest step of a node in the trace; `soon` also to a record, while it runs."""
        if step := self._latest(node_id):
            step.details.update(details if self.is_item else self.excerpt(dict(details)))
            if step.action is not None:
                self._enter(step, step.own())
            elif soon:
                self._enter(step, step.begun(), soon=True)

    def _latest(self, node_id: str) -> Step | None:
        steps = self.steps
        while True:
            # The id of a node inside another begins with the id of the outer one.
            found = (it for it in reversed(steps) if f"{node_id}/".startswith(f"{it.node.id}/"))
            step = next(found, None)
            if step is None or step.node.id == node_id:
                return step
            steps = step.steps

    def excerpt(self, value: object, most: int = LARGEST_STEP, repeated: str = "") -> Any:
        """Return `value` as recorded in the trace: JSON of about `most` characters, redacted, with files.

        The member under the key `repeated` has no file, as it repeats others.
        """
        return Excerpt(self.redactor, most, self.files, repeated=repeated).of(value)

    def sample(self, value: object) -> Any:
        """Redact and shorten `value` as in the trace being recorded, without a file for what is left out."""
        return Excerpt(self.redactor, LARGEST_STEP).of(value)

    def shown(self, value: object) -> Any:
        """For whoever asked for the run being recorded, shorten a value's large members as in its trace.

        A string for which a node has named a file is shortened whatever its size.
        """
        if isinstance(value, Mapping):
            return {key: self._shown_member(item) for key, item in value.items()}
        return self._shown_member(value)

    def _shown_member(self, value: object) -> Any:
        named = isinstance(value, str) and self.files is not None and self.files.named(value)
        if not named and not is_larger(value, LARGEST_SHOWN):
            return value
        return Excerpt(self.redactor, _SHOWN, self.files, longest=_SHOWN // 2).of(value)

    def checkpoint(self) -> dict[str, Any]:
        """Return the last outputs of each node in this trace so far, by node id, shortened and redacted."""
        written = {step.node.id: step.outputs for step in self.steps if step.outputs}
        most = min(LARGEST_STEP, LARGEST_CHECKPOINT // max(1, len(written)))
        # Redacted again: a secret may have become known after a step was recorded.
        shown: dict[str, Any] = self.redactor.value(written)
        longest = LONGEST_TEXT + _LONGEST_NOTE  # the texts were cut before
        return {
            node_id: Excerpt(self.redactor, most, longest=longest).of(outputs)
            for node_id, outputs in shown.items()
        }

    def write(self, folder: Path, error: PflowError | None) -> Path:
        path = folder / f"{self.run_id}.json"
        if self.files is not None:
            self.files.redact_again()
        content = {
            "milliseconds": _since(self._began),
            "success": error is None,
            "error": self.excerpt(error.to_dict()) if error else None,
            # Excerpted only now: redaction must come before shortening, and now every secret is known.
            "inputs": self.excerpt(self._inputs),
            **({"outputs": self.excerpt(self.outputs)} if self.outputs else {}),
            **({"preparations": [it.to_dict() for it in self.preparations]} if self.preparations else {}),
            "steps": [step.to_dict() for step in self.steps],
        }
        # Redacted again as a whole: a secret may have become known after a step was recorded.
        write_trace(path, {**self.head(), **self.redactor.value(content)})
        return path

    def head(self) -> dict[str, Any]:
        # It comes first, so that `trace_files` finds the owner without reading the rest.
        return {
            "run_id": self.run_id,
            **({"owner": self._owner} if self._owner else {}),
            "workflow": self.redactor.text(self._workflow),
            "started": self._started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }


def _some(items: Sequence[ItemTime], most: int) -> Sequence[ItemTime]:
    return [items[number * len(items) // most] for number in range(most)] if len(items) > most else items


def _ended(steps: Sequence[Step]) -> Iterator[NodeRef]:
    for step in reversed(steps):
        if step.error is None and step.action is not None:
            yield step.node
        elif step.error is not None:
            yield from _ended(step.steps)


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
