"""The trace of a run: each step with its params, outputs and times, secrets redacted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import NodeRef, PflowError
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.interruption import end_if_interrupted
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.storage import write_atomic

LONGEST_TEXT = 2_000
"""Characters that the trace keeps of one string."""
LARGEST_STEP = 50_000
"""Characters that the trace keeps of a step's params, and of its outputs; approximate."""
LARGEST_CHECKPOINT = 200_000
"""Characters that a checkpoint keeps of what all nodes wrote; approximate."""
_DEEPEST = 20
_LONGEST_NAME = 200


@attrs.define(eq=False, repr=False)
class Step:
    """One step in the trace, while its node runs and after; times are in milliseconds.

    `offset` is the time from the start of the run to the start of the step.
    """

    node: NodeRef
    offset: float = 0.0
    began: float = attrs.field(factory=time.perf_counter)
    milliseconds: float = 0.0
    action: str | None = None
    params: object = None
    outputs: object = None
    error: str | None = None
    details: dict[str, Any] = attrs.field(factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return the step's JSON form in the trace."""
        return {
            "id": self.node.id,
            "type": self.node.type,
            "action": self.action,
            "offset": self.offset,
            "milliseconds": self.milliseconds,
            "params": self.params,
            "outputs": self.outputs,
            "error": self.error,
            "details": self.details,
        }


class Recorder:
    """Records the trace of one run.

    Args:
        run_id: Names the trace file.
        workflow: The workflow's name.
        redactor: Redacts the run's secrets.
        owner: Who asked for the run; empty for the user.
    """

    def __init__(self, run_id: str, workflow: str, redactor: Redactor, owner: str = "") -> None:
        self.steps: list[Step] = []
        self._run_id = run_id
        self._owner = owner
        self._workflow = workflow
        self._redactor = redactor
        self._inputs: object = {}
        self._started = time.time()
        self._began = time.perf_counter()

    @property
    def done(self) -> tuple[NodeRef, ...]:
        """The recorded nodes that succeeded, in the order in which they last did."""
        ended = (step.node for step in reversed(self.steps) if step.error is None and step.action is not None)
        distinct: dict[str, NodeRef] = {}
        for node in ended:
            distinct.setdefault(node.id, node)
        return tuple(reversed(distinct.values()))

    def given(self, inputs: Mapping[str, object]) -> None:
        """Record a copy of the inputs of the run in the trace."""
        self._inputs = _copied(inputs)

    def begin(self, node: NodeRef) -> Step:
        """Begin a step of the trace; the caller sets its fields to any values and ends it."""
        step = Step(node, offset=_since(self._began))
        self.steps.append(step)
        return step

    def end(self, step: Step) -> None:
        """End a step of the trace; its values are copied now, as later nodes may change them."""
        step.milliseconds = _since(step.began)
        step.params = self.excerpt(step.params)
        step.outputs = self.excerpt(step.outputs)
        step.error = self._redactor.text(step.error) if step.error else step.error

    def annotate(self, node_id: str, details: JSONObject) -> None:
        """Add details to the latest step of a node in the trace."""
        for step in reversed(self.steps):
            if step.node.id == node_id:
                step.details.update(self.excerpt(dict(details)))
                return

    def excerpt(self, value: object) -> Any:
        """Return `value` as the trace shows it: JSON of bounded size, secrets redacted."""
        return _Excerpt(self._redactor, LARGEST_STEP).of(value)

    def checkpoint(self) -> dict[str, Any]:
        """Return what each recorded node wrote when it last ran, by node id, shortened and redacted."""
        written = {step.node.id: step.outputs for step in self.steps if step.outputs}
        most = min(LARGEST_STEP, LARGEST_CHECKPOINT // max(1, len(written)))
        # Redacted again: a secret may have become known after a step was recorded.
        shown: dict[str, Any] = self._redactor.value(written)
        return {node_id: _Excerpt(self._redactor, most).of(outputs) for node_id, outputs in shown.items()}

    def write(self, folder: Path, error: PflowError | None) -> Path:
        """Write the recorded trace into `folder` and return its path.

        Raises:
            StoreError: It cannot be written.
        """
        path = folder / f"{self._run_id}.json"
        # Redacted again as a whole: a secret may have become known after a step was recorded.
        data = {**self._head(), **self._redactor.value(self._to_dict(error))}
        # `replace`, as a value may hold lone surrogates, which UTF-8 cannot encode.
        write_atomic(
            path, json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8", "replace"), follow=False
        )
        return path

    def _head(self) -> dict[str, object]:
        """Return what stands first in the file, where `trace_files` finds it without reading the rest."""
        return {"run_id": self._run_id, **({"owner": self._owner} if self._owner else {})}

    def _to_dict(self, error: PflowError | None) -> dict[str, object]:
        started = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self._started))
        return {
            "workflow": self._workflow,
            "started": f"{started}.{int(self._started % 1 * 1000):03d}Z",
            "milliseconds": _since(self._began),
            "success": error is None,
            "error": self.excerpt(error.to_dict()) if error else None,
            # Excerpted only now: redaction must come before shortening, and now every secret is known.
            "inputs": self.excerpt(self._inputs),
            "steps": [step.to_dict() for step in self.steps],
        }


