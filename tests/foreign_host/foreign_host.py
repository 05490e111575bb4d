"""A second host for pflow's plugins, written from the documentation of the contract alone.

It shares no code with the embedded host: a dict for a registry, a loop for a runner, templates of
one line. What works here works in any host.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import attrs
import pluggy

from pflow_mcp_plugin import contract

_TEMPLATE = re.compile(r"\$\{([^}]+)\}")


class NotHere(contract.PflowError):
    """A node or a command that no plugin provides."""

    kind = "not_found"


@attrs.define
class ForeignRun:
    """One run, as nodes and plugins see it."""

    run_id: str
    workflow: contract.Workflow
    host: Any
    artifacts_dir: Path
    resources: dict[str, Any] = attrs.field(factory=dict)
    annotations: dict[str, Any] = attrs.field(factory=dict)
    secrets: set[str] = attrs.field(factory=set)

    def cancelled(self) -> bool:
        return False

    def annotate(self, node_id: str, details: Mapping[str, Any]) -> None:
        self.annotations.setdefault(node_id, {}).update(details)

    def add_secrets(self, values: Sequence[str]) -> None:
        self.secrets.update(values)


class ForeignHost:
    """The handle for plugins, and the registry, runner and settings behind it, all in one."""

    api = contract.API
    features = frozenset({"registry", "runner", "settings"})

    def __init__(self, home: Path) -> None:
        self.paths = contract.Paths(
            config=home / "config", data=home / "data", state=home / "state", cache=home / "cache"
        )
        self.registry = self.runner = self.settings = self.library = self.traces = self
        self.reported: list[str] = []
        self.runs: list[ForeignRun] = []
        self._table: dict[str, contract.Entry] = {}
        self._manager = pluggy.PluginManager(contract.PROJECT)
        self.hook = self._manager.hook

    def __enter__(self) -> Self:
        self._manager.add_hookspecs(contract.hookspecs)
        self.hook.pflow_addhooks.call_historic(kwargs={"manager": self._manager})
        self._manager.load_setuptools_entrypoints(contract.ENTRY_POINT_GROUP)
        self.hook.pflow_configure(host=self)
        return self

    def __exit__(self, *_: object) -> None:
        self.hook.pflow_unconfigure(host=self)

    def report(self, problem: contract.Problem) -> None:
        self.reported.append(str(problem))

    def refresh(self, source: str) -> None:
        self._table = {name: entry for name, entry in self._table.items() if entry.source != source}

    def sources(self) -> list[contract.NodeSource]:
        return [source for found in self.hook.pflow_register_nodes(host=self) for source in found]

    def get(self, node_type: str) -> Any:
        """Return the entry of a node type. (As settings, nothing is set.)"""
        if node_type not in self._table:
            fitting = [source for source in self.sources() if node_type.startswith(source.prefixes)]
            entry = next(filter(None, (source.get(node_type) for source in fitting)), None)
            if entry is None:
                reasons = [str(source.missing(node_type)) for source in fitting]
                raise NotHere("; ".join(reasons) or f"No node {node_type}")
            self._table[node_type] = entry
        return self._table[node_type]

    def check(self) -> list[contract.Problem]:
        """Return what every plugin finds wrong with its config."""
        return [problem for found in self.hook.pflow_validate_config(host=self) for problem in found]

    def command(self, words: Sequence[str]) -> contract.Report | None:
        """Run a plugin's command: its path, then its arguments."""
        commands = [item for found in self.hook.pflow_register_commands(host=self) for item in found]
        fitting = [command for command in commands if tuple(words[: len(command.path)]) == command.path]
        if not fitting:
            raise NotHere(f"No command {' '.join(words)}")
        command = max(fitting, key=lambda command: len(command.path))
        module, _, name = command.load.partition(":")
        loaded: contract.CommandLike = getattr(import_module(module), name)
        rest = list(words[len(command.path) :])
        return loaded.main(rest, "foreign " + " ".join(command.path), standalone_mode=False, obj=self)

    def validate(self, workflow: Mapping[str, Any]) -> list[contract.Problem]:
        """Find nothing: this host leaves it to the run."""
        return []

    def run(
        self,
        workflow: Mapping[str, Any],
        inputs: Mapping[str, Any],
        *,
        name: str = "foreign",
        trace: bool = False,
    ) -> contract.Outcome:
        """Run the nodes in a chain; the outputs are what each node wrote, by its id. There are no traces."""
        refs = [self._compile(node) for node in workflow["nodes"]]
        run_id = f"foreign-{len(self.runs) + 1}"
        compiled = contract.Workflow(
            name=name, nodes=tuple(ref for ref, _ in refs), certain=frozenset(ref.id for ref, _ in refs)
        )
        run = ForeignRun(run_id, compiled, self, self.paths.state / run_id)
        self.runs.append(run)
        store: dict[str, Any] = {**inputs, "__run__": run}
        with ExitStack() as stack:
            for context in self.hook.pflow_run_context(run=run):
                stack.enter_context(context)
            for ref, injected in refs:
                store[ref.id] = self._step(ref, injected, store)
        outputs = {ref.id: store[ref.id] for ref, _ in refs}
        return contract.Outcome(success=True, outputs=outputs, run_id=run_id, steps=len(refs))

    def _compile(self, node: Mapping[str, Any]) -> tuple[contract.NodeRef, dict[str, Any]]:
        entry = self.get(node["type"])
        ref = contract.NodeRef(id=node["id"], type=node["type"], entry=entry, params=node.get("params", {}))
        injected: dict[str, Any] = {}
        for given in self.hook.pflow_inject_params(node=ref):
            injected.update(given)
        return ref, injected

    def _step(
        self, ref: contract.NodeRef, injected: Mapping[str, Any], store: dict[str, Any]
    ) -> dict[str, Any]:
        made: contract.Node = getattr(import_module(ref.entry.module), ref.entry.class_name)()
        made.set_params({**_resolve(ref.params, store), **injected, "__node_id__": ref.id})
        own: dict[str, Any] = {}
        action = made.run(ChainMap(own, store)) or "default"
        if action != "default":
            raise contract.PflowError(f"{ref.id}: {own.get('error', action)}")
        return own


def _resolve(value: Any, store: Mapping[str, Any]) -> Any:
    """Fill in `${node.key}`; alone it keeps the value's type, inside text it becomes text."""
    if isinstance(value, Mapping):
        return {key: _resolve(item, store) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolve(item, store) for item in value]
    if not isinstance(value, str):
        return value
    if alone := _TEMPLATE.fullmatch(value):
        return _look_up(alone[1], store)
    return _TEMPLATE.sub(lambda match: str(_look_up(match[1], store)), value)


def _look_up(path: str, store: Mapping[str, Any]) -> Any:
    found: Any = store
    for key in path.split("."):
        found = found[key]
    return found
