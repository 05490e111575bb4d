"""The trace files of runs: how they are written, found, read and described."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from pflow_mcp_plugin.contract import PflowError, Traces
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.schemas.schema_reader import list_of, table_of
from pflow_mcp_plugin.storage import (
    CorruptFile,
    StoreError,
    decode_json,
    json_files_in,
    read_bytes,
    write_atomic,
)

if TYPE_CHECKING:
    from pflow_mcp_plugin.terminal.looks import Part

RunState = Literal["ok", "failed", "interrupted"]
StepState = Literal["ok", "skipped", "handled", "failed", "interrupted"]
MARKS: Mapping[StepState, Part] = {
    "ok": ("✓", "good"),
    "skipped": ("○", "dim"),
    "handled": ("!", "warn"),
    "failed": ("✗", "bad"),
    "interrupted": ("■", "warn"),
}
"""How the states of steps are shown."""
LATEST = "latest"
_HEAD = 8_192
"""Bytes of a trace file that are read for its owner."""
_OWNER = re.compile(r'\{\s*"run_id": "[^"\\]*",\s*(?:"owner": ("(?:[^"\\]|\\.)*")|"(?!owner"))')
"""The beginning of a trace file, as `trace_recorder` writes it."""


@attrs.frozen
class TraceFiles(Traces):
    """A folder of trace files, one JSON file for each run; `complete` adds those of killed runs."""

    folder: Path
    complete: Callable[[Path], object] = lambda _: None

    def paths(self) -> list[Path]:
        self.complete(self.folder)
        aged: list[tuple[int, Path]] = []
        for path in json_files_in(self.folder):
            try:
                status = path.lstat()
            except FileNotFoundError:  # deleted meanwhile
                continue
            except OSError as error:
                raise StoreError(path, f"could not be read: {error.strerror}") from error
            if stat.S_ISREG(status.st_mode):
                aged.append((status.st_mtime_ns, path))
        return [path for _, path in sorted(aged, reverse=True)]

    def find(self, run: str = LATEST, *, owner: str | None = None) -> Path:
        mine = (path for path in self._fitting(run) if owner is None or _owner(path) == owner)
        found = list(islice(mine, 1)) if run == LATEST else list(mine)
        exact = [path for path in found if path.stem == run]
        if len(found) == 1 or exact:
            return (exact or found)[0]
        if found:
            message = f"{len(found)} runs begin with {run}"
            raise PflowError(message, suggestions=tuple(path.stem for path in found[:5]), kind="not_found")
        if owner is None and Path(run).name == run:
            read_bytes(self.folder / f"{run}.json")  # reports what it is, if not a regular file
        message = "No traces yet" if run == LATEST else f"No trace of a run {run or repr(run)}"
        steps = ("See: pflow trace list",) if owner is None and self.paths() else ()
        raise PflowError(message, suggestions=steps, kind="not_found")

    def _fitting(self, run: str) -> list[Path]:
        if run == LATEST:
            return self.paths()
        if run.endswith(".json"):
            wanted = os.path.abspath(run)  # noqa: PTH100 - `resolve` would follow a link out of the folder
            return [path for path in self.paths() if os.path.abspath(path) == wanted]  # noqa: PTH100 - the same
        return [path for path in self.paths() if run and path.stem.startswith(run)]

    def read(self, path: Path) -> dict[str, Any]:
        content = read_bytes(path)
        if content is None:
            raise PflowError(f"No such file: {path}", kind="not_found")
        data = decode_json(path, content)
        steps = data.get("steps")
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise CorruptFile(path, "not a trace: it has no list of steps")
        return data


def write_trace(path: Path, data: Mapping[str, Any]) -> None:
    """Write the trace file of a run; raise StoreError if that fails."""
    # `replace`, as a value may hold lone surrogates, which UTF-8 cannot encode.
    content = json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8", "replace")
    write_atomic(path, content, follow=False)


def run_state(trace: Mapping[str, Any]) -> RunState:
    """Read from a trace file how its run ended."""
    if trace.get("success"):
        return "ok"
    kind = table_of(trace.get("error")).get("type")
    return "interrupted" if kind == "interrupted" else "failed"


def step_words(step: Mapping[str, Any]) -> str:
    """Describe a step of a trace file by what is special about it: its case, skipped, cached, retried."""
    details = _details(step)
    cache, batch = details.get("cache"), details.get("batch")
    words = [_route_words(step)]
    if isinstance(cache, Mapping) and cache.get("cached"):
        of_batch = f"{cache['cached']} of {batch.get('count')} " if isinstance(batch, Mapping) else ""
        words.append(f"{of_batch}cached")
    count = (batch if isinstance(batch, Mapping) else details).get("retries")
    if isinstance(count, int) and count:
        words.append(f"{count} retr{'y' if count == 1 else 'ies'}")
    return ", ".join(filter(None, words))


def shown_type(node_type: object) -> str:
    """Describe a node type read from a trace file: `workflow` if the workflow is written in the node."""
    text = str(node_type)
    return "workflow" if text.startswith("workflow:{") else text


def _details(step: Mapping[str, Any]) -> Mapping[str, Any]:
    return table_of(step.get("details"))


def _route_words(step: Mapping[str, Any]) -> str:
    """Say which way a step of a trace file took: its case, or skipped; empty if neither."""
    branch = _details(step).get("branch")
    if isinstance(branch, Mapping) and step.get("error") is None:
        return f"case {branch.get('case')}"
    return "skipped" if is_skipped(step) else ""


def action_words(step: Mapping[str, Any]) -> str:
    """Describe the action of a step of a trace file; empty if it is usual, or clear from its case."""
    action = step.get("action")
    usual = (None, "default") if step.get("error") is None else (None, "default", "error")
    return "" if _route_words(step) or action in usual else f"action {action}"


def is_skipped(step: Mapping[str, Any]) -> bool:
    """Whether a trace file says that a step did not run, as its condition was false."""
    return "skipped" in _details(step)


@attrs.frozen(kw_only=True, eq=False)
class TracedStep:
    """A step as read from a trace file: its state is `handled` if it failed and the run went on."""

    content: JSONObject
    state: StepState
    depth: int = 0  # how many steps it is inside of
    items: tuple[object, ...] = ()  # the indexes of the batch items that it ran for, the outermost first

    @property
    def name(self) -> str:
        return f"{self.content.get('id')}{''.join(f'[{index}]' for index in self.items)}"

    @property
    def steps(self) -> list[TracedStep]:
        lost: StepState = "handled" if self.content.get("error") is None else self.state
        return _traced(objects_in(self.content.get("steps")), lost, self.depth + 1, self.items)

    def steps_for(self, item: JSONObject) -> list[TracedStep]:
        lost: StepState = "handled" if item.get("error") is None else "failed"
        items = (*self.items, item.get("index"))
        return _traced(objects_in(item.get("steps")), lost, self.depth + 1, items)

    @property
    def batch(self) -> JSONObject:
        return table_of(_details(self.content).get("batch"))

    @property
    def item_steps(self) -> list[TracedStep]:
        return [self._item(item.get("index"), item) for item in self.batch_items]

    def item(self, index: int) -> TracedStep | None:
        """Return an item of this step's batch, as read from the trace file; None if that has none.

        For an item that the trace does not have separately, the step knows only what the batch wrote.
        """
        kept: JSONObject = next((it for it in self.batch_items if it.get("index") == index), {})
        entry = self._written(index)
        if not kept and not entry:
            return None
        written = {"outputs": entry.get("result"), "error": entry.get("error")}
        return self._item(index, {**written, **kept})

    def _item(self, index: JSON, item: JSONObject) -> TracedStep:
        state: StepState = "ok"
        if item.get("error") is not None:
            # An interrupted batch has items that failed before; the times of open ones are unknown.
            is_own = self.state == "interrupted" and item.get("milliseconds", 0) is not None
            state = "failed" if is_own or self.content.get("error") is None else self.state
        node = {key: self.content.get(key) for key in ("id", "type")}
        written, params = self._written(index).get("item"), item.get("params")
        values = params.values() if isinstance(params, Mapping) else ()
        is_among = any(it == written or (isinstance(it, str) and str(written) in it) for it in values)
        content = {**node, **({} if is_among else {"item": written}), **item}
        items = (*self.items, index)
        return TracedStep(content=content, state=state, depth=self.depth + 1, items=items)

    def _written(self, index: JSON) -> JSONObject:
        listed = table_of(self.content.get("outputs")).get("items")
        entries = (*objects_in(listed), *objects_in(self.batch.get("errors")))
        return next((it for it in entries if it.get("index") == index), {})

    @property
    def batch_items(self) -> list[JSONObject]:
        # The trace has only the times of other items.
        return objects_in(self.content.get("items"))

    def with_inner(self) -> Iterator[TracedStep]:
        yield self
        inner = [step for item in self.batch_items for step in self.steps_for(item)]
        for step in (*inner, *self.steps):
            yield from step.with_inner()


def traced_steps(trace: Mapping[str, Any]) -> list[TracedStep]:
    """Return the steps in a trace file, without those inside others."""
    return _traced(trace["steps"], "handled" if trace.get("success") else run_state(trace), 0, ())


def _traced(
    steps: Sequence[JSONObject], lost: StepState, depth: int, items: tuple[object, ...]
) -> list[TracedStep]:
    traced: list[TracedStep] = []
    for place, step in enumerate(steps, 1):
        state: StepState = "skipped" if is_skipped(step) else "ok"
        if step.get("error") is not None:
            state = lost if place == len(steps) else "handled"
        traced.append(TracedStep(content=step, state=state, depth=depth, items=items))
    return traced


def objects_in(value: JSON) -> list[JSONObject]:
    """Return the objects in a list of a trace file; empty if it is none."""
    return [each for each in list_of(value) if isinstance(each, dict)]


def _owner(path: Path) -> str | None:
    """Return the owner of a run from the head of its trace file; None if it is unknown."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "ignore")
    except OSError:
        return None
    found = _OWNER.match(head)
    if found is None:
        return None
    return str(json.loads(found[1])) if found[1] else ""
