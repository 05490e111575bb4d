"""Workflows that run as nodes of others: their check, their interface, and how to embed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import FAILURES, Field, Host, Interface, NodeUse, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import errors_in, problem_of
from pflow_mcp_plugin.host.workflow.coercion import alternatives, is_type
from pflow_mcp_plugin.host.workflow.document_reader import MOST_NODES
from pflow_mcp_plugin.host.workflow.findings import Findings, refusal
from pflow_mcp_plugin.host.workflow.reference_check import Scope, Scopes
from pflow_mcp_plugin.host.workflow.templates import has_template, lone, named
from pflow_mcp_plugin.host.workflow.workflow_check import CalledWorkflow, Checked, NodeTypes, check_one
from pflow_mcp_plugin.host.workflow.workflow_document import (
    WORKFLOW_NODE,
    NodeSpec,
    OutputSpec,
    Upgrade,
    WorkflowDocument,
    normalise,
)
from pflow_mcp_plugin.host.workflow.workflow_reads import expressions_in, own_type
from pflow_mcp_plugin.host.workflow.workflow_text import read_workflow
from pflow_mcp_plugin.schemas.schema_reader import table_of

_ORDINARY = FAILURES | {"default"}
"""Actions after which a workflow either goes on along its default edges or fails."""
DEEPEST = 16
"""How deep workflows may be nested."""
_COMPUTED = ("branch", "transform", "fail")
"""Our own node types that read nothing but what they are given, and the time by `now()`."""
_UNKNOWN = Interface(open=True, open_outputs=True)
"""The interface of a workflow that cannot be found: nothing about it is reported twice."""


def workflow_interface(checked: Checked, workflow: JSONObject) -> Interface:
    """Return the interface that a checked workflow has as a node of others.

    An output has the declared type of what its template names, with None added where a successful run may
    lack the value.
    """
    document = checked.document
    outputs = _Outputs(checked, workflow.get("outputs"))
    params = []
    for spec in document.inputs.values():
        shown = {"default": spec.default} if spec.has_default and not spec.secret else {}
        required = spec.required and not spec.has_default
        schema = {**spec.bounds, **shown} or None
        params.append(attrs.evolve(spec.field, type=_friendly(spec.type), required=required, schema=schema))
    return Interface(
        params=tuple(params),
        outputs=tuple(map(outputs.field, document.outputs.values())),
        inputs=tuple(document.inputs),
        open=not document.namespaced,
        open_outputs=not document.outputs,
    )


class _Outputs:
    def __init__(self, checked: Checked, declared: JSON) -> None:
        self._document = document = checked.document
        graph = checked.graph
        self._nodes = {node.id: node for node in document.nodes}
        self._declared = table_of(declared)
        shared = Scopes(document, self._nodes, checked.entries, frozenset())
        self._scope = Scope(shared=shared, nodes=graph.reachable)
        entries = filter(None, shared.entries.values())
        actions = {action for entry in entries for action in entry.interface.actions}
        is_straight = actions <= _ORDINARY and all(edge.route == "default" for edge in document.edges)
        # Where a failure may be recovered from, or another path taken, no node's outputs are certain.
        always = frozenset(node.id for node in document.nodes if not node.constructs.may_skip)
        self._certain = graph.certain() & always if is_straight else frozenset[str]()

    def field(self, output: OutputSpec) -> Field:
        found = self._found(output.source)
        kind = "any" if self._document.permissive else _friendly(found.type)
        roots = [part.root for part in named(output.source)]
        if kind != "any" and any(map(self._is_optional, roots)):
            kind = " | ".join(dict.fromkeys([*kind.split(" | "), "None"]))
        description = table_of(self._declared.get(output.name)).get("description")
        return attrs.evolve(
            found,
            key=output.name,
            type=kind,
            description=description if isinstance(description, str) else found.description,
        )

    def _found(self, source: str) -> Field:
        reference = lone(source)
        if reference is None:
            return Field(key="", type="str")
        if len(reference.path) == 1 and reference.root in self._scope.nodes:
            return Field(key="", type="dict")
        found = self._scope.declared(reference)
        if found is None:
            return Field(key="")
        node = self._nodes.get(reference.root)
        # The items of a batch are described for templates only: that of a failed item is None.
        is_hidden = reference.root in self._document.inputs or (node is not None and node.constructs.repeats)
        schema = found.schema if isinstance(found.schema, dict) and not is_hidden else None
        return attrs.evolve(found, required=False, shell_line=False, source_code=False, schema=schema)

    def _is_optional(self, root: str) -> bool:
        if spec := self._document.inputs.get(root):
            return spec.default is None if spec.has_default else not spec.required
        return root in self._nodes and root not in self._certain


def _friendly(kind: str) -> str:
    if not is_type(kind):
        return "any"
    names = dict.fromkeys(alternatives(kind))
    return "any" if "any" in names else " | ".join(names)


@attrs.frozen(kw_only=True)
class WorkflowPlace:
    """Where a workflow is: this decides where the workflows that it runs as nodes are looked up.

    `library` has the saved workflows, if there are any. A workflow without a `file`, such as a saved one,
    cannot name files. `name` is that of a saved workflow, or of its file as it was named.
    """

    library: Host | None = None
    file: Path | None = None
    name: str = ""

    @property
    def identity(self) -> str:
        """What distinguishes a workflow that others run; empty for one written inside another."""
        return str(self.file.absolute().resolve()) if self.file else self.name

    def of(self, name: str) -> WorkflowPlace:
        """Return the place of a workflow that the one here runs by name; only a file can name files."""
        if not names_file(name):
            return attrs.evolve(self, file=None, name=name)
        if self.file is None:
            step = "Save it too (pflow workflow save), and write its name"
            message = f"A workflow that has no file of its own cannot run the file {name}"
            raise PflowError(message, suggestions=(step,), kind="validation")
        return attrs.evolve(self, file=self.file.parent / Path(name).expanduser(), name=name)

    def read(self) -> JSONObject:
        if self.file is not None:
            return read_workflow(self.file)
        library = self.library.library if self.library else None
        if library is None:
            raise PflowError(f"No workflow is saved as {self.name}", kind="not_found")
        return library.get(self.name)

    @property
    def source(self) -> str:
        library = self.library.library if self.library and self.name else None
        if self.file is None and library is not None:
            return str(library.describe(self.name).path)
        return str(self.file or "")


def names_file(name: str) -> bool:
    """Return whether a node that runs a workflow names its file, and not a saved one."""
    return bool(set(name) & {"/", "\\", "."})


def check_workflow(
    workflow: JSON,
    types: NodeTypes,
    given: frozenset[str] | None = None,
    place: WorkflowPlace | None = None,
    inputs: Mapping[str, object] | None = None,
) -> Checked:
    """Check the workflows that run as nodes of one, at any depth, together with it: every problem.

    `given` and `inputs` are the names and the values of a run's inputs; None if there is no run, or the
    values are not known. `place` is where the workflow is, and so where those that it runs are looked up.
    """
    calls = _SubWorkflows(types, place or WorkflowPlace()).called
    # A workflow of the older shape names no inputs: a run brings them. In any other, missing inputs are a
    # mistake.
    if given is None and isinstance(workflow, Mapping) and "enable_namespacing" in workflow:
        given = frozenset()
    checked = check_one(workflow, types, given, calls, inputs)
    unmet = (attrs.evolve(problem, severity="warning") for problem in types.unmet(_uses(checked)))
    return attrs.evolve(checked, unmet=tuple(unmet))


def _uses(checked: Checked) -> Iterator[NodeUse]:
    waiting, met = [checked], {id(checked)}
    for each in waiting:
        yield from each.uses.values()
        inner = {id(called.checked): called.checked for called in each.called.values() if called.checked}
        waiting += [it for key, it in inner.items() if key not in met]
        met |= inner.keys()


class _SubWorkflows:
    """Finds and checks the workflows that others run as nodes; each file and saved one is checked once."""

    def __init__(self, types: NodeTypes, place: WorkflowPlace) -> None:
        self._types = types
        self._known: dict[str, CalledWorkflow] = {}
        self._chain = [place]
        self._sources: set[str] = set()

    def called(self, document: WorkflowDocument, findings: Findings) -> Mapping[str, CalledWorkflow]:
        """Find the workflows that nodes run; report those that cannot run as nodes, and problems in them."""
        called: dict[str, CalledWorkflow] = {}
        for node in document.nodes:
            if node.runs is not None and node.entry_key not in called:
                called[node.entry_key] = self._found(node, findings)
        size = len(document.nodes) + sum(
            called[node.entry_key].size for node in document.nodes if node.entry_key in called
        )
        if size > MOST_NODES:
            message = f"With the workflows that it runs it has {size:,} nodes, more than {MOST_NODES:,}"
            findings.error("$.nodes", message, "Use batch, or several workflows")
        return called

    def _found(self, node: NodeSpec, findings: Findings) -> CalledWorkflow:
        path = f"{node.path}.params.{WORKFLOW_NODE}"
        try:
            place, workflow = self._read(node)
            called = self._known.get(place.identity) if place.name else None
            if called is None:
                called = self._checked(node, place, workflow)
                self._known |= {place.identity: called} if place.name else {}
                findings.problems += self._moved(called, place, path)
            self._require_shallow([called.name], called.depth)
            _require_passable(called)
        except PflowError as error:
            kind = "not_found" if error.kind == "not_found" else "validation"
            findings.problems.append(problem_of(error, path=path, kind=kind))
            own = self._types.find(WORKFLOW_NODE)
            return CalledWorkflow(name=str(node.runs), entry=own and attrs.evolve(own, interface=_UNKNOWN))
        return called

    def _read(self, node: NodeSpec) -> tuple[WorkflowPlace, JSONObject]:
        here = self._chain[-1]
        if node.runs == "":
            step = "Write the name of a saved workflow, a file, or a workflow itself"
            raise PflowError(f"Node {node.id} names no workflow", suggestions=(step,), kind="validation")
        if isinstance(node.runs, Mapping):
            return attrs.evolve(here, name=""), node.runs
        if has_template(node.runs):
            message = f"Node {node.id} cannot choose a workflow when it runs: {node.runs} is not a name"
            step = "Write the name of a saved workflow or a file, and choose between nodes by edges"
            raise PflowError(message, suggestions=(step,), kind="validation")
        place = here.of(str(node.runs))
        above = [other.identity for other in self._chain if other.name]
        if place.identity in above:
            names = [other.name for other in self._chain if other.name]
            way = " -> ".join([*names[above.index(place.identity) :], place.name])
            raise PflowError(
                f"Workflow {place.name} would run itself: {way}",
                suggestions=("Repeat nodes by an edge that leads back, or with batch",),
                details={"workflows": way.split(" -> ")},
                kind="validation",
            )
        return place, place.read() if place.identity not in self._known else {}

    def _checked(self, node: NodeSpec, place: WorkflowPlace, workflow: JSONObject) -> CalledWorkflow:
        name = place.name or node.id
        self._require_shallow([*(other.name or "..." for other in self._chain[1:]), name], 1)
        self._chain.append(place)
        try:
            given = None if "enable_namespacing" in workflow else frozenset(node.params)
            checked = check_one(workflow, self._types, given, self.called)
        finally:
            self._chain.pop()
        below = [
            checked.called[inner.entry_key]
            for inner in checked.document.nodes
            if inner.entry_key in checked.called
        ]
        own, about = self._types.find(WORKFLOW_NODE), workflow.get("description")
        parts = [it for inner in checked.document.nodes if (it := checked.entries[inner.entry_key])]
        # Its actions are those of a failure inside it, and it is as pure as all nodes there together.
        failures = {action for entry in parts for action in entry.interface.actions} & FAILURES
        actions = ("default", "error", *sorted(failures - {"error"}))
        is_pure = all(entry.purity == "flow_safe" for entry in parts)
        claims = all("flow_safe" in (entry.purity, entry.claimed_purity) for entry in parts)
        # Results of a workflow that calls `now()` must not be kept.
        texts = (place.text for place in expressions_in(checked.document, checked.entries))
        asks_the_time = any("now(" in "".join(text.split()) for text in texts)
        entry = own and attrs.evolve(
            own,
            interface=attrs.evolve(workflow_interface(checked, workflow), actions=actions),
            description=about if isinstance(about, str) and about else own.description,
            purity="flow_safe" if is_pure else "impure",
            claimed_purity="flow_safe" if claims and not is_pure else "",
            cacheable=not asks_the_time and all(it.cacheable or own_type(it) in _COMPUTED for it in parts),
            retryable=any(entry.retryable for entry in parts),
        )
        return CalledWorkflow(
            name=name,
            entry=entry,
            workflow=workflow,
            checked=checked,
            depth=1 + max((inner.depth for inner in below), default=0),
            size=len(checked.document.nodes) + sum(inner.size for inner in below),
        )

    def _moved(self, called: CalledWorkflow, place: WorkflowPlace, path: str) -> Iterator[Problem]:
        """Yield the problems of a workflow as problems of the workflow that runs it as a node.

        If it is written inside that one, they have their path there; otherwise they name their workflow.
        """
        problems = called.checked.problems if called.checked else ()
        source = place.source if place.name and problems else ""
        self._sources |= {source} if source else set()
        for problem in problems:
            if problem.source and problem.source in self._sources and problem.source != source:
                yield problem  # of a workflow further inside
            elif place.name:
                message = f"in workflow {place.name}: {problem.message}"
                yield attrs.evolve(problem, message=message, source=source)
            else:
                yield attrs.evolve(problem, path=f"{path}{problem.path.removeprefix('$')}")

    def _require_shallow(self, names: Sequence[str], depth: int) -> None:
        if len(self._chain) + depth > DEEPEST:
            message = f"Workflows are nested more than {DEEPEST} deep: {' -> '.join(names)}"
            raise PflowError(message, suggestions=("Flatten them",), kind="validation")


def _require_passable(called: CalledWorkflow) -> None:
    if called.checked and WORKFLOW_NODE in called.checked.document.inputs:
        message = f"Workflow {called.name} has an input {WORKFLOW_NODE}, which no node can pass on"
        raise PflowError(message, suggestions=("Rename the input",), kind="validation")


def self_contained(workflow: JSONObject, checked: Checked, name: str, upgrade: Upgrade) -> JSONObject:
    """Return a workflow with the files that its nodes name written in it; those that are saved stay names.

    `checked` is the same workflow, checked where it is. If a file cannot be run, the error lists every
    problem.
    """
    nodes, has_files = [], False
    for node in checked.document.nodes:
        raw, called = dict(node.raw), checked.called.get(node.entry_key)
        is_file = isinstance(node.runs, str) and names_file(node.runs)
        if called and called.checked and (is_file or isinstance(node.runs, Mapping)):
            inner = self_contained(called.workflow, called.checked, called.name, upgrade)
            if is_file or inner is not called.workflow:
                raw["params"] = {**node.params, WORKFLOW_NODE: inner}
                has_files = True
        elif is_file:
            raise refusal(name, errors_in(checked.problems))
        nodes.append(raw)
    return {**normalise(workflow, upgrade), "nodes": nodes} if has_files else workflow
