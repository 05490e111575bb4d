"""A node that runs once for each item of a list.

Items that run at the same time each get their own view of the shared store: they see what the run
wrote before the batch, and their item. What they write stays in that view and becomes their entry in
`results`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from functools import partial
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.running.attempts import Attempts, Prepare, Result, argument_types, failed
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.progress_bar import progress
from pflow_mcp_plugin.host.running.run_errors import node_failure
from pflow_mcp_plugin.host.running.shared_store import Fit, NodeAwareSharedStore
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, described
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.repetition import ITEMS, Batch

Engine = Callable[[int], AbstractContextManager[Executor]]
"""Opens the executor of a batch, which runs the given number of items at a time."""
ERRORS_IN_TRACE = 10
"""How many errors of a batch the trace shows."""
_NAP = 0.25
"""Seconds of one wait for a batch's next item."""

_Item = tuple[int, object]


@attrs.frozen
class _Done:
    """The result of one item: its outputs, and its failure if it failed."""

    index: int
    item: object
    outputs: Mapping[str, object]
    result: Result


def run_batch(
    attempts: Attempts,
    planned: PlannedNode,
    batch: Batch,
    prepare: Prepare,
    store: NodeAwareSharedStore,
    engine: Engine,
) -> Result:
    """Run a node for each item of its batch and write `results`, `errors` and counts.

    Args:
        attempts: Runs the node on the values of the run.
        planned: The node.
        batch: Its batch.
        prepare: Builds the real node.
        store: The node's view of the shared store.
        engine: Opens the executor that runs parallel items.
    """
    try:
        with foreign_code(partial(node_failure, planned.ref)):  # the list may be an object of another node
            items = _items(attempts, batch)
    except PflowError as failure:
        return failed(planned, failure, store)
    fit = argument_types(planned.ref.entry)
    one = partial(_run_item, attempts, planned, batch, prepare, fit)
    tally = _Tally(len(items))
    run = attempts.run
    try:
        with progress(planned.ref.id, len(items)) as advance:
            for done in _performed(one, items, batch, engine, run):
                tally.add(done)
                advance()
                run.check()
                run.report_progress(
                    planned.ref.id, tally.ended, len(items), f"{tally.ended} of {len(items)} items"
                )
    finally:  # the trace also says what was done when the run was interrupted
        attempts.run.annotate(planned.ref.id, {"batch": tally.noted()})
    return tally.close(planned, batch, store)


def _items(attempts: Attempts, batch: Batch) -> Sequence[object]:
    items = attempts.resolve(batch.items, "batch.items")
    try:
        return list(coerce(items, ITEMS))
    except TypeMismatch:
        raise PflowError(f"batch.items must be a list, got {described(items)}") from None


def _run_item(
    attempts: Attempts, planned: PlannedNode, batch: Batch, prepare: Prepare, fit: Fit, numbered: _Item
) -> _Done:
    index, item = numbered
    values = attrs.evolve(attempts.values, root={**attempts.values.root, batch.name: item})
    # Namespaced even if the workflow is not: an item's outputs are its own until the batch is done.
    store = NodeAwareSharedStore(
        values.root, planned.mapping.inputs, namespaced=True, lookup=values.find, fit=fit
    )
    mine = attrs.evolve(attempts, values=values)
    result = mine.perform(planned, prepare, store, batch.retry, note=lambda _params: None)
    return _Done(index, item, store.written, result)


def _performed(
    one: Callable[[_Item], _Done], items: Sequence[object], batch: Batch, engine: Engine, run: CurrentRun
) -> Iterator[_Done]:
    """Yield each item that ran, as it ends; none starts after a failure that ends the batch.

    Raises:
        PflowError: The run was stopped.
    """
    if not batch.parallel:
        for numbered in enumerate(items):
            done = one(numbered)
            yield done
            if done.result.failure and batch.fail_fast:
                return
        return
    width = max(1, min(batch.max_concurrent, len(items)))
    with engine(width) as executor:
        yield from _side_by_side(executor, one, items, batch, width, run)


