"""The handle on a run for its nodes and plugins, and the progress of the run."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.contract import (
    THE_USER,
    Host,
    NodeRef,
    PflowError,
    Problem,
    Progress,
    Run,
    RunControl,
    RunOrigin,
    Workflow,
)
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import described
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.running.trace_recorder import Recorder, RunWatcher, Step
from pflow_mcp_plugin.host.running.value_excerpt import ValueFiles
from pflow_mcp_plugin.host.workflow.constructs import MOST_CONCURRENT
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.workflow_document import texts_in
from pflow_mcp_plugin.redaction import Redactor

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.running.recorded_run import RecordedRun, StepOfRun

_LONGEST = 200
"""The maximum number of characters of a message that are reported."""
_MOST_CONCEALED = 8_192
"""The maximum number of characters, in all, of what a step returned and is redacted; more would be slow."""


class CurrentRun(Run):
    """Implements the handle on a run for its nodes and plugins: counts its nodes, and can cancel it.

    `expected` is the number of nodes that run if each takes its default action. `control` receives the
    progress and can cancel the run; `watcher` shows it while it lasts. `run_id` is the id of the resumed run,
    if it is one.
    """

    def __init__(  # noqa: PLR0913 - most are rarely given
        self,
        host: Host,
        workflow: Workflow,
        origin: RunOrigin = THE_USER,
        control: RunControl | None = None,
        *,
        expected: int,
        watcher: RunWatcher | None = None,
        run_id: str = "",
    ) -> None:
        # Run ids sort by time.
        self.run_id = run_id or f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
        self.workflow = workflow
        self.host = host
        self.origin = origin
        self.artifacts_dir: Path = host.paths.state / "artifacts" / self.run_id
        self.resources: dict[str, Any] = {}
        self.record: RecordedRun | None = None
        self.above = ""  # in a workflow that a node runs, the place of that step
        self.items: tuple[str, ...] = ()  # inside items of batches, the key of each, the outermost first
        self.goes_on = False  # inside an item of a batch that goes on if items fail
        self.is_parallel = False  # inside an item of a batch whose items run at the same time
        # Of each batch that went on: its name, and the numbers of its failed and of all items.
        self.failed_items: list[tuple[str, int, int]] = []
        self.warnings: list[Problem] = []
        self._control = control = control or RunControl()
        control.run_id = self.run_id
        self.redactor = Redactor(control.secrets)
        self.watcher = watcher or RunWatcher()
        self.recorder = Recorder(
            self.run_id,
            workflow.name,
            self.redactor,
            ValueFiles(self.artifacts_dir, self.redactor),
            origin.owner,
            self.watcher,
        )
        self.progress = RunProgress(expected, self._tell)
        self._is_told = True  # until a listener fails
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._threads = threading.Semaphore(MOST_CONCURRENT)
        self._over = False
        self._stops: list[Callable[[], object]] = []
        self._states: dict[str, list[Callable[[], str]]] = {}
        control.on_cancel(self._stop)

    @property
    def began(self) -> str:
        # The id begins with the time, in UTC, and stays when the run is resumed.
        return datetime.fromisoformat(f"{self.run_id[:15].replace('-', 'T')}Z").isoformat()

    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()

    def on_cancel(self, stop: Callable[[], object]) -> None:
        with self._lock:
            if not self._cancelled.is_set():
                self._stops.append(stop)
                return
        stop()

    def check(self) -> None:
        """Raise PflowError, kind `interrupted`, if the current run has been stopped."""
        if self.cancelled():
            raise PflowError("The run was interrupted", kind="interrupted")

    @contextmanager
    def cancellable(self) -> Iterator[None]:
        """Make the current run cancellable by its handle until the `with` block ends; then it is too late.

        Raise PflowError, kind `interrupted`, if it was cancelled before or inside the block.
        """
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._over = True
                self._stops.clear()
            self.check()  # instead of what the stopped nodes raised

    def pause(self, seconds: float) -> None:
        self._cancelled.wait(seconds)
        self.check()

    def distinguish(self, node_id: str, state: Callable[[], str]) -> None:
        self._states.setdefault(node_id, []).append(state)

    def states(self, node_id: str) -> list[str]:
        with foreign_code(lambda error: PflowError(said(error)), passing=(PflowError,)):
            return [str(state()) for state in self._states.get(node_id, ())]

    def current_step(self) -> StepOfRun | None:
        if self.record is None:
            return None
        from pflow_mcp_plugin.host.running.recorded_run import current_step

        return current_step.get()

    def warn(self, problem: Problem) -> None:
        with self._lock:
            if problem not in self.warnings:
                self.warnings.append(problem)
        self.host.report(problem)

    def annotate(self, node_id: str, details: JSONObject) -> None:
        self.recorder.annotate(node_id, details)

    def name_file(self, value: str, file: Path) -> None:
        if self.recorder.files is not None:
            self.recorder.files.name(value, file)

    def add_secrets(self, values: Iterable[str]) -> None:
        secrets = tuple(values)
        self.redact(secrets)
        self._control.add_secrets(secrets)

    def add_derived(self, secret: str, made: Iterable[str]) -> None:
        """Treat what an expression made of a secret of the current run as that secret is treated."""
        (self.add_secrets if secret in self._control.secrets else self.redact)(made)

    def redact(self, values: Iterable[str]) -> None:
        """Redact these values from what is kept of the current run, though not from what it returns."""
        before = self.redactor.known
        self.redactor.add(values)
        if self.record is not None and self.redactor.known != before:
            self.record.redact_again()

    def conceal(self, returned: Iterable[object]) -> None:
        """Redact texts that a node returned, the shorter ones first, from what is kept of the current run."""
        texts = sorted(set(texts_in(returned)), key=lambda text: (len(text), text))
        lengths = accumulate(map(len, texts))
        self.redact(text for text, length in zip(texts, lengths, strict=True) if length <= _MOST_CONCEALED)

    def begin_preparation(self, label: str, node_ids: Iterable[str] = ()) -> Callable[[str], object]:
        return self.recorder.prepare(label, node_ids)

    def report_progress(
        self, node_id: str, done: float, total: float | None = None, message: str = ""
    ) -> None:
        self.watcher.progressed(node_id, done, total, self.redactor.text(message))
        self.progress.within(done, total, f"node {node_id}: {message}" if message else f"node {node_id}")

    def item(self, node: NodeRef, *, goes_on: bool, is_parallel: bool) -> tuple[CurrentRun, Step]:
        """Return the current run as an item of a batch has it, and the item's step."""
        inner = copy.copy(self)
        inner.recorder, step = self.recorder.item(node)
        inner.goes_on = self.goes_on or goes_on
        inner.is_parallel = self.is_parallel or is_parallel
        return inner, step

    @contextmanager
    def threads(self, wanted: int) -> Iterator[int]:
        # A batch that runs inside the items of another must not multiply its threads with theirs.
        taken = sum(self._threads.acquire(blocking=False) for _ in range(wanted))
        try:
            yield taken
        finally:
            if taken:
                self._threads.release(taken)

    def inside(self, node_id: str, expected: int) -> CurrentRun:
        """Return the run's handle for what runs inside one of its nodes; silent if 0 nodes are `expected`."""
        inner = copy.copy(self)
        inner.recorder = self.recorder.inside(node_id)
        inner.progress = self.progress.inside(expected)
        if (step := self.current_step()) is not None:
            inner.above = f"{step.place}/"
        return inner

    def _stop(self) -> None:
        with self._lock:
            if self._over:
                return
            self._cancelled.set()
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def _tell(self, done: float, total: float | None, message: str) -> None:
        if not self._is_told:
            return
        shown = self.redactor.text(message)[:_LONGEST].strip()
        try:
            self._control.report(Progress(done=done, total=total, message=shown))
        except Exception as error:  # noqa: BLE001 - the listener is the caller's code
            self._is_told = False
            message = f"The progress of the run is no longer reported: {described(error)}"
            self.warn(Problem(message=message, severity="warning", kind="execution"))


