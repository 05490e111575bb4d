"""Reuses results of earlier runs instead of running nodes, and keeps the results of nodes that ran."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import problem_of
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.plugins import Plugins
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.result_cache import LARGEST, KeptResult, ResultCache, open_cache
from pflow_mcp_plugin.host.running.result_key import (
    OWN_PARAMS,
    NotKept,
    code_of,
    exact_json,
    folder_now,
    result_key,
)
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore, Prepare
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.constructs import LONGEST_TTL
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.storage import StoreError

_Given = tuple[dict[str, object], dict[str, object]]
"""A node's params, and what it can read from the shared store."""


class ResultReuse:
    """What one run reuses of the results of earlier runs, and keeps of its own for later ones."""

    def __init__(self, run: CurrentRun, cache: ResultCache, plugins: Plugins) -> None:
        self.run = run
        self._cache = cache
        self._plugins = plugins
        # Files of runs are removed after a time, so no result may name them.
        self._files = Redactor([str(run.artifacts_dir.parent)])
        self._lock = threading.Lock()
        self._kept: dict[str, frozenset[str]] = {}
        self._broken = False

    @cached_property
    def place(self) -> dict[str, Any]:
        plugins = sorted(plugin.label for plugin in self._plugins.loaded)  # they may change how nodes behave
        return {"owner": self.run.origin.owner, "folder": folder_now(), "plugins": plugins}

    def of(self, planned: PlannedNode) -> NodeReuse:
        return NodeReuse(self, planned)

    def find(self, key: str, ttl: float) -> KeptResult | None:
        """Return the result to reuse instead of running a node; one with a secret in it is removed."""
        found = self._cache.get(key, ttl)
        if found is not None and (self._is_secret(found.outputs) or any(map(is_reserved, found.outputs))):
            self._cache.remove(key)
            return None
        return found

    def keep(self, key: str, action: str, outputs: JSONObject, inputs: object) -> None:
        """Let later runs reuse a node's result, or raise NotKept; `inputs` is what the node was given."""
        text = exact_json(outputs, "an output")
        if len(text) > min(LARGEST, self._cache.limit // 2):
            raise NotKept("the result is too large")
        known = self.run.redactor.known
        if self._is_secret([outputs, inputs]):
            raise NotKept("it contains a secret")
        if self._files.value(outputs) != outputs:
            raise NotKept("it refers to a file of this run")
        if self._broken:
            raise NotKept("the cache cannot be written")
        try:
            self._cache.put(key, action, text)
        except StoreError as error:
            self._broken = True
            message = f"Results are not kept for later runs: {error.message}"
            self.run.warn(problem_of(error, message=message, severity="warning", kind="config"))
            raise NotKept("the cache cannot be written") from error
        with self._lock:
            self._kept[key] = known

    def close(self) -> None:
        for key, known in self._kept.items():
            if known != self.run.redactor.known:
                # Part of it may have become known as a secret since: then this removes it.
                self.find(key, LONGEST_TTL)

    def _is_secret(self, value: Any) -> bool:
        return bool(self.run.redactor.value(value) != value)


class NodeReuse:
    """The reuse of results in one step: of a node, or of each item of its batch.

    The trace shows what is `noted`: the number of results that were reused (`cached`), with the `age` of the
    oldest in seconds, and the numbers of those `kept` and `not_kept`, with the reason `why`.
    """

    def __init__(self, reuse: ResultReuse, planned: PlannedNode) -> None:
        self._reuse = reuse
        self._ttl = planned.ttl or 0.0
        self._is_kept = planned.constructs.keep
        self._code = _code(planned)
        inside = planned.sub.every() if planned.sub else ()
        self._ids = [planned.ref.id, *(node.ref.id for node in inside)]
        self._reads = frozenset(planned.reads)
        self._lock = threading.Lock()
        self.noted: dict[str, Any] = {}

    @cached_property
    def _place(self) -> dict[str, Any]:
        states = [state for node_id in self._ids for state in self._reuse.run.states(node_id)]
        return {**self._reuse.place, "states": states}

    def through(self, prepare: Prepare) -> Prepare:
        """Wrap `prepare` so that the node runs only if there is no result to reuse."""
        return lambda params: partial(self._perform, prepare, params)

    def _perform(self, prepare: Prepare, params: Mapping[str, object], store: NodeAwareSharedStore) -> object:
        own = {name: value for name, value in params.items() if name not in OWN_PARAMS}
        given = own, {name: store[name] for name in sorted(self._reads) if name in store}
        try:
            key = result_key(self._code, self._place, *given)
        except (NotKept, PflowError) as reason:
            self._note(not_kept=1, why=str(reason))
            return prepare(params)(store)
        found = self._reuse.find(key, self._ttl)
        if found is not None:
            store.update(found.outputs)
            self._note(cached=1, age=max(0.0, time.time() - found.made))
            return found.action
        watched = WatchedStore(store, self._reads)
        action = prepare(params)(watched)
        taken = "default" if action is None or action == "" else action
        if isinstance(taken, str) and not store.has_failed(taken):
            self._keep(key, given, taken, watched)
        return action

    def _keep(self, key: str, given: _Given, action: str, watched: WatchedStore) -> None:
        reason = watched.reason if self._is_kept else "its node has keep: false"
        try:
            if not reason and result_key(self._code, self._place, *given) != key:
                reason = "it changed its inputs"
            if not reason:
                self._reuse.keep(key, action, watched.store.written, [*given])
        except NotKept as error:
            reason = str(error)
        self._note(**{"not_kept" if reason else "kept": 1}, why=reason)

    def _note(self, *, why: str = "", age: float | None = None, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                self.noted[name] = self.noted.get(name, 0) + count
            if why:
                self.noted.setdefault("why", why)
            if age is not None:
                self.noted["age"] = max(round(age, 1), self.noted.get("age", 0.0))


def _code(planned: PlannedNode) -> str:
    own = code_of(planned.ref.entry)
    if planned.sub is None:
        return own
    parts = [own, planned.sub.source, *map(_code, planned.sub.nodes)]
    return sha256(json.dumps(parts, default=str).encode()).hexdigest()


@attrs.define(eq=False, repr=False)
class WatchedStore(MutableMapping[str, Any]):
    """Watches whether a node uses the shared store in a way that makes its result unfit for reuse.

    The values of what it `reads` are part of the key. The `reason` is empty if the result can be kept.
    """

    store: NodeAwareSharedStore
    reads: frozenset[str]
    reason: str = ""

    def __getitem__(self, key: str) -> Any:
        if key not in self.reads and key not in self.store.written and key != "__run__":
            self.reason = f"it reads {key!r}, which its interface does not declare as an input"
        return self.store[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if is_reserved(key):
            self.reason = f"it writes {key!r}"
        self.store[key] = value

    def __delitem__(self, key: str) -> None:
        self.reason = f"it deletes {key!r}"
        del self.store[key]

    def __iter__(self) -> Iterator[str]:
        self.reason = "it lists the shared store"
        return iter(self.store)

    def __len__(self) -> int:
        self.reason = "it lists the shared store"
        return len(self.store)


def open_reuse(run: CurrentRun, plugins: Plugins) -> ResultReuse | None:
    """Return the reuse of results in a run; None if the user's limit is 0, so that none are kept."""
    settings = run.host.settings
    setting: Callable[[str], str | None] = settings.get if settings else lambda _: None
    cache = open_cache(run.host.paths.cache, setting, run.host.report)
    return ResultReuse(run, cache, plugins) if cache.limit else None
