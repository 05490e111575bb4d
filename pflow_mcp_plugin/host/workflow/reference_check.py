"""The scope of each place in a workflow, and the check that templates and expressions name values in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import attrs

from pflow_mcp_plugin.contract import FAILURES, Entry, Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.coercion import takes_null
from pflow_mcp_plugin.host.workflow.constructs import CASE, ExpressionPlace, Path, valid_members
from pflow_mcp_plugin.host.workflow.findings import Findings, at, cut, listing, shown
from pflow_mcp_plugin.host.workflow.graph import NodeSet, bits_of
from pflow_mcp_plugin.host.workflow.shell_lines import bind_line
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
    EXPRESSION,
    OUTPUTS,
    actions_of,
    cases_of,
    expression_params,
    outputs_of,
    own_type,
    root_names,
    transform_outputs,
)
from pflow_mcp_plugin.schemas.schema_reader import table_of
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading
_ALONE = r"[\w.\[\]\"-]+"
"""A condition that is a single reference, whose value may be null."""
_SLIP = 0.85
"""From this similarity on, a reference counts as a misspelt declared name where others may exist too."""


def output_field(entry: Entry, key: str) -> Field | None:
    """Return the declaration of a node's output for references to it; every node has `error`."""
    declared = next((field for field in entry.interface.outputs if field.key == key), None)
    return declared or (Field(key="error") if key == "error" else None)


def effective_entry(node: NodeSpec, entries: Mapping[str, Entry | None]) -> Entry | None:
    """Return the entry that references to a node's outputs are checked by, with the actions of this node."""
    entry = entries.get(node.entry_key)
    if entry is None:
        return None
    if own_type(entry) == "branch":
        entry = attrs.evolve(entry, interface=attrs.evolve(entry.interface, actions=actions_of(node)))
    elif own_type(entry) == "transform":
        outputs = transform_outputs(node, entry)
        result = "result" if any(field.key == "result" for field in outputs) else ""
        interface = attrs.evolve(entry.interface, outputs=outputs, result=result)
        entry = attrs.evolve(entry, interface=interface)
    return node.constructs.gathered(entry)