class _Excerpt:
    """Copies a value until its budget of characters is used up."""

    def __init__(self, redactor: Redactor, budget: int) -> None:
        self._redactor = redactor
        self._left = budget

    def of(self, value: object, depth: int = 0) -> JSON:
        """Return the copy of a value; an object that cannot be read is shown by its class."""
        try:
            return self._read(value, depth)
        except BaseException as error:  # noqa: BLE001  # a node's own object may raise anything; the trace goes on
            end_if_interrupted(error)
            return self._text(f"<{type(value).__name__}>")

    def _read(self, value: object, depth: int) -> JSON:
        if value is None or isinstance(value, (bool, int)):
            self._left -= 5
            # Python refuses to write an integer of more than 4,300 digits as text, and so would `json.dumps`.
            return value if isinstance(value, bool) or abs(value or 0) < 2**63 else self._text(repr(value))
        if isinstance(value, str):
            return self._text(value)
        if depth < _DEEPEST and isinstance(value, Mapping):
            return self._mapping(value, depth)
        if depth < _DEEPEST and isinstance(value, (list, tuple)):
            return self._list(value, depth)
        if isinstance(value, float) and value - value == 0:  # finite: JSON has no infinity or NaN
            self._left -= 5
            return value
        return self._text(repr(value))

    def _text(self, text: str) -> str:
        # Redacted before it is cut. A secret that becomes known later is found beside the mark of the cut.
        shown = self._redactor.piece(text)
        kept = shown[: max(0, min(LONGEST_TEXT, self._left))]
        self._left -= len(kept)
        return kept if len(kept) == len(shown) else f"{kept}... ({len(text):,} characters)"

    def _mapping(self, value: Mapping[object, object], depth: int) -> dict[str, JSON]:
        copy: dict[str, JSON] = {}
        for count, (key, item) in enumerate(value.items()):
            if self._left <= 0:
                copy["..."] = f"{len(value) - count:,} more keys"
                break
            name = self._redactor.piece(key if isinstance(key, str) else self._name(key))
            name = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
            self._left -= len(name)
            copy[name] = self.of(item, depth + 1)
        return copy

    def _name(self, key: object) -> str:
        copy = self.of(key)
        return copy if isinstance(copy, str) else repr(copy)

    def _list(self, value: list[object] | tuple[object, ...], depth: int) -> list[JSON]:
        copy: list[JSON] = []
        for count, item in enumerate(self._redactor.strings_of(list(self._visible(value)))):
            if self._left <= 0:
                copy.append(f"... {len(value) - count:,} more items")
                break
            copy.append(self.of(item, depth + 1))
        return copy

    def _visible(self, value: Iterable[object]) -> Iterator[object]:
        """Yield the items that the budget allows, and the next one."""
        left = self._left
        for item in value:
            yield item
            if left <= 0:
                return
            left -= min(len(item), LONGEST_TEXT) if isinstance(item, str) else 1


def _copied(value: object, depth: int = 0) -> object:
    """Copy the objects and lists, which nodes could change in place."""
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {key: _copied(item, depth + 1) for key, item in value.items()}
    if depth < _DEEPEST and isinstance(value, (list, tuple)):
        return [_copied(item, depth + 1) for item in value]
    return value


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
