"""A node that runs once for each item of a list.

Items that run at the same time each get their own view of the shared store: they see what the run
wrote before the batch, and their item. What they write stays in that view and becomes their entry in
`results`.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from operator import itemgetter
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.problems import is_interruption
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.running.attempts import Attempts, Result, failed
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.result_key import value_key
from pflow_mcp_plugin.host.running.run_report import again, node_failure
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore, Prepare
from pflow_mcp_plugin.host.running.trace_recorder import ItemTime, Step
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, described
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.constructs import ITEMS, Batch

ERRORS_IN_TRACE = 10
"""The maximum number of errors of a batch that the trace shows."""
_MOMENT = 0.05
"""Seconds to wait at a time for items of a batch that run in threads."""

_Item = tuple[int, object]


@attrs.frozen(kw_only=True)
class _Done:
    index: int
    item: object
    store: NodeAwareSharedStore
    result: Result
    step: Step


def run_batch(
    attempts: Attempts, planned: PlannedNode, batch: Batch, prepare: Prepare, store: NodeAwareSharedStore
) -> Result:
    """Run a node for each item of its batch and write `results`, `errors` and counts."""
    try:
        with foreign_code(partial(node_failure, planned.ref)):  # the list may be an object of another node
            given = attempts.resolve(batch.items, "batch.items")
            try:
                items: Sequence[object] = list(coerce(given, ITEMS))
            except TypeMismatch:
                raise PflowError(f"batch.items must be a list, got {described(given)}") from None
    except PflowError as failure:
        return failed(planned, failure, store)
    _announce_items(attempts, planned, batch, items)
    one = partial(_run_item, attempts, planned, batch, prepare)
    entry = planned.ref.entry
    is_safe = entry.purity == "flow_safe" or bool(entry.idempotency_argument)
    # Keys outside the node's own name are read by nodes themselves, not only by templates.
    stores = attempts.values.document.namespaced and not planned.mapping.outputs
    tally = _Tally(len(items), stores)
    run = attempts.run
    run.recorder.annotate(planned.ref.id, {"batch": tally.noted()}, soon=True)
    try:
        run.watcher.items_ended(planned.ref.id, tally.counts)
        for some in _performed(one, items, batch, run):
            for done in some:
                tally.add(done, is_safe=is_safe)
                run.recorder.keep(planned.ref.id, done.index, done.step)
                run.watcher.items_ended(planned.ref.id, tally.counts)
                run.check()
                ended = len(tally.items)
                message = f"node {planned.ref.id}: {ended} of {len(items)} items"
                run.progress.within(ended, len(items), message)
            if planned.sub:  # nothing else in a run's record counts such items
                run.recorder.annotate(planned.ref.id, {"batch": tally.noted()}, soon=True)
    except BaseException as error:
        if is_interruption(error):
            run.cancel()  # at once: an item that asks, in its thread, keeps the terminal until then
        raise
    finally:  # the trace also tells what was done if the run is interrupted
        times = run.recorder.times_of(tally.times)
        attempts.run.annotate(planned.ref.id, {"batch": {**tally.noted(), "times": times}})
    return tally.close(planned, batch, store, run)


def _run_item(
    attempts: Attempts, planned: PlannedNode, batch: Batch, prepare: Prepare, numbered: _Item
) -> _Done:
    index, item = numbered
    run, step = attempts.run.item(planned.ref, goes_on=batch.goes_on, is_parallel=batch.parallel)
    if planned.sub and run.record:
        run.items = (*run.items, value_key(item))
    mine = attrs.evolve(_for_item(attempts, batch, item), run=run, item=index)
    mine.values.root["__run__"] = run
    # Namespaced even if the workflow is not: an item's outputs are its own until the batch is done.
    store = mine.store(planned, namespaced=True)
    result = mine.perform(planned, prepare, store, batch.retry, note=partial(setattr, step, "params"))
    step.error = result.reason
    written = {key: value for key, value in store.written.items() if key != "error"}
    step.outputs = planned.constructs.traced(written)
    run.recorder.end_item(step)
    return _Done(index=index, item=item, store=store, result=result, step=step)


def _for_item(attempts: Attempts, batch: Batch, item: object) -> Attempts:
    values = attrs.evolve(attempts.values, root={**attempts.values.root, batch.name: item})
    return attrs.evolve(attempts, values=values)


def _announce_items(attempts: Attempts, planned: PlannedNode, batch: Batch, items: Sequence[object]) -> None:
    # A resumed run must know the items before they run, or one could be mistaken for an earlier item that is
    # gone.
    record = attempts.run.record
    if record is None or not record.earlier.known:
        return
    place = f"{attempts.run.above}{planned.id}"
    if planned.sub:
        record.earlier.expect_items(place, [value_key(item) for item in items])
        return
    record.earlier.expect(place, [_for_item(attempts, batch, item).identity(planned) for item in items])


def _performed(
    one: Callable[[_Item], _Done], items: Sequence[object], batch: Batch, run: CurrentRun
) -> Iterator[list[_Done]]:
    """Run the items of a batch and yield some that ended; none starts after a failure that ends the batch."""
    numbered = iter(enumerate(items))
    with run.threads(min(batch.max_concurrent, len(items)) if batch.parallel else 0) as width:
        if width:
            turns = _Turns(one=one, waiting=numbered, fail_fast=batch.fail_fast, width=width)
            with Threads(width) as threads:
                yield from turns.ended(threads, run)
            return
        for each in numbered:
            done = one(each)
            yield [done]
            if done.result.failure and batch.fail_fast:
                return


@attrs.define(kw_only=True, eq=False, repr=False)
class _Turns:
    """The items of a batch: each thread takes one after another, so none waits to be handed one."""

    one: Callable[[_Item], _Done]
    waiting: Iterator[_Item]
    fail_fast: bool
    width: int
    _stopped: bool = False
    _ended: deque[_Done] = attrs.field(factory=deque)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _woken: threading.Event = attrs.field(factory=threading.Event)
    _room: threading.Semaphore = attrs.field(
        default=attrs.Factory(lambda self: threading.Semaphore(2 * self.width), takes_self=True)
    )

    def _work(self) -> None:
        try:
            while True:
                if not self._room.acquire(blocking=False):
                    self._woken.set()
                    self._room.acquire()  # released as `ended` passes results on
                with self._lock:
                    numbered = None if self._stopped else next(self.waiting, None)
                if numbered is None:
                    break
                done = copy_context().run(self.one, numbered)  # no context variables are shared
                if done.result.failure and self.fail_fast:
                    self._stopped = True
                self._ended.append(done)
        except BaseException:
            self._stopped = True
            raise

    def ended(self, threads: Executor, run: CurrentRun) -> Iterator[list[_Done]]:
        """Let threads do the items of the batch; yield them as they end, several at a time.

        Waking this thread for each item takes about as long as a quick call; but results must not pile up. If
        an item must not be done, those that have begun end first.
        """
        try:
            workers = [threads.submit(self._work) for _ in range(self.width)]
            for worker in workers:
                worker.add_done_callback(lambda _: self._woken.set())
            is_over = False
            while not is_over:
                self._woken.wait(_MOMENT)
                self._woken.clear()
                over = [worker for worker in workers if worker.done()]
                errors = [error for worker in over if (error := worker.exception()) is not None]
                unexpected = [error for error in errors if not isinstance(error, PflowError)]
                is_over = len(over) == self.width or bool(unexpected)
                if some := [self._ended.popleft() for _ in range(len(self._ended))]:
                    yield some
                    self._room.release(len(some))
                if not is_over:
                    run.check()  # an item that cannot be stopped is left behind, in its daemon thread
            if errors:
                raise (unexpected or errors)[0]
        finally:
            self._stopped = True
            self._room.release(self.width)


@attrs.define(eq=False, repr=False)
class _Tally:
    """Collects the results of a batch's items; with `stores`, large ones stay on disk."""

    count: int
    stores: bool
    items: dict[int, dict[str, object]] = attrs.field(factory=dict)
    errors: list[dict[str, object]] = attrs.field(factory=list)
    retries: int = 0
    first: _Done | None = None
    unknown: _Done | None = None
    times: list[ItemTime] = attrs.field(factory=list)

    def add(self, done: _Done, *, is_safe: bool) -> None:
        self.retries += done.result.retries
        began, ended = done.step.began, done.step.began + done.step.milliseconds / 1_000
        self.times.append((done.index, began, ended, done.result.failure is None))
        entry: dict[str, object] = {"index": done.index, "item": done.item, "result": None, "error": None}
        self.items[done.index] = entry
        if done.result.failure is None:
            written = done.store.written
            succeeded = {key: it for key, it in written.items() if key != "error" or it is not None}
            stored = done.store.stored if self.stores else None
            entry["result"] = stored or succeeded
            return
        entry["error"] = done.result.reason
        error = {"index": done.index, "item": done.item, "error": entry["error"]}
        # Items end in any order; errors are listed in the order of the items.
        insort(self.errors, error, key=itemgetter("index"))
        self.first = self.first or done
        if done.result.failure.ran == "unknown" and not is_safe:
            self.unknown = self.unknown or done

    @property
    def counts(self) -> dict[str, int]:
        failed = len(self.errors)
        return {"count": self.count, "succeeded": len(self.items) - failed, "failed": failed}

    def noted(self) -> dict[str, Any]:
        first = {"errors": self.errors[:ERRORS_IN_TRACE]} if self.errors else {}
        return {**self.counts, "retries": self.retries, **first}

    def close(
        self, planned: PlannedNode, batch: Batch, store: NodeAwareSharedStore, run: CurrentRun
    ) -> Result:
        # None stands for an item that failed or did not run.
        items = [self.items.get(index) for index in range(self.count)]
        results = [it and it["result"] for it in items]
        store.update({"results": results, "errors": self.errors, **self.counts, "items": items})
        first = self.first
        if batch.goes_on:  # not past an item that may have happened: later steps would lack its result
            first = self.unknown if run.record and run.record.kept else None
        if first is None:
            if self.errors:
                run.failed_items.append((f"{run.above}{planned.id}", len(self.errors), self.count))
            # Every node has `error`: a template may name it whether or not the batch failed.
            store["error"] = None
            return Result("default")
        noted = first.result.failure
        assert noted is not None  # noqa: S101 - `add` notes failed items
        place = f"[{first.index}] of {self.count}"
        if not batch.fail_fast:
            place = f"{place}, {len(self.errors)} of which failed"
        store["error"] = f"item {planned.id}{place}: {first.result.reason}"
        failure = node_failure(planned.ref, noted.__cause__ or noted, f" at item {planned.ref.id}{place}")
        failure.details |= {"item": first.index, **self.counts}
        if not batch.fail_fast and first is not self.unknown:
            failure.suggestions = (*failure.suggestions, *again(run))
        return Result(first.result.action, failure)
