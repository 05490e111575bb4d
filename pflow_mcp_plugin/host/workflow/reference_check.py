"""The scope of each place of a workflow, and the check that templates and expressions name values in it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import attrs

from pflow_mcp_plugin.contract import FAILURES, Entry, Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.coercion import type_name
from pflow_mcp_plugin.host.workflow.constructs import IF_SKIPPED, ExpressionPlace, Path
from pflow_mcp_plugin.host.workflow.findings import Findings, at, cut, did_you_mean, listing, shown
from pflow_mcp_plugin.host.workflow.graph import NodeSet
from pflow_mcp_plugin.host.workflow.templates import (
    Malformed,
    Misstep,
    TemplateReference,
    foreign_templates,
    inside,
    lone,
    references,
    strings,
)
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument
from pflow_mcp_plugin.host.workflow.workflow_reads import (
    CASES,
    DATA,
    EXPRESSION,
    OUTPUTS,
    actions_of,
    cases_of,
    expression_params,
    is_branch,
    is_transform,
    outputs_of,
    param_expressions,
    transform_outputs,
)

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading, Shape
_SLIP = 0.85
"""The similarity from which a reference counts as a misspelt declared name where others may exist too."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Scope:
    """The scope of one place: the names that templates and arguments there can refer to.

    `roots` are the names at the root of the shared store, with what is known of each value, and `earlier` the
    nodes that can have run, with their entries. A scope is `uncertain` if a node of unknown type may have
    written anything to the root. It is `open` if the root may hold more than `roots`, because a node may
    write more than it declares; None where that is not declared.
    """

    roots: Mapping[str, Field]
    earlier: Mapping[str, Entry | None]
    uncertain: bool
    open: bool | None

    def holders(self, key: str) -> list[str]:
        """Return the earlier nodes in scope that have an output of that name."""
        known = ((node_id, entry) for node_id, entry in self.earlier.items() if entry)
        return [node_id for node_id, entry in known if output_field(entry, key)]

    def declared(self, reference: TemplateReference) -> Field | None:
        """Return the declaration of the value in scope that a template names, None if it is unknown."""
        root, *rest = reference.path
        start = self.roots.get(str(root))
        if root not in self.roots and rest:
            entry, key = self.earlier.get(str(root)), str(rest.pop(0))
            start = output_field(entry, key) if entry else None
        found = inside(start, rest) if start else None
        return found if isinstance(found, Field) else None


def output_field(entry: Entry, key: str) -> Field | None:
    """Return the declaration of an output as later scopes see it; every node has `error`."""
    declared = next((field for field in entry.interface.outputs if field.key == key), None)
    return declared or (Field(key="error") if key == "error" else None)


def effective_entry(node: NodeSpec, entries: Mapping[str, Entry | None]) -> Entry | None:
    """Return the entry of a node as later scopes see it.

    A branch has actions of its own and a transform outputs, and constructs change both.
    """
    entry = entries.get(node.entry_key)
    if entry is None:
        return None
    if is_branch(entry):
        entry = attrs.evolve(entry, interface=attrs.evolve(entry.interface, actions=actions_of(node)))
    elif is_transform(entry):
        outputs = transform_outputs(node, entry)
        result = "result" if any(field.key == "result" for field in outputs) else ""
        interface = attrs.evolve(entry.interface, outputs=outputs, result=result)
        entry = attrs.evolve(entry, interface=interface)
    return node.constructs.gathered(entry)