class Scopes:
    """What references may name at all places of a workflow, kept once; each place's scope is a view of it.

    `names` are those that a run is given beyond the declared inputs. Sets of nodes are bits, by their places.
    """

    def __init__(
        self,
        document: WorkflowDocument,
        nodes: Mapping[str, NodeSpec],
        entries: Mapping[str, Entry | None],
        names: frozenset[str],
    ) -> None:
        # By id, as later nodes see the entries.
        self.entries = {node_id: effective_entry(node, entries) for node_id, node in nodes.items()}
        self.given = {name: Field(key=name) for name in names}
        self.given |= {name: spec.field for name, spec in document.inputs.items()}
        # For each name that nodes write at the root of the store, what each declares of the value.
        self.writers: dict[str, dict[int, Field]] = {}
        for place, (node_id, entry) in enumerate(self.entries.items()):
            for key, name in root_names(document, node_id, entry).items():
                found = output_field(entry, key) if entry else None
                self.writers.setdefault(name, {})[place] = found or Field(key=key)
        # With namespacing, a node writes to the root only what is mapped there, which is known. Without, a
        # node of unknown type may write anything, others more than they declare, and some do not say.
        exposed = () if document.namespaced else tuple(enumerate(self.entries.values()))
        says = [(place, entry.interface.open_outputs) for place, entry in exposed if entry]
        self.uncertain = bits_of(place for place, entry in exposed if entry is None)
        self.open = bits_of(place for place, is_open in says if is_open is True)
        self.unsaid = bits_of(place for place, is_open in says if is_open is None)
        self._bits = {name: bits_of(places) for name, places in self.writers.items()}

    def written(self, name: str, nodes: NodeSet) -> int:
        return self._bits.get(name, 0) & nodes.bits


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Scope:
    """The scope of one place: the names that references there, in templates or expressions, can use.

    `nodes` are those that can have run, and `item` what is known of the names that only the place sees.
    """

    shared: Scopes
    nodes: NodeSet
    item: Mapping[str, Field] = attrs.field(factory=dict)

    @property
    def uncertain(self) -> bool:
        """Whether a node of unknown type may have written anything into the scope."""
        return bool(self.shared.uncertain & self.nodes.bits)

    @property
    def open(self) -> bool | None:
        """Whether nodes may have written more into the scope than they declare; None if they do not say."""
        if self.shared.open & self.nodes.bits:
            return True
        return None if self.shared.unsaid & self.nodes.bits else False

    @property
    def names(self) -> list[str]:
        """The names in the scope that a reference can begin with: those at the root, then the nodes."""
        written = (name for name in self.shared.writers if self.shared.written(name, self.nodes))
        return list(dict.fromkeys((*self.shared.given, *written, *self.item, *self.nodes)))

    def root(self, name: str) -> Field | None:
        """Return what is known of a reference's first name in this scope; None if the scope lacks it."""
        if name in self.item:
            return self.item[name]
        written = self.shared.written(name, self.nodes)
        if written:  # the last writer counts
            return self.shared.writers[name][written.bit_length() - 1]
        return self.shared.given.get(name)

    def declared(self, reference: TemplateReference) -> Field | None:
        """Return the declaration of the value in scope that a reference names, None if it is unknown."""
        root, *rest = reference.path
        start = self.root(str(root))
        if start is None and rest and root in self.nodes:
            entry, key = self.shared.entries[str(root)], str(rest.pop(0))
            start = output_field(entry, key) if entry else None
        found = inside(start, rest) if start else None
        return found if isinstance(found, Field) else None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReferenceCheck:
    """Checks the references of one place to values in scope; messages call it `user`, such as `node fetch`.

    `severity` is `warning` where templates without a value are left as text.
    """

    scope: Scope
    node_ids: Container[str]
    user: str
    severity: Literal["error", "warning"]
    findings: Findings
    may_lack: Callable[[str], bool]  # whether the value of this name may be null

    def check(self, value: object, path: str) -> None:
        for where, part in references(value, path):
            if isinstance(part, Malformed):
                message = f"{part.text} in {self.user} is not a template"
                step = "Write ${name.key[0]}, or $${ for a literal ${; a node transform takes expressions"
                self._add(where, message, step)
            else:
                self.check_reference(part, where)

    def check_notation(self, value: object, path: str, *, for_shell: bool) -> None:
        """Warn of `{{name}}` and `$name`, which look like references to an input or node but stay text."""
        for where, text in strings(value, path):
            for written, name, meant in foreign_templates(text):
                is_known = self.scope.root(name) is not None or name in self.node_ids
                if is_known and not (for_shell and written.startswith("$")):
                    message = f"{written} in {self.user} is not a template: it stays as it is"
                    self.findings.warning(where, message, f"Did you mean {meant}?")

    def check_reference(self, reference: TemplateReference, path: str) -> None:
        root, scope = reference.root, self.scope
        if field := scope.root(root):
            self._check_inside(reference, field, 1, path)
        elif root in scope.nodes:
            self.check_output(reference, scope.shared.entries[root], path)
        elif root in self.node_ids:
            message = f"{reference.text} names node {root}, which does not run before {self.user}"
            self._add(path, message, "Refer to an earlier node, or add an edge")
        elif not scope.uncertain:  # otherwise an unknown node type may have written it
            message = f"{reference.text} in {self.user} names an unknown value"
            known = scope.names
            in_template = reference.text.startswith("${")
            entries = ((node_id, scope.shared.entries[node_id]) for node_id in scope.nodes)
            holders = [node_id for node_id, entry in entries if entry and output_field(entry, root)]
            if holders:  # only the node's name is missing
                meant = f"{holders[-1]}.{root}"
                hint = f"Did you mean {f'${{{meant}}}' if in_template else meant}?"
            else:
                step = f"It can name {listing(known)}" if known else f"Declare {root} under inputs"
                literal = "; write $${ for a literal ${" if in_template else ""
                hint = did_you_mean(root, known, f"{step}{literal}")
            self._add_unnamed(root, known, path, message, hint, is_open=scope.open)

    def check_output(self, reference: TemplateReference, entry: Entry | None, path: str) -> None:
        if entry is None or len(reference.path) == 1:  # `${node}` is the object of all its outputs
            return
        key = str(reference.path[1])
        if field := output_field(entry, key):
            self._check_inside(reference, field, 2, path)
            return
        outputs, is_open = [known.key for known in entry.interface.outputs], entry.interface.open_outputs
        lacks = "has" if is_open is False else "declares"
        message = f"{reference.text}: node {reference.root} ({entry.node}) {lacks} no output {key}"
        hint = did_you_mean(key, outputs, f"It has {listing(outputs)}")
        self._add_unnamed(key, outputs, path, message, hint, is_open=is_open)

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

    def _add_unnamed(
        self, name: str, known: list[str], path: str, message: str, suggestion: str, *, is_open: bool | None
    ) -> None:
        """Report a reference to an undeclared name; `is_open` is None if others may or may not exist."""
        if is_open is False:
            self._add(path, message, suggestion)
        elif is_open is None or did_you_mean(name, known, cutoff=_SLIP):
            self.findings.warning(path, message, suggestion)

    def _add(self, path: str, message: str, suggestion: str) -> None:
        self.findings.add(path, message, suggestion, severity=self.severity)

    def check_expression(self, place: ExpressionPlace, data: JSON) -> None:
        """Check the references in an expression of a node or an edge; `data` is that param of the node."""
        from pflow_mcp_plugin.host.workflow.expressions import parsed
        from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading, Shape, is_always_true

        try:
            expression = parsed(place.text)
        except PflowError as error:
            self.findings.error(place.path, error.message, next(iter(error.suggestions), ""))
            return
        scope = self.scope
        current = None
        if place.on_data:
            # The parameter has been checked like any other.
            reference = lone(data)
            known = reference is not None and scope.declared(reference) is not None
            current = Shape(path=reference.path) if reference and known else Shape()
        reading = Reading.of(expression, lambda path: scope.declared(TemplateReference("", path)), current)
        for path in reading.longest_paths:
            self._check_path(path, reading, place, expression.hyphenated.get(str(path[0]), ""))
        for message, step in dict.fromkeys(reading.mistakes):
            self.findings.error(place.path, f"In {cut(place.text)!r}, {message}", step)
        for name in expression.quoted:
            message = f'In {cut(place.text)!r}, "{name}" is the name of a value'
            self.findings.warning(place.path, message, f"Write '{name}' for the string")
        names = {str(path[0]) for path in reading.longest_paths}
        may_be_null = re.fullmatch(_ALONE, place.text.strip()) and any(map(self.may_lack, names))
        if place.is_condition and is_always_true(reading.result_types) and not may_be_null:
            message = f"The condition {cut(place.text)!r} is a number, so it is always true"
            self.findings.error(place.path, message, f"Compare it, as in {cut(place.text)} > 0")

    def _check_path(self, path: Path, reading: Reading, place: ExpressionPlace, hyphenated: str) -> None:
        scope, name = self.scope, str(path[0])
        is_known = scope.root(name) is not None or name in self.node_ids
        meant = hyphenated.removeprefix(".")
        is_name = meant != hyphenated or meant in self.node_ids or scope.root(meant) is not None
        if hyphenated and is_name and not (is_known or scope.uncertain or scope.open):
            message = (
                f"In {cut(place.text)!r}, {meant} is a difference, and {name} is not the name of a value"
            )
            self.findings.error(place.path, message, f'Put a name with a hyphen in double quotes: "{meant}"')
            return
        if len(path) == 1 and name in reading.compared and not is_known and not scope.uncertain:
            message = f"In {cut(place.text)!r}, {name} is not the name of a value"
            self.findings.error(place.path, message, f"Write '{name}' if the string is meant")
            return
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        spelled = "".join(steps).removeprefix(".")
        self.check_reference(TemplateReference(spelled, path), place.path)


