"""The failed items of batches after which a run went on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.host.running.trace_recorder import Step

_NAMED = 5
"""How many failed items of a batch a warning names."""


def failed_items(steps: Sequence[Step], run_id: str) -> Iterator[Problem]:
    """Yield a warning for each batch of a run that went on although some of its items failed.

    Args:
        steps: The recorded steps of the run.
        run_id: The run, if it has a trace; else empty.
    """
    found = {name: batch for name, batch in _partly_failed(steps, "") if batch["failed"]}
    for name, batch in found.items():  # the latest, where a batch ran several times
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


def _partly_failed(steps: Sequence[Step], items: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the counts of each batch that did not fail as a whole, by its name in the trace.

    Args:
        steps: Steps that follow one another.
        items: The indexes of the items of the batches around them: `[0][2]`.
    """
    for step in steps:
        batch = step.details.get("batch")
        if isinstance(batch, Mapping) and step.error is None:
            yield f"{step.node.id}{items}", batch
        yield from _partly_failed(step.steps, items)
        for index, item in step.items.items():
            yield from _partly_failed(item.steps, f"{items}[{index}]")
