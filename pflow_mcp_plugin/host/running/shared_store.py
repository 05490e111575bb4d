"""The values of a run: as templates read them, and a node's view of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import attrs

from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.templates import MissingValue, TemplateReference, follow, lone, parse_path
from pflow_mcp_plugin.host.workflow.workflow_document import WorkflowDocument

Fit = Callable[[str, Any], Any]
"""Converts a value read from the shared store to the type that the node expects under its name."""
Prepare = Callable[[Mapping[str, object]], Callable[[Any], object]]
"""Sets the params of a new copy of a node; returns a function that runs it on a store, to its action."""


@attrs.frozen(eq=False, repr=False)
class StoredValue:
    """A value of the shared store that is on disk; `load` reads it, raising PflowError if it is gone."""

    load: Callable[[], Any]


class BatchOutputs(dict[str, Any]):
    """The outputs of a batch among a run's values: lists of `StoredValue`s, loaded when they are read."""

    def loaded(self, *names: str) -> dict[str, Any]:
        """Return the values with their stored results loaded: only under these names, or by default all."""
        lists = {key for key in names or self if isinstance(self.get(key), list)}
        return {**self, **{key: [_loaded(it) for it in self[key]] for key in lists}}

    def read_by(self, node_id: str, text: str) -> dict[str, Any]:
        """Return what an expression may read of a run's values; stored results are loaded if it needs any."""
        names = re.findall(rf"{re.escape(node_id)}(\.(?:count|succeeded|failed|errors|error)\b)?", text)
        if all(names) and not _READS_MORE.search(text):
            return {key: it for key, it in self.items() if not isinstance(it, list) or key == "errors"}
        return self.loaded()

    def member(self, path: Sequence[str | int], reached: str) -> Any:
        # Of many stored results, only the one that the path names is read.
        value = self.get(str(path[0])) if len(path) > 1 else None
        if isinstance(value, list) and str(path[1]).removeprefix("-").isdecimal():
            index = int(path[1])
            if -len(value) <= index < len(value):
                return follow(_loaded(value[index]), path[2:], f"{reached}.{path[0]}[{path[1]}]")
        return follow(self.loaded(*map(str, path[:1])), path, reached)


_READS_MORE = re.compile(r"[@*\\]|\$(?!\.)")
"""What may refer to a node in an expression without its id: the current value, all values, an escape."""


def _loaded(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("result"), StoredValue):
        return {**value, "result": value["result"].load()}
    return value.load() if isinstance(value, StoredValue) else value


_NOTHING = object()
"""Marks a name that had no value in the shared store."""


@attrs.frozen(eq=False, repr=False)
class Values:
    """The values that one run has so far, as its templates read them.

    `written` is what each node wrote when it last ran, by node id; the last node to run comes last. `skipped`
    are the nodes that were skipped when it was last their turn.
    """

    document: WorkflowDocument
    root: dict[str, Any]
    written: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    skipped: set[str] = attrs.field(factory=set)

    def note(self, node_id: str, written: dict[str, Any]) -> None:
        self.written.pop(node_id, None)
        results = written.get("results")
        if isinstance(results, list) and any(isinstance(it, StoredValue) for it in results):
            written = BatchOutputs(written)
        self.written[node_id] = written

    def lookup(self, reference: TemplateReference) -> Any:
        """Return what this run has at a template's place; `MissingValue` says what is there instead."""
        name = reference.root
        if name in self.root and not is_reserved(name):
            return follow(self.root[name], reference.path[1:], name)
        if name in self.written:
            written = self.written[name]
            if isinstance(written, BatchOutputs):
                return written.member(reference.path[1:], name)
            return follow(written, reference.path[1:], name)
        raise MissingValue("", self.names())

    def find(self, name: str) -> Any:
        """Return a run's value at a key of the root, or at a path in it; raise LookupError if none."""
        if name in self.root:
            return self.root[name]
        path = parse_path(name)
        if path is None:
            raise MissingValue("", self.names())
        return self.lookup(TemplateReference(name, path))

    def everything(self, text: str) -> dict[str, Any]:
        """Return all values that the run has now, by name, as an expression sees them.

        Results of a batch that are not in memory are among them only if the expression may read them.
        """
        root = {name: value for name, value in self.root.items() if not is_reserved(name)}
        written = {
            name: outputs.read_by(name, text) if isinstance(outputs, BatchOutputs) else outputs
            for name, outputs in self.written.items()
            if name not in self.skipped
        }
        return {**written, **root}

    def names(self) -> list[str]:
        return [*(name for name in self.root if not is_reserved(name)), *self.written]

    def is_skipped(self, reference: TemplateReference) -> bool:
        return reference.root in self.skipped and reference.root not in self.root

    def is_left_out(self, value: object) -> bool:
        """Whether a param is a single template whose value was left out of the run's shared store.

        That is an optional input that was not given, or an output of a node that was skipped.
        """
        reference = lone(value)
        if reference is None:
            return False
        if self.is_skipped(reference):
            return True
        if len(reference.path) > 1:
            return False
        spec = self.document.inputs.get(reference.root)
        return spec is not None and not spec.required and reference.root not in self.root

    def is_absent(self, reference: TemplateReference) -> bool:
        """Whether the store lacks a template's value for a reason that a successful run may have.

        The value is that of a node that was not reached, was skipped, or failed and was recovered from, or of
        an optional input that was not given.
        """
        name = reference.root
        if name in self.root:
            return False
        if name in self.skipped:
            return True
        if name in self.written:
            return self.written[name].get("error") is not None and reference.path[1:] != ("error",)
        return name in self.document.inputs or any(node.id == name for node in self.document.nodes)