class Absence(NamedTuple):
    """Why what a reference names may have no value, as in `if node a is skipped`, and what to do about it.

    As a param alone, an `optional` one is left out without it, and one that takes null is `null` then.
    """

    reason: str
    step: str
    alone: frozenset[Literal["optional", "null"]] = frozenset()


def check_absences(
    node: NodeSpec, entry: Entry | None, absence: Callable[[str], Absence | None], findings: Findings
) -> None:
    """Warn about each reference of a node that may have no value, by what `absence` says of its root."""
    if node.constructs.may_skip:  # its condition may be the same
        return
    fields = entry.interface.fields if entry else {}
    needed: list[tuple[object, str, set[str]]] = []
    needed += [(place.value, place.path, set()) for place in node.constructs.templates]
    for key, value in node.params.items():
        field = fields.get(str(key))
        fine = set()
        if lone(value) and (field is None or not field.required):
            fine = {"optional"}
        elif lone(value) and field is not None and takes_null(field):
            fine = {"null"}
        if key not in expression_params(entry):
            needed.append((value, at(f"{node.path}.params", str(key)), fine))
    for wanted, path, fine in needed:
        for where, part in references(wanted, path):
            found = absence(part.root) if isinstance(part, TemplateReference) else None
            if found is not None and not fine & found.alone:
                findings.warning(where, f"{part.text} has no value if {found.reason}", found.step)