@attrs.frozen(eq=False, repr=False)
class _Writers:
    """The nodes that write a name at the root of the shared store, by their places in the workflow.

    `fields` has what each declares of the value; `bits` are the places as in a `NodeSet`.
    """

    fields: Mapping[int, Field]
    bits: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Roots(Mapping[str, Field]):
    """The names at the root after `nodes` have run; the last node that writes a name counts."""

    item: Mapping[str, Field]
    given: Mapping[str, Field]
    writers: Mapping[str, _Writers]
    nodes: NodeSet

    def __getitem__(self, name: str) -> Field:
        if name in self.item:
            return self.item[name]
        writers = self.writers.get(name)
        if writers and (written := writers.bits & self.nodes.bits):
            return writers.fields[written.bit_length() - 1]
        return self.given[name]

    def __iter__(self) -> Iterator[str]:
        written = (name for name, writers in self.writers.items() if writers.bits & self.nodes.bits)
        return iter(dict.fromkeys((*self.given, *written, *self.item)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@attrs.frozen(eq=False, repr=False)
class _Earlier(Mapping[str, Entry | None]):
    """The entries of those nodes that have run."""

    entries: Mapping[str, Entry | None]
    nodes: NodeSet

    def __getitem__(self, node_id: str) -> Entry | None:
        if node_id not in self.nodes:
            raise KeyError(node_id)
        return self.entries[node_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


class Scopes:
    """Creates the scope of each place of a workflow.

    What the places share is computed once: a scope is a view of it, and its cost does not depend on the
    number of nodes. `given` are names that a run is given beyond the declared inputs. The attribute `entries`
    has the entry of each node, by its id, as later nodes see it.
    """

    def __init__(
        self,
        document: WorkflowDocument,
        nodes: Mapping[str, NodeSpec],
        entries: Mapping[str, Entry | None],
        given: frozenset[str],
    ) -> None:
        self.entries = {node_id: effective_entry(node, entries) for node_id, node in nodes.items()}
        self._given = {name: Field(key=name) for name in given}
        self._given |= {name: spec.field for name, spec in document.inputs.items()}
        self._writers = _writers(document, self.entries)
        # With namespacing, a node writes to the root only what is mapped there, which is known.
        exposed = () if document.namespaced else tuple(self.entries.values())
        self._uncertain = _places(entry is None for entry in exposed)
        said = [entry.interface.open_outputs if entry else False for entry in exposed]
        self._open = _places(is_open is True for is_open in said)
        self._unsaid = _places(is_open is None for is_open in said)

    def after(self, nodes: NodeSet, item: Mapping[str, Field] | None = None) -> Scope:
        """Return the scope after some nodes have run."""
        return Scope(
            roots=_Roots(item=item or {}, given=self._given, writers=self._writers, nodes=nodes),
            earlier=_Earlier(self.entries, nodes),
            uncertain=bool(self._uncertain & nodes.bits),
            open=True if self._open & nodes.bits else None if self._unsaid & nodes.bits else False,
        )


def _places(wanted: Iterable[bool]) -> int:
    """Return the places of the nodes that are wanted, as in a `NodeSet`."""
    return sum(1 << place for place, is_wanted in enumerate(wanted) if is_wanted)


def _writers(document: WorkflowDocument, entries: Mapping[str, Entry | None]) -> dict[str, _Writers]:
    fields: dict[str, dict[int, Field]] = {}
    for place, (node_id, entry) in enumerate(entries.items()):
        for key, name in document.mapping(node_id).outputs.items():
            found = output_field(entry, key) if entry else None
            fields.setdefault(name, {})[place] = found or Field(key=key)
        if entry and not document.namespaced:
            for field in entry.interface.outputs:
                fields.setdefault(field.key, {})[place] = field
    return {name: _Writers(known, sum(1 << place for place in known)) for name, known in fields.items()}


@attrs.frozen
class _Unnamed:
    """An undeclared name; `is_open` says whether others may exist (None: unknown)."""

    name: str
    declared: tuple[str, ...]
    is_open: bool | None

    @property
    def is_slip(self) -> bool:
        return bool(did_you_mean(self.name, self.declared, cutoff=_SLIP))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReferenceCheck:
    """Checks the references in the templates of one place, which messages call `user`, such as `node fetch`.

    `severity` is `warning` where templates without a value are left as text.
    """

    scope: Scope
    node_ids: Container[str]
    user: str
    severity: Literal["error", "warning"]
    findings: Findings

    def check(self, value: object, path: str) -> None:
        """Check the reference of every template in the value at `path`."""
        for where, part in references(value, path):
            if isinstance(part, Malformed):
                message = f"{part.text} in {self.user} is not a template"
                step = "Write ${name.key[0]}, or $${ for a literal ${; a node transform takes expressions"
                self._add(where, message, step)
            else:
                self.check_reference(part, where)

    def check_notation(self, value: object, path: str, *, for_shell: bool) -> None:
        """Warn about `{{name}}` and `$name`, if an input or node has that name: they stay as they are."""
        for where, text in strings(value, path):
            for written, name, meant in foreign_templates(text):
                is_known = name in self.scope.roots or name in self.node_ids
                if is_known and not (for_shell and written.startswith("$")):
                    message = f"{written} in {self.user} is not a template: it stays as it is"
                    self.findings.warning(where, message, f"Did you mean {meant}?")

    def check_reference(self, reference: TemplateReference, path: str) -> None:
        """Check one reference at `path`."""
        root = reference.root
        if root in self.scope.roots:
            self._check_inside(reference, self.scope.roots[root], 1, path)
        elif root in self.scope.earlier:
            self._check_output(reference, self.scope.earlier[root], path)
        elif root in self.node_ids:
            message = f"{reference.text} names node {root}, which does not run before {self.user}"
            self._add(path, message, "Refer to an earlier node, or add an edge")
        elif not self.scope.uncertain:  # else an unknown node type may have written it
            message = f"{reference.text} in {self.user} names an unknown value"
            known = (*self.scope.roots, *self.scope.earlier)
            self._add_unnamed(_Unnamed(root, known, self.scope.open), path, message, self._nearest(reference))

    def _nearest(self, reference: TemplateReference) -> str:
        """Return the suggestion for an unknown name, in the notation of the reference."""
        root = reference.root
        in_template = reference.text.startswith("${")
        holders = self.scope.holders(root)
        if holders:
            meant = f"{holders[-1]}.{root}"
            return f"Did you mean {f'${{{meant}}}' if in_template else meant}?"
        known = [*self.scope.roots, *self.scope.earlier]
        step = f"It can name {listing(known)}" if known else f"Declare {root} under inputs"
        literal = "; write $${ for a literal ${" if in_template else ""
        return did_you_mean(root, known, f"{step}{literal}")

    def _check_output(self, reference: TemplateReference, entry: Entry | None, path: str) -> None:
        if entry is None or len(reference.path) == 1:  # `${node}` is the object of all its outputs
            return
        key = str(reference.path[1])
        field = output_field(entry, key)
        if field:
            self._check_inside(reference, field, 2, path)
            return
        outputs = tuple(known.key for known in entry.interface.outputs)
        unnamed = _Unnamed(key, outputs, entry.interface.open_outputs)
        lacks = "has" if unnamed.is_open is False else "declares"
        message = f"{reference.text}: node {reference.root} ({entry.node}) {lacks} no output {key}"
        hint = did_you_mean(key, outputs, f"It has {listing(outputs)}")
        self._add_unnamed(unnamed, path, message, hint)

    def _check_inside(self, reference: TemplateReference, field: Field, used: int, path: str) -> None:
        found = inside(field, reference.path[used:])
        if not isinstance(found, Misstep):
            return
        key, step = found.within.key, found.step
        if not found.known:
            message = f"{reference.text}: {key} is {found.within.type} and has no members"
            self._add(path, message, "Refer to it as a whole")
            return
        message = f"{reference.text}: the schema of {key} names no {step}"
        severity = self.severity if found.certain else "warning"
        hint = did_you_mean(step, found.known, f"It names {listing(found.known)}")
        self.findings.add(path, message, hint, severity=severity)

    def _add_unnamed(self, unnamed: _Unnamed, path: str, message: str, suggestion: str) -> None:
        if unnamed.is_open is False:
            self._add(path, message, suggestion)
        elif unnamed.is_open is None or unnamed.is_slip:
            self.findings.warning(path, message, suggestion)

    def _add(self, path: str, message: str, suggestion: str) -> None:
        self.findings.add(path, message, suggestion, severity=self.severity)


def check_skipped(
    node: NodeSpec, entry: Entry | None, nodes: Mapping[str, NodeSpec], findings: Findings
) -> None:
    """Warn about each value that a node needs and does not get if another one of `nodes` is skipped."""
    if node.constructs.may_skip:  # its condition may well be the same
        return
    fields = entry.interface.fields if entry else {}
    needed: list[tuple[object, str]] = [(place.value, place.path) for place in node.constructs.templates()]
    for key, value in node.params.items():
        field = fields.get(str(key))
        takes_null = field is None or not field.required or {"any", "None"} & set(map(type_name, field.types))
        if key not in expression_params(entry) and not (lone(value) and takes_null):
            needed.append((value, at(f"{node.path}.params", str(key))))
    for wanted, path in needed:
        for where, part in references(wanted, path):
            source = nodes.get(part.root) if isinstance(part, TemplateReference) else None
            if source is not None and source.constructs.may_skip:
                message = f"{part.text} has no value if node {source.id} is skipped"
                findings.warning(where, message, IF_SKIPPED)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ExpressionCheck:
    """Checks the expressions of one node.

    Its `entry` is None if its type is unknown.
    """

    node: NodeSpec
    entry: Entry | None
    references: ReferenceCheck
    findings: Findings

    def check_params(self) -> None:
        """Check the expressions in the node's params, and the params around them."""
        if is_branch(self.entry):
            self._check_cases()
        elif is_transform(self.entry):
            self._check_outputs()
        for place in param_expressions(self.node, self.entry):
            self.check(place)

    def _check_cases(self) -> None:
        path = f"{self.node.path}.params.{CASES}"
        if self.node.constructs.batch:
            step = "Filter the items with a transform, and give several nodes a batch each"
            self.findings.error(self.node.constructs.batch.path, "A branch cannot have a batch", step)
        if CASES in self.node.params and not cases_of(self.node.params):
            step = 'Write [{"when": "count > 3", "action": "many"}]'
            self.findings.error(path, f"Node {self.node.id} has no cases", step)
        known: dict[str, int] = {}
        for number, case in enumerate(cases_of(self.node.params)):
            self._check_case(case, f"{path}[{number}]")
            when = case.get("when") if isinstance(case, Mapping) else None
            if not isinstance(when, str):
                continue
            # A case must not stand behind one that is always true, or has the same condition.
            before = known.get(when.strip(), known.get("true"))
            if before is not None:
                message = f"The case is never taken: cases[{before}] holds wherever it does"
                self.findings.warning(f"{path}[{number}].when", message, "Remove it, or put it first")
            known.setdefault(when.strip(), number)

    def _check_case(self, case: JSON, path: str) -> None:
        if not isinstance(case, Mapping):
            step = 'Write {"when": "count > 3", "action": "many"}'
            self.findings.error(path, f"Expected an object, found {shown(case)}", step)
            return
        for key in ("when", "action"):
            if not isinstance(case.get(key), str) or not case[key]:
                where = at(path, key) if key in case else path
                found = f"must be a string, found {shown(case[key])}" if key in case else "is missing"
                self.findings.error(where, f"{key} {found}", f"Fill in {key}")
        for key in case.keys() - {"when", "action"}:
            self.findings.error(at(path, str(key)), f"Unknown key {key}", "A case has when and action")
        if case.get("action") in FAILURES:
            message = f"The action {case['action']} is reserved for failed nodes"
            self.findings.error(f"{path}.action", message, "Give the case another name")

    def _check_outputs(self) -> None:
        path = f"{self.node.path}.params"
        if EXPRESSION not in self.node.params and OUTPUTS not in self.node.params:
            message = f"Node {self.node.id} has no expression"
            self.findings.error(path, message, "Set expression, or outputs: an expression for each name")
        for name, text in outputs_of(self.node.params).items():
            where = at(f"{path}.{OUTPUTS}", name)
            if not isinstance(text, str):
                self.findings.error(where, f"Expected an expression, found {shown(text)}", 'Write "..."')
            if name == "error" or is_reserved(name):
                self.findings.error(where, f"The output name {name} is reserved", "Choose another name")

    def check(self, place: ExpressionPlace) -> None:
        """Check an expression of the node, such as its condition, or the one of an edge of it."""
        from pflow_mcp_plugin.host.workflow.expressions import parsed
        from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading, is_always_true

        try:
            expression = parsed(place.text)
        except PflowError as error:
            self.findings.error(place.path, error.message, next(iter(error.suggestions), ""))
            return
        scope = self.references.scope
        current = self._data(scope) if place.on_data else None
        reading = Reading.of(expression, lambda path: scope.declared(TemplateReference("", path)), current)
        for path in reading.longest_paths:
            self._check_path(path, reading, place)
        for message, step in dict.fromkeys(reading.mistakes):
            self.findings.error(place.path, f"In {cut(place.text)!r}, {message}", step)
        for name in expression.syntax.quoted:
            message = f'In {cut(place.text)!r}, "{name}" is the name of a value'
            self.findings.warning(place.path, message, f"Write '{name}' for the string")
        if place.is_condition and is_always_true(reading.result_types):
            message = f"The condition {cut(place.text)!r} is a number, so it is always true"
            self.findings.error(place.path, message, f"Compare it, as in {cut(place.text)} > 0")

    def _data(self, scope: Scope) -> Shape:
        """Return what is known of the parameter `data`, which has been checked as any other."""
        from pflow_mcp_plugin.host.workflow.expressions.shapes import Shape

        reference = lone(self.node.params[DATA])
        known = reference is not None and scope.declared(reference) is not None
        return Shape(path=reference.path) if reference and known else Shape()

    def _check_path(self, path: Path, reading: Reading, place: ExpressionPlace) -> None:
        scope, name = self.references.scope, str(path[0])
        is_known = name in scope.roots or name in scope.earlier or name in self.references.node_ids
        if len(path) == 1 and name in reading.compared and not is_known and not scope.uncertain:
            message = f"In {cut(place.text)!r}, {name} is not the name of a value"
            self.findings.error(place.path, message, f"Write '{name}' if the string is meant")
            return
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        spelled = "".join(steps).removeprefix(".")
        self.references.check_reference(TemplateReference(spelled, path), place.path)