@attrs.define(eq=False, repr=False, slots=False)
class NodeAwareSharedStore(MutableMapping[str, Any]):
    """The shared store as one node sees it during one execution.

    A node reads first what it has written itself, then the root of the store, then what it wrote when
    it last ran. It reads and writes under its own names; mappings translate them.

    `namespaced` keeps what is `written` out of the root, except under mapped names. `before` is what the node
    wrote when it last ran. `stored` is what it has written, if that is on the disk, too. `lookup` finds the
    value for a mapped name, by default among the root's keys, and raises LookupError; `fit` converts a value
    read from the root to the type that the node expects.
    """

    _shared: MutableMapping[str, Any]
    _inputs: Mapping[str, str] = attrs.field(alias="input_mappings", factory=dict)
    _outputs: Mapping[str, str] = attrs.field(alias="output_mappings", factory=dict)
    _namespaced: bool = attrs.field(default=False, kw_only=True)
    _before: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)
    _lookup: Callable[[str], Any] = attrs.field(
        default=attrs.Factory(lambda self: self._shared.__getitem__, takes_self=True), kw_only=True
    )
    _fit: Fit = attrs.field(default=lambda _, value: value, kw_only=True)
    written: dict[str, Any] = attrs.field(init=False, factory=dict)
    stored: StoredValue | None = attrs.field(init=False, default=None)
    _former: dict[str, Any] = attrs.field(init=False, factory=dict)

    def __getitem__(self, key: str) -> Any:
        if key in self.written:
            return self.written[key]
        if key in self._inputs:
            try:
                value = self._lookup(self._inputs[key])
            except LookupError as error:
                raise KeyError(key) from error
            return self._fit(key, value)
        return self._fit(key, self._shared[key]) if key in self._shared else self._before[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if is_reserved(key):
            self._shared[key] = value
            return
        self.written[key] = value
        if key in self._outputs or not self._namespaced:
            name = self._outputs.get(key, key)
            self._remember(name)
            self._shared[name] = value

    def __delitem__(self, key: str) -> None:
        removed = self.written.pop(key, self) is not self
        name = self._outputs.get(key, key)
        shares = is_reserved(key) or key in self._outputs or not self._namespaced
        if shares and name in self._shared:
            self._remember(name)
            del self._shared[name]
        elif not removed:
            raise KeyError(key)

    def _remember(self, name: str) -> None:
        if not is_reserved(name):
            # The first write counts: a retry must find what was there before this execution.
            self._former.setdefault(name, self._shared.get(name, _NOTHING))

    def take_back(self) -> None:
        self.written.clear()
        self.stored = None
        for name, value in self._former.items():
            if value is _NOTHING:
                self._shared.pop(name, None)
            else:
                self._shared[name] = value
        self._former.clear()

    def has_failed(self, action: str) -> bool:
        # Other actions are plain branches unless the node says under `error` what went wrong.
        return action != "default" and (self.written.get("error") is not None or action == "error")

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys([*self.written, *self._inputs, *self._shared, *self._before])
        # A mapped name exists only if its source exists.
        return (name for name in names if name not in self._inputs or name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)!r})"
