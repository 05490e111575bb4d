"""Compiles a checked workflow into a plan: pure data that a run is built from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin.contract import Entry, Host, NodeRef, PflowError, Problem, Workflow
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.plugins import Plugins
from pflow_mcp_plugin.host.workflow.findings import errors_in, refusal, said
from pflow_mcp_plugin.host.workflow.flow_check import denied_flows
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.repetition import Batch, Caching, Retry, is_cacheable
from pflow_mcp_plugin.host.workflow.run_inputs import bind_inputs
from pflow_mcp_plugin.host.workflow.workflow_check import Checked, NodeTypes, check_workflow
from pflow_mcp_plugin.host.workflow.workflow_document import NodeMapping, NodeSpec, WorkflowDocument

if TYPE_CHECKING:  # loaded only when a lock is checked
    from pflow_mcp_plugin.host.workflow.locked_workflow import LockPlace


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PlannedNode:
    """A compiled node, as the plan of a run has it.

    Attributes:
        ref: Id, type, entry, params as written and what plugins injected.
        mapping: Its names at the root of the shared store.
        successors: The next node's id by action.
        batch: The items it runs for, if it has a batch.
        retry: How its failures are retried.
        caching: What the workflow says about keeping its results, if it does.
        ttl: Seconds for which the result of an earlier run stands in for it; None if it always runs and its
            results are not kept.
    """

    ref: NodeRef
    mapping: NodeMapping
    successors: Mapping[str, str]
    batch: Batch | None = None
    retry: Retry = attrs.field(factory=Retry)
    caching: Caching | None = None
    ttl: float | None = None

    def cached(self, ttl: float) -> PlannedNode:
        """Return the node of a run whose plan caches whatever may be, for so many seconds at most."""
        if not is_cacheable(self.ref.entry) or (self.caching and self.caching.never):
            return self
        return attrs.evolve(self, ttl=min(ttl, self.caching.ttl) if self.caching else ttl)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Compiled:
    """The plan of a run: a compiled workflow.

    Attributes:
        name: For messages.
        document: The workflow in normal form.
        graph: Its edges.
        nodes: The plan of each node.
        warnings: The problems found that do not prevent a run.
    """

    name: str
    document: WorkflowDocument
    graph: Graph
    nodes: tuple[PlannedNode, ...]
    warnings: tuple[Problem, ...] = ()

    @property
    def workflow(self) -> Workflow:
        """The compiled workflow in the form that a run passes to plugins."""
        refs = tuple(node.ref for node in self.nodes)
        kept = {node.ref.id for node in self.nodes if node.ttl is not None}
        return Workflow(name=self.name, nodes=refs, certain=self.graph.certain() - kept)

    def cached(self, ttl: float) -> Compiled:
        """Return the plan of a run that uses and keeps the results of every node for which that may be done.

        Args:
            ttl: Seconds for which a result is used, unless the node says fewer.
        """
        return attrs.evolve(self, nodes=tuple(node.cached(ttl) for node in self.nodes))

    def uncached(self) -> Compiled:
        """Return the plan of a run that neither uses nor keeps results, whatever the nodes say."""
        return attrs.evolve(self, nodes=tuple(attrs.evolve(node, ttl=None) for node in self.nodes))


def compile_workflow(  # noqa: PLR0913 - the parts of a host, and what the run is asked to be
    workflow: JSON,
    name: str,
    types: NodeTypes,
    host: Host,
    plugins: Plugins,
    inputs: Mapping[str, object] | None = None,
    *,
    lock: LockPlace | None = None,
) -> Compiled:
    """Check a workflow and, if it has no errors, compile it into a plan.

    Args:
        workflow: The workflow as loaded; it is not changed.
        name: Its name or file, for messages.
        types: The registry.
        host: The host it will run in.
        plugins: The plugins to ask for special parameters.
        inputs: The inputs of a run; None when the workflow is compiled without a run.
        lock: Where lock files are, if the nodes must be what they say.

    Raises:
        PflowError: Kind `validation` or `not_found`, with every problem; kind `config` when a
            plugin fails to return its parameters, or the policy on data flows has mistakes.
    """
    checked = check_workflow(workflow, types, None if inputs is None else frozenset(inputs))
    unbound = [] if inputs is None else bind_inputs(checked.document, inputs)[1]
    problems = (*checked.problems, *_differences(checked, lock, types, host, plugins))
    denied = denied_flows(checked, host.paths.config, inputs or ())
    errors = errors_in([*problems, *unbound, *denied])
    if errors:
        raise refusal(name, errors)
    # Unknown node types were refused above; `if entry` is for the type checker.
    pairs = ((node, checked.entries[node.type]) for node in checked.document.nodes)
    nodes = tuple(_plan(node, entry, checked, host, plugins) for node, entry in pairs if entry)
    return Compiled(
        name=name,
        document=checked.document,
        graph=checked.graph,
        nodes=nodes,
        warnings=problems,
    )


def _differences(
    checked: Checked, lock: LockPlace | None, types: NodeTypes, host: Host, plugins: Plugins
) -> Iterable[Problem]:
    if lock is None:
        return ()
    from pflow_mcp_plugin.host.workflow.locked_workflow import check_lock

    return check_lock(checked, lock, types, host, plugins)


def _plan(node: NodeSpec, entry: Entry, checked: Checked, host: Host, plugins: Plugins) -> PlannedNode:
    asked = NodeRef(id=node.id, type=node.type, entry=entry, params=node.params, host=host)
    planned = PlannedNode(
        ref=attrs.evolve(asked, injected=inject_params(asked, plugins)),
        mapping=checked.document.mapping(node.id),
        successors=checked.graph.successors[node.id],
        batch=node.batch,
        retry=node.retry or Retry(),
        caching=node.caching,
    )
    return planned.cached(node.caching.ttl) if node.caching else planned


def inject_params(node: NodeRef, plugins: Plugins) -> dict[str, object]:
    """Return the special parameters that plugins inject into a node as it is compiled.

    Raises:
        PflowError: A plugin raises, returns anything but `__dunder__` names, or sets one that
            another has set; names the plugins.
    """
    injected: dict[str, object] = {}
    givers: dict[str, str] = {}
    for plugin, params in _contributions(node, plugins):
        for key, value in params.items():
            _check_special(key, node, plugin, givers.get(key))
            injected[key] = value
            givers[key] = plugin
    return injected


def _contributions(node: NodeRef, plugins: Plugins) -> Iterator[tuple[str, Mapping[str, object]]]:
    for implementer, call in plugins.implementations("pflow_inject_params"):
        plugin = implementer.label
        with foreign_code(partial(_not_set_up, node, plugin)):
            params = call(node)
            given = dict(params) if isinstance(params, Mapping) else params
        if given is not None and not isinstance(given, dict):
            returned = f"returned a {type(given).__name__} as parameters"
            message = f"Plugin {plugin} {returned} of node {node.id} ({node.type})"
            raise PflowError(message, kind="config")
        yield plugin, given or {}


def _not_set_up(node: NodeRef, plugin: str, error: BaseException) -> PflowError:
    message = f"Plugin {plugin} failed to set up node {node.id} ({node.type}): {said(error)}"
    if not isinstance(error, PflowError):
        return PflowError(message, kind="config")
    return PflowError(
        message,
        details=error.details,
        suggestions=error.suggestions,
        problems=error.problems,
        kind="config",
    )


def _check_special(key: object, node: NodeRef, plugin: str, other: str | None) -> None:
    if not (isinstance(key, str) and len(key) > 4 and key.startswith("__") and key.endswith("__")):
        target = f"parameter {key if isinstance(key, str) else type(key).__name__} of node {node.id}"
        message = f"Plugin {plugin} may not set {target}: only __dunder__ names are allowed"
        raise PflowError(message, kind="config")
    if other is not None:
        raise PflowError(
            f"Plugins {other} and {plugin} both set {key} of node {node.id} ({node.type})", kind="config"
        )
