"""The check of a whole workflow: every problem at once, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import attrs

from pflow_mcp_plugin.contract import Entry, Field, NodeUse, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.plugins import Plugin
from pflow_mcp_plugin.host.workflow.coercion import (
    TypeMismatch,
    coerce,
    depends_on_value,
    may_become,
    require_within,
    type_of,
)
from pflow_mcp_plugin.host.workflow.constructs import IF_NOT_RUN, IF_SKIPPED, KnownRun, Path
from pflow_mcp_plugin.host.workflow.document_reader import read_document
from pflow_mcp_plugin.host.workflow.findings import Findings, TooManyProblems, at, listing
from pflow_mcp_plugin.host.workflow.graph import Graph, NodeSet, RouteCheck
from pflow_mcp_plugin.host.workflow.reference_check import (
    Absence,
    ReferenceCheck,
    Scope,
    Scopes,
    check_absences,
    check_cases,
    check_outputs,
    check_shell_line,
)
from pflow_mcp_plugin.host.workflow.shell_lines import is_shell_line
from pflow_mcp_plugin.host.workflow.templates import (
    IN_CODE,
    TemplateReference,
    has_template,
    in_code,
    lone,
    mapped_source,
    named,
    parse,
    parse_path,
    strings,
)
from pflow_mcp_plugin.host.workflow.workflow_document import (
    HTTP,
    STILL_TO_COME,
    NodeSpec,
    WorkflowDocument,
    bind_inputs,
    normalise,
    only_fetches,
)
from pflow_mcp_plugin.host.workflow.workflow_reads import (
    DATA,
    OWN,
    WorkflowReads,
    expression_params,
    fitting,
    known_params,
    known_value,
    own_type,
    param_expressions,
    reads,
    values_of,
)
from pflow_mcp_plugin.terminal.similar_names import did_you_mean, first_meant


class NodeTypes(Protocol):
    """What the check of a whole workflow asks about node types: their entries, and what they lack here."""

    def find(self, node_type: str) -> Entry | None: ...

    def missing(self, node_type: str) -> Problem: ...

    def unmet(self, uses: Iterable[NodeUse]) -> Iterable[Problem]:
        """Yield warnings about what the nodes of the workflow being checked need and this machine lacks."""

    def check_use(self, use: NodeUse) -> Iterable[Problem]:
        """For the check of a workflow: return the problems that a node's source finds in its use."""

    def upgrade(self, node: JSONObject) -> JSONObject | None: ...

    def plugin_of(self, node_type: str) -> Plugin | None:
        """Return the plugin of a node type in a checked workflow, None if it is the host's own or saved."""


@attrs.define(eq=False)
class ChangedEntries:
    """For the check of a workflow with changed entries: its node types; anything else is as in `types`."""

    types: NodeTypes
    change: Callable[[Entry], Entry]

    def find(self, node_type: str) -> Entry | None:
        entry = self.types.find(node_type)
        return self.change(entry) if entry else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.types, name)


def trusted(entry: Entry) -> Entry:
    """For the check of a workflow's data flows: return a node's entry, believing its claim to be safe."""
    return attrs.evolve(entry, purity="flow_safe") if entry.claimed_purity else entry


def opened(entry: Entry) -> Entry:
    """For the check of a workflow: return a node's entry as one that accepts undeclared parameters."""
    return attrs.evolve(entry, interface=attrs.evolve(entry.interface, open=True))