def check_cases(node: NodeSpec, findings: Findings) -> None:
    """Check a branch's cases in a workflow, except conditions' references, which need the scope of each."""
    path = f"{node.path}.params.{CASES}"
    if node.constructs.batch:
        step = "Filter the items with a transform, and give several nodes a batch each"
        findings.error(node.constructs.batch.path, "A branch cannot have a batch", step)
    if CASES in node.params and not cases_of(node.params):
        step = 'Write [{"when": "count > 3", "action": "many"}]'
        findings.error(path, f"Node {node.id} has no cases", step)
    known: dict[str, int] = {}
    for number, case in enumerate(cases_of(node.params)):
        needed = {"when": "Write an expression, as in count > 3", "action": "Name it, as in many"}
        action = valid_members(case, CASE, f"{path}[{number}]", findings, needed).get("action")
        if action in FAILURES:
            message = f"The action {action} is reserved for failed nodes"
            findings.error(f"{path}[{number}].action", message, "Give the case another name")
        when = table_of(case).get("when")
        if not isinstance(when, str):
            continue
        # A case must not come after one that is always true, or has the same condition.
        before = known.get(when.strip(), known.get("true"))
        if before is not None:
            message = f"The case is never taken: cases[{before}] holds wherever it does"
            findings.warning(f"{path}[{number}].when", message, "Remove it, or put it first")
        known.setdefault(when.strip(), number)


def check_shell_line(line: str, path: str, findings: Findings) -> None:
    """Report references in a workflow's shell line by which a value would become part of the line itself."""
    try:
        bind_line(line, lambda _: "")
    except PflowError as error:
        findings.error(path, error.message, "; ".join(error.suggestions))


def check_outputs(node: NodeSpec, findings: Findings) -> None:
    """Check that references at later places in the workflow can name the outputs of a `transform`."""
    path = f"{node.path}.params"
    if EXPRESSION not in node.params and OUTPUTS not in node.params:
        message = f"Node {node.id} has no expression"
        findings.error(path, message, "Set expression, or outputs: an expression for each name")
    for name, text in outputs_of(node.params).items():
        where = at(f"{path}.{OUTPUTS}", name)
        if not isinstance(text, str):
            findings.error(where, f"Expected an expression, found {shown(text)}", 'Write "..."')
        if name == "error" or is_reserved(name):
            findings.error(where, f"The output name {name} is reserved", "Choose another name")
        if name == "result" and EXPRESSION in node.params:
            message = f"The output result of node {node.id} is the value of its expression"
            findings.error(where, message, "Choose another name, or remove expression")
