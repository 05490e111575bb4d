"""The trace of a run that was killed: a view of its record, made when somebody asks for it."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.running.run_record import UNDECIDED, RecordedStep, RunRecord, damaged, levels
from pflow_mcp_plugin.host.trace_files import write_trace

_OPEN = "It was sent, and nobody knows whether it happened"


def complete_traces(runs: Path, traces: Path) -> list[PflowError]:
    """Write the trace of each run that was killed, as a view of its record, unless it is there.

    A run that is going on holds its own record, and is left alone. Returns the errors of damaged records.
    """
    lost = []
    for path in (runs / "open").glob("*.db"):
        target = traces / f"{path.stem}.json"
        with suppress(PflowError, OSError):  # files that are not records are reported on resuming
            if target.exists() and target.stat().st_ctime_ns > path.stat().st_mtime_ns:
                continue
            with closing(RunRecord.open(path)) as record:
                try:
                    trace = trace_of(record)
                    if trace is None:
                        continue
                    began = datetime.fromisoformat(trace["started"])
                    ended = began.timestamp() + trace["milliseconds"] / 1000
                except PflowError as error:
                    lost.append(error)
                    continue
                except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                    lost.append(damaged(path, "its data for the trace was not written by pflow"))
                    continue
            write_trace(target, trace)
            # It is as old as the run: it must not become the latest because somebody asks for it now.
            os.utime(target, (ended, ended))
    return lost


def trace_of(record: RunRecord) -> dict[str, Any] | None:
    """Return a killed run's trace, as a view of its record; None if the run was not killed."""
    head = record.head()
    if head.get("error") is not None or "trace" not in head:
        return None
    run_id = record.path.stem
    steps, end = _steps(record)
    error = PflowError(
        "The run was killed before it had ended",
        suggestions=(f"To go on with it: pflow resume {run_id}",),
        kind="interrupted",
    )
    inputs = dict(head["trace"].pop("inputs"))
    failed = {"success": False, "error": error.to_dict(), "inputs": inputs}
    return {**head["trace"], "milliseconds": end, **failed, "steps": steps}


def _steps(record: RunRecord) -> tuple[list[dict[str, Any]], float]:
    """Return the steps for the trace of a killed run, and the milliseconds up to its last known moment."""
    top: list[dict[str, Any]] = []
    by_number: dict[int | None, dict[str, Any]] = {}
    end = 0.0
    for content, number, around, index in record.entries():
        end = max(end, content["offset"] + content.get("milliseconds", 0.0))
        parent = by_number.get(around)
        if index is not None and parent is not None:
            parent.setdefault("items", []).append(content)
            continue
        by_number[number] = content
        (top if parent is None else parent.setdefault("steps", [])).append(content)
    begun = [content for content in by_number.values() if "milliseconds" not in content]
    steps = record.steps()
    for content in begun:
        known: dict[str, Any] = dict.fromkeys(("action", "params", "outputs"))
        known |= {"error": "interrupted", "details": {}}
        content |= {**known, **content, "milliseconds": round(end - content["offset"], 3)}
        batch = content["details"].get("batch")
        if isinstance(batch, dict):
            item = re.compile(rf"{re.escape(content['id'])}\[\d+\][^/]*$")
            states = [step.state for step in steps if item.match(step.place)]
            if states:  # items that run workflows are not recorded as steps; the batch counts them itself
                batch |= {"succeeded": states.count("done"), "failed": states.count("failed")}
    for step in steps:
        if step.state in UNDECIDED:
            _show_open(step, begun)
    return top, end


def _show_open(step: RecordedStep, begun: list[dict[str, Any]]) -> None:
    """Show an undecided step in the trace of a killed run: nobody knows whether it happened."""
    shown: dict[str, Any] = {"params": json.loads(step.shown or "null"), "outputs": None, "error": _OPEN}
    way = list(levels(step.place))
    for level in way:
        _, node_id, item_and_pass = level
        content = next((it for it in reversed(begun) if it["id"] == node_id), None)
        if content is None:
            return
        is_last = level == way[-1]
        if not item_and_pass.startswith("["):
            if is_last:
                content |= {**shown, "details": {**content["details"], "step": step.place}}
            continue
        index, items = int(item_and_pass[1:].partition("]")[0]), content.setdefault("items", [])
        if all(it["index"] != index for it in items):  # otherwise its end is known
            # Of an item, only its open step is known, not when it began.
            error = shown["error"] if is_last else f"{step.place}: {_OPEN}"
            item = {"index": index, "offset": content["offset"], "milliseconds": None}
            items.append({**item, **shown, "error": error})
            items.sort(key=lambda it: int(it["index"]))
        return