def fetching(entry: Entry, node: NodeSpec) -> Entry:
    """For the check of a workflow: return an `http`'s entry as safe to repeat if it only fetches."""
    if entry.source != OWN or not only_fetches(node.params):
        return entry
    effects = tuple(effect for effect in entry.effects if effect != "destructive")
    # Its result is not kept for later runs if there is `auth`, which may name another account by then.
    return attrs.evolve(entry, purity="flow_safe", cacheable="auth" not in node.params, effects=effects)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Checked:
    """What the workflow check found: the document's well-formed parts, in normal form, and every problem.

    `entries` has the entry of each node type it uses by `NodeSpec.entry_key`, None for an unknown one,
    `called` the workflows that its nodes run, and `uses` what is known of the use of each node, by its id.
    `unmet` warns about what nodes need and this machine lacks.
    """

    document: WorkflowDocument
    entries: Mapping[str, Entry | None]
    graph: Graph
    problems: tuple[Problem, ...]
    called: Mapping[str, CalledWorkflow] = attrs.field(factory=dict)
    uses: Mapping[str, NodeUse] = attrs.field(factory=dict)
    unmet: tuple[Problem, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CalledWorkflow:
    """What the check of a workflow found in another workflow, which one of its nodes runs.

    `checked` is None if it cannot be run at all. `name` is its saved name or its file, as the node has it, or
    the node's id if it is written there. `entry` has its inputs and outputs as those of a node. `depth` is
    how deep workflows are nested, and `size` how many nodes it has, both including those that it runs.
    """

    name: str
    entry: Entry | None
    workflow: JSONObject = attrs.field(factory=dict)
    checked: Checked | None = None
    depth: int = 0
    size: int = 0


Calls = Callable[[WorkflowDocument, Findings], Mapping[str, CalledWorkflow]]
"""Finds the workflows that the nodes of a document run, by node type; reports what is wrong with them."""


def check_one(
    workflow: JSON,
    types: NodeTypes,
    given: frozenset[str] | None,
    calls: Calls,
    inputs: Mapping[str, object] | None = None,
) -> Checked:
    """Check one workflow, without those that it runs: read it and collect every problem.

    `given` and `inputs` are the names and the values of a run's inputs; None if there is no run, or the
    values are not known. `calls` finds the workflows that it runs.
    """
    findings = Findings()
    document = WorkflowDocument()
    entries: dict[str, Entry | None] = {}
    called: Mapping[str, CalledWorkflow] = {}
    uses: dict[str, NodeUse] = {}
    missing: dict[str, Problem] = {}
    excess: tuple[Problem, ...] = ()
    try:
        document = read_document(normalise(workflow, types.upgrade), findings)
        called = calls(document, findings)
        others = {node.entry_key: node for node in document.nodes if node.entry_key not in called}
        for key, node in others.items():
            entry = types.find(node.type) if node.type else None
            entry = fetching(entry, node) if entry and node.type == HTTP else entry
            entries[key] = opened(entry) if entry and node.extra else entry
            if entry is None and node.type:
                missing[key] = types.missing(node.type)
        entries |= {kind: found.entry for kind, found in called.items()}
        # What is wrong with the use of a misspelt node is reported, too.
        meant = {key: types.find(first_meant(problem.suggestion)) for key, problem in missing.items()}
        assumed = entries | meant
        _Check(document, Graph.of(document), assumed, types, given, findings, missing, inputs, uses).run()
    except TooManyProblems as error:
        excess = (Problem(message=error.message, path="$"),)
    # A template that occurs twice in a string is one problem, not two.
    problems = (*dict.fromkeys(findings.problems), *excess)
    return Checked(
        document=document,
        entries=entries,
        graph=Graph.of(document),
        problems=problems,
        called=called,
        uses=uses,
    )


@attrs.define(eq=False, repr=False)
class _Check:
    document: WorkflowDocument
    graph: Graph
    entries: Mapping[str, Entry | None]
    types: NodeTypes
    given: frozenset[str] | None
    findings: Findings
    missing: Mapping[str, Problem]
    inputs: Mapping[str, object] | None
    uses: dict[str, NodeUse]
    nodes: dict[str, NodeSpec] = attrs.field(init=False, factory=dict)
    scopes: Scopes = attrs.field(init=False)
    routes: RouteCheck = attrs.field(init=False)
    certain: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # If two nodes have the same id, the first counts; the second is reported.
        for node in self.document.nodes:
            self.nodes.setdefault(node.id, node)
        extra = frozenset() if self.document.namespaced else self.given or frozenset()
        self.scopes = Scopes(self.document, self.nodes, self.entries, extra)
        self.routes = RouteCheck(
            document=self.document,
            graph=self.graph,
            nodes=self.nodes,
            entries=self.scopes.entries,
            findings=self.findings,
        )
        branches = [it.id for it in self.document.nodes if own_type(self.entries[it.entry_key]) == "branch"]
        self.certain = self.graph.certain(branches)

    def run(self) -> None:
        for node in self.document.nodes:
            path, first = f"{node.path}.id", self.nodes[node.id]
            if first is not node:
                self.findings.error(path, f"Node id {node.id} is already used by {first.path}", "Rename one")
            if self.document.namespaced and node.id in self.document.inputs:
                message = f"Node id {node.id} is also the name of an input"
                self.findings.error(path, message, "Rename one, so that templates can distinguish them")
        for node in self.document.nodes:
            self.check_node(node)
        self.routes.run()
        self.check_edge_conditions()
        self.check_mappings()
        self.check_outputs()
        read = WorkflowReads(self.document, self.entries)
        self.check_uses(read)
        self.check_inputs_are_used(read)

    @property
    def lenient(self) -> bool:
        # Whoever runs the workflow may put anything at the root of the store.
        return self.given is None and not self.document.namespaced

    def scope(self, node_id: str) -> Scope:
        nodes = self.graph.before(node_id)
        if node_id not in self.graph.reachable:
            # It is reported as such; its templates may name any other node.
            everything = (1 << len(nodes.positions)) - 1
            nodes = NodeSet(nodes.positions, everything & ~(1 << nodes.positions[node_id]))
        return Scope(shared=self.scopes, nodes=nodes)

    def inner_scope(self, node: NodeSpec) -> Scope:
        scope = self.scope(node.id)
        return attrs.evolve(scope, item=node.constructs.inside(scope.declared))

    def reference_check(self, scope: Scope, user: str) -> ReferenceCheck:
        return ReferenceCheck(
            scope=scope,
            node_ids=self.nodes,
            user=user,
            severity="warning" if self.document.permissive else "error",
            findings=self.findings,
            may_lack=self.may_lack,
        )

    def may_lack(self, name: str) -> bool:
        """For the check of a workflow: return whether a run may go on without this node or input."""
        source, spec = self.nodes.get(name), self.document.inputs.get(name)
        if source is not None:
            return source.constructs.may_skip or name not in self.certain
        return spec is not None and spec.may_lack

    def check_node(self, node: NodeSpec) -> None:
        self.check_constructs(node)
        self.check_recipe(node)
        scope = self.inner_scope(node)
        entry = self.entries[node.entry_key]
        if missing := self.missing.get(node.entry_key):
            self.findings.problems.append(attrs.evolve(missing, path=f"{node.path}.type"))
        if entry is not None:
            if entry.withheld:
                self.findings.problems.append(attrs.evolve(entry.withheld, path=f"{node.path}.type"))
            node.constructs.check(f"Node {node.id} ({node.type})", entry, self.findings)
            self.check_params(node, entry, scope)
            self.check_taken(node, entry, scope)
            self.check_required(node, entry, scope)
        checker = self.reference_check(scope, f"node {node.id}")
        self.check_templates(node, entry, checker)
        check_absences(node, entry, partial(self.absence, node.id), self.findings)
        if own_type(entry) == "branch":
            check_cases(node, self.findings)
        elif own_type(entry) == "ask" and node.constructs.repeats:
            step = "Ask once before it, or in a workflow that a node runs for each item"
            self.findings.error(f"{node.path}.batch", "An ask cannot have a batch", step)
        elif own_type(entry) == "transform":
            check_outputs(node, self.findings)
        for place in param_expressions(node, entry):
            checker.check_expression(place, node.params.get(DATA))

    def absence(self, node_id: str, name: str) -> Absence | None:
        """For the check of a workflow: return why a run may lack a value that a node's template names."""
        source, spec = self.nodes.get(name), self.document.inputs.get(name)
        if source is not None and source.constructs.may_skip:
            return Absence(f"node {name} is skipped", IF_SKIPPED, frozenset({"optional", "null"}))
        if self.lenient or self.document.permissive or name in self.scopes.writers:
            return None
        if source is not None and name in self.graph.before(node_id) and self.graph.may_miss(node_id, name):
            return Absence(f"node {name} has not run", IF_NOT_RUN)
        # Only of a node that runs anyway: a condition on the way to others may ask for the input.
        if spec and spec.may_lack and name not in (self.given or ()) and node_id in self.certain:
            step = f'Give input {name} a default, or this node a "when"'
            return Absence(f"the run is not given input {name}", step, frozenset({"optional"}))
        return None

    def check_templates(self, node: NodeSpec, entry: Entry | None, checker: ReferenceCheck) -> None:
        fields = entry.interface.fields if entry else {}
        for key, value in node.params.items():
            path, field = at(f"{node.path}.params", str(key)), fields.get(str(key))
            if field is not None and field.source_code:
                for where, text in strings(value, path):
                    for part in dict.fromkeys(part for part in parse(text) if not isinstance(part, str)):
                        line = text[: text.index(part.text)].count("\n") + 1
                        self.findings.error(where, in_code(part.text, f" (line {line})"), IN_CODE)
            elif key not in expression_params(entry):
                checker.check(value, path)
                checker.check_notation(value, path, for_shell=is_shell_line(value, field))
                if is_shell_line(value, field):
                    check_shell_line(value, path, self.findings)

    def check_recipe(self, node: NodeSpec) -> None:
        path, recipe = f"{node.path}.verify", node.constructs.verify
        if recipe is None:
            return
        from pflow_mcp_plugin.host.workflow.expressions import parsed

        entry = self.types.find(recipe.node)
        if entry is None:
            missing = self.types.missing(recipe.node)
            self.findings.problems.append(attrs.evolve(missing, path=f"{path}.node"))
        elif entry.purity != "flow_safe":
            step = "Name a read-only one"
            if entry.claimed_purity:
                step = "It claims to be read-only: if you trust that, set trust_readonly"
            message = f"{entry.node} is not known to be read-only, so it cannot verify"
            self.findings.error(f"{path}.node", message, step)
        texts = {at(f"{path}.params", name): text for name, text in recipe.params.items()}
        texts |= {f"{path}.happened": recipe.happened, f"{path}.result": recipe.result or "null"}
        for place, text in texts.items():
            try:
                parsed(text)
            except PflowError as error:
                self.findings.error(place, error.message, "; ".join(error.suggestions))

    def check_constructs(self, node: NodeSpec) -> None:
        scope = self.scope(node.id)
        checker = self.reference_check(scope, f"node {node.id}")
        for place in node.constructs.templates:
            checker.check(place.value, place.path)
            self.check_declared(node, place.field, place.value, place.path, scope)
        checker = self.reference_check(scope, f"the condition of node {node.id}")
        for condition in node.constructs.conditions:
            checker.check_expression(condition, None)
        for name, path in node.constructs.names.items():
            if name in self.document.inputs or name in self.nodes:
                taken = "an input" if name in self.document.inputs else "a node"
                message = f"The item's name {name} is also the name of {taken}"
                self.findings.error(path, message, "Choose another name")

    def check_edge_conditions(self) -> None:
        for edge in self.document.edges:
            if not edge.conditions or edge.source not in self.nodes:
                continue
            before = self.scope(edge.source).nodes
            nodes = NodeSet(before.positions, before.bits | 1 << before.positions[edge.source])
            user = f"the edge from {edge.source} to {edge.target}"
            references = self.reference_check(Scope(shared=self.scopes, nodes=nodes), user)
            for place in edge.conditions:
                references.check_expression(place, None)

    def check_params(self, node: NodeSpec, entry: Entry, scope: Scope) -> None:
        fields = entry.interface.fields
        for key, value in node.params.items():
            path = at(f"{node.path}.params", str(key))
            if is_reserved(key):
                self.findings.error(path, f"Parameter {key} of node {node.id} is reserved", "Remove it")
            elif key in expression_params(entry):
                step = "Write it in the workflow: it is not a template"
                self.check_constant(node, fields[key], value, path, step)
            elif key in fields:
                step = f"Write one, or give {key} a template whose value is one"
                if not has_template(value):
                    self.check_constant(node, fields[key], value, path, step)
                elif not isinstance(value, str):
                    self.check_fit(node, Field(key=key, type=type_of(value)), fields[key], "it", path, step)
                self.check_declared(node, fields[key], value, path, scope)
            elif not entry.interface.open:
                shown = [field.key for field in entry.interface.params]
                hint = did_you_mean(str(key), shown, f"It takes {listing(shown)}")
                message = f"Node {node.id} ({node.type}) has no parameter {key}"
                self.findings.error(path, message, hint)

    def check_constant(self, node: NodeSpec, field: Field, value: object, path: str, step: str) -> None:
        try:
            found = coerce(value, field)
            if own_type(self.entries[node.entry_key]):  # other nodes check what their schemas say
                require_within(found, field)
        except TypeMismatch as error:
            message = f"Parameter {field.key} of node {node.id} must be {error.expected}, got {error.given}"
            self.findings.error(path, message, step)

    def check_declared(self, node: NodeSpec, wanted: Field, value: object, path: str, scope: Scope) -> None:
        reference = lone(value)
        given = scope.declared(reference) if reference else None
        if reference is None or given is None:
            return
        spec = self.document.inputs.get(reference.root)
        # Not if the template leads inside the input, or a node has overwritten it.
        step = f"Declare the input {spec.name} as {wanted.type}" if spec and spec.field == given else ""
        self.check_fit(node, given, wanted, reference.text, path, step)

    def check_fit(self, node: NodeSpec, given: Field, wanted: Field, name: str, path: str, step: str) -> None:
        message = f"{wanted.key} of node {node.id} must be {wanted.type}, but {name} is {given.type}"
        if not may_become(given, wanted):
            self.findings.error(path, message, step or "Refer to a value of that type")
        elif step and depends_on_value(given, wanted):
            self.findings.warning(path, message, step)

    def check_taken(self, node: NodeSpec, entry: Entry, scope: Scope) -> None:
        mapped = self.document.mapping(node.id).inputs
        for wanted in entry.interface.params:
            key = wanted.key
            source = mapped.get(key, key if key in entry.interface.reads else "")
            given = None if key in node.params or not source else scope.declared(mapped_source(source))
            spec = self.document.inputs.get(source)
            is_input = spec is not None and spec.field == given
            if given is None or not (is_input or key in mapped):
                continue
            place = f"{at('$.mappings', node.id)}.input_mappings"
            path = at(place, key) if spec is None or key in mapped else spec.path
            step = f"Declare it as {wanted.type}" if is_input else ""
            self.check_fit(node, given, wanted, f"input {source}" if is_input else source, path, step)

    def check_required(self, node: NodeSpec, entry: Entry, scope: Scope) -> None:
        if not isinstance(node.raw.get("params"), Mapping | None):
            return  # malformed, so its intended content is unknown
        there = {*node.params, *self.document.mapping(node.id).inputs}
        for field in entry.interface.params:
            is_needed = field.needs_value and not scope.uncertain
            if not is_needed or field.key in there or scope.root(field.key):
                continue
            self.findings.add(
                f"{node.path}.params",
                f"Node {node.id} ({node.type}) needs parameter {field.key}",
                f"Set it in params, or declare an input {field.key}",
                # A run may be given more than is declared, or an earlier node may write it.
                severity="warning" if self.lenient or scope.open is not False else "error",
            )

    def check_inputs_are_used(self, read: WorkflowReads) -> None:
        entries = [self.entries[node.entry_key] for node in self.document.nodes]
        if any(entry is None or entry.interface.open for entry in entries):
            return  # such a node may read anything
        for spec in self.document.inputs.values():
            if spec.name not in read.inputs:
                self.findings.warning(spec.path, f"Input {spec.name} is not used", "Refer to it or remove it")

    def check_uses(self, read: WorkflowReads) -> None:
        bound = {} if self.inputs is None else bind_inputs(self.document, self.inputs)[0]
        for node in self.document.nodes:
            entry = self.entries[node.entry_key]
            if entry is None or not isinstance(node.raw.get("params"), Mapping | None):
                continue  # reported already
            # The guard of a node may depend on the inputs, so they are known only for nodes that run anyway.
            runs = bool(bound) and node.id in self.certain and not node.constructs.may_skip
            values = self.input_values(node, entry, bound) if runs else {}
            self.check_use(node, entry, values, read.of(node))

    def input_values(self, node: NodeSpec, entry: Entry, bound: Mapping[str, object]) -> dict[str, object]:
        scope = self.inner_scope(node)
        inside = [node.params, *(place.value for place in node.constructs.templates)]
        wanted = {part.root for part in named(inside)}.union(entry.interface.reads)
        specs = [self.document.inputs.get(name) for name in wanted]
        return {
            spec.name: value
            for spec in specs
            # Problems show values, so problems of secret values are left to the run.
            if spec and not spec.secret and scope.root(spec.name) == spec.field
            if (value := bound.get(spec.name, STILL_TO_COME)) is not STILL_TO_COME
        }

    def check_use(
        self, node: NodeSpec, entry: Entry, values: Mapping[str, object], read: frozenset[Path]
    ) -> None:
        """Have a node's source judge its use in the workflow, with known input values and each known item."""
        fields, mapped = entry.interface.fields, self.document.mapping(node.id).inputs
        taken = (key for key in entry.interface.reads if key not in mapped and values.get(key) is not None)
        natural = {key: fitting(values[key], fields[key]) for key in taken}
        use = NodeUse(
            entry=entry,
            params=natural | known_params(node, entry, values_of(values)),
            supplied=self.supplied(node, entry),
            reads=read,
        )
        self.uses[node.id] = use
        found = list(self.types.check_use(use))
        self.report_use(node, found)
        known = partial(known_value, lookup=values_of(values))
        for run in node.constructs.known_runs(known) if has_template(node.params) else ():
            lookup = values_of({**values, **run.values})
            of_run = attrs.evolve(use, params=natural | known_params(node, entry, lookup, of_item=True))
            if of_run.params != use.params:
                more = [it for it in self.types.check_use(of_run) if it not in found]
                self.report_use(node, more, run)

    def supplied(self, node: NodeSpec, entry: Entry) -> frozenset[str] | None:
        """For the check of a workflow: return which keys a node may get besides params; None if any."""
        scope = self.inner_scope(node)
        if scope.uncertain or scope.open is not False or self.lenient:
            return None
        # In a loop a node finds what it wrote when it last ran.
        own = {field.key for field in entry.interface.outputs} if node.id in scope.nodes else set()
        taken = {key for key in reads(entry) if key in own or scope.root(key)}
        return frozenset({*taken, *self.document.mapping(node.id).inputs})

    def report_use(self, node: NodeSpec, problems: Iterable[Problem], run: KnownRun | None = None) -> None:
        for problem in problems:
            dot = "" if problem.path.startswith("[") else "."
            path = f"{node.path}.params{dot}{problem.path}" if problem.path else node.path
            # A source would be taken as the file that the path is in.
            moved = attrs.evolve(problem, path=path, source="")
            if run:
                severity = "warning" if run.lenient else problem.severity
                moved = attrs.evolve(moved, message=f"{problem.message}{run.words}", severity=severity)
            self.findings.problems.append(moved)

    def check_mappings(self) -> None:
        for node_id in self.document.mappings:
            path = at("$.mappings", node_id)
            if node_id not in self.nodes:
                self.routes.unknown_node(path, f"Mapping of unknown node {node_id}", node_id)
                continue
            node = self.nodes[node_id]
            self.check_input_mappings(node, f"{path}.input_mappings")
            entry = self.scopes.entries[node_id]
            checker = self.reference_check(self.scope(node_id), f"node {node_id}")
            for key, target in self.document.mapping(node_id).outputs.items():
                where = at(f"{path}.output_mappings", key)
                if not target or is_reserved(target):
                    self.findings.error(where, f"The name {target!r} is reserved", "Choose another name")
                checker.check_output(TemplateReference(f"{node_id}.{key}", (node_id, key)), entry, where)

    def check_input_mappings(self, node: NodeSpec, path: str) -> None:
        entry = self.entries[node.entry_key]
        scope = self.inner_scope(node)
        checker = self.reference_check(scope, f"node {node.id}")
        if self.lenient:
            checker = attrs.evolve(checker, severity="warning")
        known = reads(entry) if entry else set()
        for key, source in self.document.mapping(node.id).inputs.items():
            where = at(path, key)
            if entry and not entry.interface.open and key not in known:
                shown = sorted({*entry.interface.inputs, *(field.key for field in entry.interface.params)})
                hint = did_you_mean(key, shown, f"It reads {listing(shown)}")
                self.findings.error(where, f"Node {node.id} ({node.type}) does not read {key}", hint)
            if scope.root(source) is None:
                checker.check_reference(mapped_source(source), where)

    def check_outputs(self) -> None:
        scope = Scope(shared=self.scopes, nodes=self.graph.reachable)
        for output in self.document.outputs.values():
            if not has_template(output.source):
                hint = f"Write ${{{output.source}}}" if parse_path(output.source) else "Write ${node.key}"
                self.findings.error(output.path, f"Output {output.name} names no value", hint)
            self.reference_check(scope, f"output {output.name}").check(output.source, output.path)