def _side_by_side(
    executor: Executor,
    one: Callable[[_Item], _Done],
    items: Sequence[object],
    batch: Batch,
    width: int,
    run: CurrentRun,
) -> Iterator[_Done]:
    """Keep `width` items in flight; more would only wait, each holding memory."""
    ended: SimpleQueue[Future[_Done]] = SimpleQueue()
    waiting = iter(enumerate(items))
    flying = 0
    stopped = False
    while True:
        while flying < width and not stopped:
            numbered = next(waiting, None)
            if numbered is None:
                break
            executor.submit(one, numbered).add_done_callback(ended.put)
            flying += 1
        if not flying:
            return
        done = _next(ended, run).result()
        flying -= 1
        stopped = stopped or bool(done.result.failure and batch.fail_fast)
        yield done


def _next(ended: SimpleQueue[Future[_Done]], run: CurrentRun) -> Future[_Done]:
    """Wait for the next item; in short waits, as a Ctrl-C just before a wait does not interrupt it."""
    while True:
        run.check()  # an item that cannot be stopped is left behind, in its daemon thread
        try:
            return ended.get(timeout=_NAP)
        except Empty:
            continue


@attrs.define(eq=False, repr=False)
class _Tally:
    """Collects the results of the items, in their order."""

    count: int
    results: list[object] = attrs.field(init=False)
    errors: list[dict[str, object]] = attrs.field(factory=list)
    succeeded: int = 0
    retries: int = 0
    first: _Done | None = None

    def __attrs_post_init__(self) -> None:
        self.results = [None] * self.count

    def add(self, done: _Done) -> None:
        """Add one item."""
        self.retries += done.result.retries
        if done.result.failure is None:
            self.succeeded += 1
            self.results[done.index] = _without_no_error(done.outputs)
            return
        cause = done.result.failure.__cause__ or done.result.failure
        error = {"index": done.index, "item": done.item, "error": said(cause)}
        # Items end in any order; errors are listed in the order of the items.
        insort(self.errors, error, key=itemgetter("index"))
        if self.first is None:
            self.first = done

    @property
    def ended(self) -> int:
        """The number of items that have ended."""
        return self.succeeded + len(self.errors)

    @property
    def counts(self) -> dict[str, int]:
        """The number of items, and how many of them succeeded and failed."""
        return {"count": self.count, "succeeded": self.succeeded, "failed": len(self.errors)}

    def noted(self) -> dict[str, Any]:
        """Return the details for the trace."""
        first = {"errors": self.errors[:ERRORS_IN_TRACE]} if self.errors else {}
        return {**self.counts, "retries": self.retries, **first}

    def close(self, planned: PlannedNode, batch: Batch, store: NodeAwareSharedStore) -> Result:
        """Write the outputs and return how the batch ended."""
        for key, value in {"results": self.results, "errors": self.errors, **self.counts}.items():
            store[key] = value
        if self.first is None or not batch.fail_fast:
            # Every node has `error`: a template may name it whether or not the batch failed.
            store["error"] = None
            return Result("default")
        return self._failure(self.first, planned, store)

    def _failure(self, first: _Done, planned: PlannedNode, store: NodeAwareSharedStore) -> Result:
        noted = first.result.failure
        assert noted is not None  # noqa: S101 - `add` notes the first that failed
        cause = noted.__cause__ or noted
        where = f" at item {first.index + 1} of {self.count}"
        store["error"] = f"item {first.index + 1} of {self.count}: {said(cause)}"
        failure = node_failure(planned.ref, cause, where)
        failure.details |= {"item": first.index, **self.counts}
        return Result(first.result.action, failure)


def _without_no_error(outputs: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in outputs.items() if not (key == "error" and value is None)}