@attrs.define(eq=False, repr=False)
class RunProgress:
    """Counts the nodes of the current run that begin and end, in any thread, to report its progress.

    `expected` is the number of nodes that run if each takes its default action, 0 if unknown. `tell` gets how
    many have ended, including the fraction done of the one that runs now, out of how many, and a message.
    """

    _expected: int
    _tell: Callable[[float, float | None, str], object]
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _begun: int = attrs.field(init=False, default=0)
    _ended: int = attrs.field(init=False, default=0)
    _furthest: float = attrs.field(init=False, default=0.0)

    def begin(self, node_id: str) -> None:
        with self._lock:
            self._begun += 1
        self.within(0.0, None, f"node {node_id}")

    def end(self, node_id: str) -> None:
        with self._lock:
            self._ended += 1
        self.within(0.0, None, f"node {node_id} done")

    def within(self, done: float, total: float | None, message: str) -> None:
        share = done / total if total and 0 <= done <= total else 0.0
        with self._lock:
            # Never backwards: parallel items report in any order, and listeners may require progress to
            # increase.
            furthest = self._furthest = max(self._furthest, self._ended + share)
            most = max(self._expected, self._begun) if self._expected else None
        self._tell(furthest, most, message)

    def inside(self, expected: int) -> RunProgress:
        """Return the current run's progress inside the node that runs now; silent if 0 nodes are expected."""

        def tell(done: float, _: float | None, message: str) -> None:
            if expected:
                self.within(min(done, expected), expected, message)

        return RunProgress(expected, tell)
