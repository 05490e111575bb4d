"""Compiles a checked workflow that no lock or policy forbids into the plan of a run, which is pure data."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Host, LockCheck, NodeRef, NodeUse, PflowError, Problem, Workflow
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import problem_of
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.flow_policy import read_policy
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.plugins import PluginFailed, Plugins, plugin_code
from pflow_mcp_plugin.host.workflow.constructs import Constructs, is_cacheable
from pflow_mcp_plugin.host.workflow.findings import listing, said
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.workflow_check import Checked, NodeTypes
from pflow_mcp_plugin.host.workflow.workflow_document import NodeMapping, WorkflowDocument, split_route
from pflow_mcp_plugin.host.workflow.workflow_reads import own_type

_DOING = "could not compare the workflow with its lock file"


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class PlannedNode:
    """A node of a compiled workflow.

    `mapping` has its names at the root of the shared store, `successors` the next nodes by the `route` of the
    edge: its action, and its condition if any. For `ttl` seconds the result of an earlier run stands in for
    it; if that is None, it always runs and its results are not kept. `sub` is the plan of the workflow that
    it runs, if it runs one. `use` is what the check knows about it.
    """

    ref: NodeRef
    use: NodeUse
    mapping: NodeMapping
    successors: Mapping[str, str]
    constructs: Constructs
    ttl: float | None = None
    sub: Compiled | None = None

    @property
    def id(self) -> str:
        return self.ref.id.rpartition("/")[2]

    @cached_property
    def reads(self) -> list[str]:
        return sorted({*self.ref.entry.interface.reads, *self.mapping.inputs})

    @property
    def routed(self) -> frozenset[str]:
        """The actions for which the compiled node has an edge, with or without a condition."""
        return frozenset(split_route(route)[0] for route in self.successors)

    def cached(self, ttl: float | None) -> PlannedNode:
        caching = self.constructs.cache
        if ttl is None or (caching and caching.never):
            return attrs.evolve(self, ttl=None, sub=self.sub.cached(None) if self.sub else None)
        if not is_cacheable(self.ref.entry):
            # If a workflow is not read-only, parts of it may be.
            return attrs.evolve(self, sub=self.sub.cached(ttl)) if self.sub else self
        return attrs.evolve(self, ttl=min(ttl, caching.ttl) if caching else ttl)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class Compiled:
    """A compiled workflow: the plan of a run.

    `warnings` do not prevent a run; `unmet` warns about what nodes need and this machine lacks. `source` is
    the workflow as loaded.
    """

    name: str
    document: WorkflowDocument
    graph: Graph
    nodes: tuple[PlannedNode, ...]
    warnings: tuple[Problem, ...] = ()
    unmet: tuple[Problem, ...] = ()
    source: JSONObject = attrs.field(factory=dict)

    @property
    def workflow(self) -> Workflow:
        """The compiled workflow in the form that a run passes to plugins, with the nodes of all inside it."""
        certain = frozenset(node.ref.id for node in self.certain())
        return Workflow(name=self.name, nodes=tuple(node.ref for node in self.every()), certain=certain)

    def every(self) -> Iterator[PlannedNode]:
        """Yield the nodes of the compiled workflow, each followed by those of the workflow that it runs."""
        for node in self.nodes:
            yield node
            if node.sub:
                yield from node.sub.every()

    def certain(self) -> Iterator[PlannedNode]:
        """Yield the compiled nodes that are sure to run, uncached, if all take their default action."""
        certain = self.graph.certain({node.id for node in self.nodes if own_type(node.ref.entry) == "branch"})
        for node in self.nodes:
            if node.id in certain and node.ttl is None and not node.constructs.may_skip:
                yield node
                if node.sub:
                    yield from node.sub.certain()

    def required(self) -> Iterator[NodeUse]:
        """Yield the uses of nodes that a compiled plan certainly runs, and whose failure no edge handles."""
        certain = {node.ref.id for node in self.certain()}
        for node in self.nodes:
            # The list of a batch may be empty, or its other items may go on.
            if node.ref.id in certain and not node.constructs.repeats and "error" not in node.routed:
                yield node.use
                if node.sub:
                    yield from node.sub.required()

    @cached_property
    def size(self) -> int:
        """The number of compiled nodes that run if each takes its default action."""
        return len(self.graph.certain())

    def cached(self, ttl: float | None) -> Compiled:
        """Return this compiled plan with `ttl`, in seconds, at each node that may have one.

        With None, no node has one, whatever the workflow says.
        """
        return attrs.evolve(self, nodes=tuple(node.cached(ttl) for node in self.nodes))


def plan_of(name: str, checked: Checked, host: Host, plugins: Plugins, above: str = "") -> Compiled:
    """Compile a checked workflow into the plan of a run; `above` has the ids of the nodes around it.

    The error is of kind `config` if a plugin fails to return its parameters.
    """
    nodes: list[PlannedNode] = []
    for node in checked.document.nodes:
        entry, called, sub = checked.entries[node.entry_key], checked.called.get(node.entry_key), None
        if entry is None:  # for the type checker: unknown node types were refused
            continue
        asked = NodeRef(id=f"{above}{node.id}", type=node.type, entry=entry, params=node.params, host=host)
        if called and called.checked:
            plan = plan_of(called.name, called.checked, host, plugins, above=f"{asked.id}/")
            sub = attrs.evolve(plan, source=called.workflow)
        planned = PlannedNode(
            ref=attrs.evolve(asked, injected=inject_params(asked, plugins)),
            use=checked.uses[node.id],
            sub=sub,
            mapping=checked.document.mapping(node.id),
            successors=checked.graph.successors[node.id],
            constructs=node.constructs,
        )
        caching = node.constructs.cache
        kept = caching is not None and (caching.never or is_cacheable(entry))
        nodes.append(planned.cached(caching.ttl) if caching and kept else planned)
    return Compiled(name=name, document=checked.document, graph=checked.graph, nodes=tuple(nodes))


def denied_flows(checked: Checked, config: Path, given: Iterable[str] = ()) -> tuple[Problem, ...]:
    """Before compilation: return why a policy forbids a workflow, as errors about its data flows."""
    policy = read_policy(config)
    if policy is None:  # most users have none, so the search is loaded late
        return ()
    from pflow_mcp_plugin.host.workflow.data_flows import find_flows

    return find_flows(checked, policy, given).problems


def inject_params(node: NodeRef, plugins: Plugins) -> dict[str, object]:
    """Return the special parameters that plugins inject into a node as it is compiled.

    Only `__dunder__` names may be set that pflow does not set itself, and each by one plugin; an error names
    the plugins.
    """
    injected: dict[str, object] = {}
    givers: dict[str, str] = {}
    for implementer, call in plugins.implementations("pflow_inject_params"):
        plugin = implementer.label
        with foreign_code(partial(_not_set_up, node, plugin)):
            params = call(node)
            given = dict(params) if isinstance(params, Mapping) else params
        if given is not None and not isinstance(given, dict):
            returned = f"returned a {type(given).__name__} as parameters"
            message = f"Plugin {plugin} {returned} of node {node.id} ({node.type})"
            raise PflowError(message, kind="config")
        for key, value in (given or {}).items():
            shown = key if isinstance(key, str) else type(key).__name__
            message = f"Plugin {plugin} may not set parameter {shown} of node {node.id}"
            if not (is_reserved(key) and isinstance(key, str) and len(key) > 4):
                raise PflowError(f"{message}: only __dunder__ names are allowed", kind="config")
            if key == "__node_id__":
                raise PflowError(f"{message}: pflow sets it", kind="config")
            if key in givers:
                message = f"Plugins {givers[key]} and {plugin} both set {key} of node {node.id} ({node.type})"
                raise PflowError(message, kind="config")
            injected[key] = value
            givers[key] = plugin
    return injected


def _not_set_up(node: NodeRef, plugin: str, error: BaseException) -> PflowError:
    message = f"Plugin {plugin} failed to set up node {node.id} ({node.type}): {said(error)}"
    known = error if isinstance(error, PflowError) else PflowError("")
    return PflowError(
        message,
        details=known.details,
        suggestions=known.suggestions,
        problems=known.problems,
        kind="config",
    )


def check_lock(
    checked: Checked, file: Path | None, types: NodeTypes, host: Host, plugins: Plugins
) -> Iterator[Problem]:
    """Yield why plugins' lock files forbid compiling a checked workflow: differences, and uncovered nodes.

    Plugins look for a lock file first in the folder of the workflow's `file`, if it has one. A plugin that
    fails has not compared anything, so its failure is an error too.
    """
    nodes = tuple(_nodes(checked, host))
    check = LockCheck(host=host, nodes=nodes, folder=file.parent if file else None)
    asked: set[str] = set()
    for plugin, call in plugins.implementations("pflow_check_lock"):
        asked.add(plugin.name)
        found: list[Problem] = []
        try:
            with plugin_code(plugin, _DOING, passing=(PflowError,)):
                found.extend(map(_of_this_kind, call(check) or ()))
        except PflowError as error:
            message = error.message
            if not isinstance(error, PluginFailed):
                message = f"Plugin {plugin.label} {_DOING}: {message}"
            found.append(problem_of(error, message=message, kind="validation", source=plugin.name))
            if len(error.problems) > 1:  # a single one is in the message already
                found += (_of_this_kind(it) for it in error.problems if isinstance(it, Problem))
        yield from found
    owners = {node.entry.node: types.plugin_of(node.entry.node) for node in nodes}
    for owner in dict.fromkeys(owners.values()):
        if owner and owner.name not in asked:
            named = listing(node for node, other in owners.items() if other is owner)
            message = f"Plugin {owner.label} has no lock file, so its nodes may change: {named}"
            yield Problem(message=message, severity="warning")
    if not any(owners.values()):
        message = "Nothing in this workflow is locked: it has no node of a plugin"
        yield Problem(message=message, severity="warning")


def _nodes(checked: Checked, host: Host, above: str = "") -> Iterator[NodeRef]:
    for node in checked.document.nodes:
        entry = checked.entries[node.entry_key]
        node_id = f"{above}{node.id}"
        if entry and node.id:
            yield NodeRef(id=node_id, type=node.type, entry=entry, params=node.params, host=host)
        called = checked.called.get(node.entry_key)
        if called and called.checked:
            yield from _nodes(called.checked, host, f"{node_id}/")


def _of_this_kind(problem: object) -> Problem:
    if not isinstance(problem, Problem):
        raise TypeError(f"it returned a {type(problem).__name__}, not a Problem")
    return attrs.evolve(problem, kind="validation")


def load_node(ref: NodeRef) -> Any:
    """Return a new node of the class that a compiled plan, pure data, only names; PflowError on failure."""
    entry = ref.entry
    with foreign_code(partial(_unloadable, ref)):
        return getattr(importlib.import_module(entry.module), entry.class_name)()


def _unloadable(ref: NodeRef, error: BaseException) -> PflowError:
    entry = ref.entry
    message = (
        f"Node {ref.id} ({ref.type}) cannot be loaded from {entry.module}:{entry.class_name}: {said(error)}"
    )
    step = f"Reinstall what provides {entry.source} nodes" if entry.source else "Check the registry entry"
    return PflowError(
        message, details={"node": ref.id, "node_type": ref.type}, suggestions=(step,), kind="config"
    )
