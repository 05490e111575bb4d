"""A workflow's document: its normal form and typed parts, each with its JSON path; the inputs of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Field, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.coercion import (
    TypeMismatch,
    coerce,
    require_within,
    type_names,
)
from pflow_mcp_plugin.host.workflow.constructs import Constructs, ExpressionPlace
from pflow_mcp_plugin.host.workflow.findings import Findings, at, listing
from pflow_mcp_plugin.schemas.schema_outline import limits
from pflow_mcp_plugin.schemas.schema_reader import SchemaDocument
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

IR_VERSION = "1.0"
EXTRA = "extra"
"""The member of a node that lets it take undeclared parameters."""
WORKFLOW_NODE = "workflow"
"""The type of a node that runs another workflow; in a document, the name of that workflow follows it."""
_IF = " if "
STILL_TO_COME = object()
"""A placeholder for an input that has not been read yet, so it is not checked."""
_SPELLINGS = {
    "bool": "Write true or false",
    "int": "Write a whole number in digits, such as 12",
    "float": "Write a number, such as 1.5",
}
Upgrade = Callable[[JSONObject], JSONObject | None]
"""Returns a node in normal form if it has an older shape, else None."""


HTTP = "http"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The safe methods, which change nothing (RFC 9110, section 9.2.1)."""


def split_route(route: str) -> tuple[str, str]:
    """Return the parts of an edge's `route` in a workflow's document: an action, and a condition if any."""
    action, _, when = route.partition(_IF)
    return action, when


def only_fetches(params: Mapping[str, object]) -> bool:
    """Whether a step of a document is an `http` that only fetches: a safe `method`, and no `download`."""
    return str(params.get("method") or "GET").upper() in SAFE_METHODS and not params.get("download")


@attrs.frozen(kw_only=True)
class NodeSpec:
    """A node of a workflow document; `raw` keeps every key, unknown ones too. A malformed type is empty.

    A node that runs a workflow has its parameter `workflow` as `runs`, and not among its params. Its type
    says which it runs: `workflow:NAME`, or `workflow` for one written in it; parameters and outputs are those
    of that workflow. With `extra` it takes parameters beyond those that its entry declares.
    """

    index: int
    id: str
    type: str
    params: JSONObject
    raw: JSONObject
    constructs: Constructs = attrs.field(factory=Constructs)
    runs: str | JSONObject | None = None
    extra: bool = False

    @property
    def path(self) -> str:
        return f"$.nodes[{self.index}]"

    @property
    def entry_key(self) -> str:
        """The key of the entry for this node of the document: its type, with its id if a workflow is in it.

        Nodes that take undeclared parameters, and requests that only fetch something, have an entry of their
        own.
        """
        key = f"{self.type}:{{{self.id}}}" if isinstance(self.runs, Mapping) else self.type
        if key == HTTP and only_fetches(self.params):
            key += " GET with auth" if "auth" in self.params else " GET"
        return f"{key} {EXTRA}" if self.extra and self.runs is None else key


@attrs.frozen(kw_only=True)
class EdgeSpec:
    """An edge of a workflow document: the next node if the first returns `action`, and `when` holds."""

    index: int
    source: str
    target: str
    action: str = "default"
    when: ExpressionPlace | None = None

    @property
    def path(self) -> str:
        return f"$.edges[{self.index}]"

    @property
    def conditions(self) -> list[ExpressionPlace]:
        return [self.when] if self.when else []

    @property
    def route(self) -> str:
        """What distinguishes this edge of the document at its node: its action, and its condition, if any."""
        return f"{self.action}{_IF}{self.when.text}" if self.when else self.action


@attrs.frozen(kw_only=True)
class InputSpec:
    """An input that the workflow document declares, required unless it has a default or says otherwise.

    `bounds` are what JSON Schema says of its value besides the type: `enum`, `minimum`, `maximum`, `pattern`.
    `stdin` takes it from what is piped in, and `setting` names a setting that has its value; a `secret` is
    redacted from traces.
    """

    name: str
    type: str = "any"
    required: bool = True
    default: JSON = None
    has_default: bool = False
    description: str = ""
    bounds: JSONObject = attrs.field(factory=dict)
    stdin: bool = False
    setting: str = ""
    secret: bool = False

    @property
    def path(self) -> str:
        return at("$.inputs", self.name)

    @cached_property
    def field(self) -> Field:
        return Field(
            key=self.name,
            type=self.type,
            required=self.required,
            description=self.description,
            schema=self.bounds or None,
        )

    @property
    def may_lack(self) -> bool:
        """Whether a run of the document may begin without a value of this input."""
        return _is_left_out(self.default, self) if self.has_default else not (self.required or self.setting)

    @property
    def limits(self) -> tuple[str, ...]:
        """What people are told about the values of a declared input: `one of "a", "b"`, `at least 3`."""
        return tuple(limits(SchemaDocument(self.bounds), self.bounds))

    @property
    def about(self) -> str:
        """What people are told about a declared input: its description, type, limits and default."""
        notes = [self.description, self.type, *self.limits]
        notes += [] if self.required or self.has_default else ["optional"]
        notes += [f"default {json.dumps(self.default)}"] if self.has_default and not self.secret else []
        return ", ".join(filter(None, notes))

    def value(self, given: object) -> object:
        """Convert what is given for this input of a document to its type, or raise `TypeMismatch`."""
        kinds = type_names(self.field)
        if isinstance(given, str) and kinds.isdisjoint({"str", "any"}):
            text = given.strip()
            if "bool" in kinds and text.lower() in ("true", "false"):
                given = text.lower() == "true"
            else:
                given = None if "None" in kinds and text in ("", "null") else text
        found = coerce(given, self.field)
        require_within(found, self.field)
        return found


@attrs.frozen(kw_only=True)
class OutputSpec:
    """An output that the workflow document declares, and the template of its value."""

    name: str
    source: str
    path: str


@attrs.frozen(kw_only=True)
class NodeMapping:
    """A node's part of the document's `mappings`: its keys, read or written, to names at the store's root."""

    inputs: Mapping[str, str] = attrs.field(factory=dict)
    outputs: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class WorkflowDocument:
    """The document of a whole workflow, without the malformed parts, which have been reported."""

    nodes: tuple[NodeSpec, ...] = ()
    edges: tuple[EdgeSpec, ...] = ()
    start: str = ""
    inputs: Mapping[str, InputSpec] = attrs.field(factory=dict)
    outputs: Mapping[str, OutputSpec] = attrs.field(factory=dict)
    mappings: Mapping[str, NodeMapping] = attrs.field(factory=dict)
    namespaced: bool = True
    permissive: bool = False

    def mapping(self, node_id: str) -> NodeMapping:
        return self.mappings.get(node_id, NodeMapping())


def normalise(workflow: JSON, upgrade: Upgrade | None = None) -> Any:
    """Return the document of a workflow in its normal form; the one given is not changed.

    It gets an `ir_version`; a node without a type gets its id as its type; without edges the nodes are
    chained in order; nodes of older shapes are rewritten by the source they belong to, which turns
    namespacing off unless the workflow itself sets it. Malformed parts stay unchanged for the check to
    find.
    """
    if not isinstance(workflow, Mapping):
        return workflow
    normal = {"ir_version": IR_VERSION, **workflow}
    given = normal.get("nodes")
    if isinstance(given, list):
        nodes: list[Any] = []
        for node in given:
            # Sources are asked about well-formed nodes only, so they need not check the shape.
            is_well_formed = (
                isinstance(node, dict)
                and isinstance(node.get("id"), str)
                and isinstance(node.get("type", ""), str)
                and isinstance(node.get("params", {}), dict)
            )
            newer = upgrade(node) if upgrade and is_well_formed else None
            if newer is not None:
                normal.setdefault("enable_namespacing", False)
            current = node if newer is None else dict(newer)
            if isinstance(current, dict) and "type" not in current and "id" in current:
                current = {**current, "type": current["id"]}
            nodes.append(current)
        normal["nodes"] = nodes
        if normal.get("edges") in (None, []):
            ids = [node["id"] for node in nodes if isinstance(node, dict) and isinstance(node.get("id"), str)]
            # The check reports a repeated id; here it must not chain a node to itself.
            distinct = list(dict.fromkeys(ids))
            normal["edges"] = [{"from": one, "to": other} for one, other in pairwise(distinct)]
    return normal


def bind_inputs(
    document: WorkflowDocument, given: Mapping[str, object]
) -> tuple[dict[str, object], list[Problem]]:
    """Bind values to the inputs that a workflow's document declares; return them and the problems.

    A string for an input of another type is parsed as that type: lists and objects as JSON, booleans
    as `true` or `false`. Other values are converted where nothing is lost. None, given or as default,
    for an optional input whose type excludes it counts as not given. Defaults are filled in.
    Without namespacing a run may be given more than is declared: nodes find it at the root of the
    shared store.
    """
    findings = Findings()
    declared = document.inputs
    given = {name: value for name, value in given.items() if not _is_left_out(value, declared.get(name))}
    for name in map(str, given):  # a Python program may give any key
        if name not in declared and (document.namespaced or is_reserved(name)):
            hint = did_you_mean(name, declared, f"The inputs are {listing(declared)}")
            findings.error(at("$.inputs", name), f"The workflow has no input {name}", hint)
    defaults: dict[str, object] = {}
    for name, spec in declared.items():
        if spec.has_default and not _is_left_out(spec.default, spec):
            defaults[name] = spec.default
            with suppress(TypeMismatch):  # an invalid value has been reported
                defaults[name] = coerce(spec.default, spec.field)
        elif spec.required and name not in given and not spec.has_default:
            about = f" ({spec.description})" if spec.description else ""
            step = f", or set it: pflow settings set {spec.setting} VALUE" if spec.setting else ""
            findings.error(spec.path, f"Input {name} is required{about}", f"Pass {name}=...{step}")
    values = dict(given)
    for name, spec in declared.items():
        value = given.get(name, STILL_TO_COME)
        if value is STILL_TO_COME:
            continue
        try:
            values[name] = spec.value(value)
        except TypeMismatch as error:
            got = "the value given is not" if spec.secret else f"got {error.given}"
            message = f"Input {name} must be {error.expected}, {got}"
            findings.error(spec.path, message, _spelling(spec, value) if isinstance(value, str) else "")
    return {**defaults, **values}, findings.problems


def _is_left_out(value: object, spec: InputSpec | None) -> bool:
    if value is not None or spec is None or (spec.required and not spec.has_default):
        return False
    return type_names(spec.field).isdisjoint({"None", "any"})


def secret_values(document: WorkflowDocument, values: Mapping[str, object]) -> list[str]:
    """Return the values, as texts, of those inputs that the workflow document declares as secret."""
    return texts_in(values.get(name) for name, spec in document.inputs.items() if spec.secret)


def broken_texts(bound: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem for each value, bound to an input of the document, that has half of a character.

    No file, program or tool can be given that. Bytes of a file's name that are not UTF-8 are no problem.
    """
    for name, value in bound.items():
        try:
            for text in strings_in(value):
                text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            message = f"Input {name} has {half}, half of a character, which UTF-8 cannot hold"
            yield Problem(path=at("$.inputs", str(name)), message=message, suggestion="Remove or replace it")


def texts_in(values: Iterable[object]) -> list[str]:
    """Return the texts and numbers among some values, as texts; of a list or an object, those in it."""
    kinds = (str, int, float)
    return [str(it) for it in _leaves(values) if isinstance(it, kinds) and not isinstance(it, bool)]


def strings_in(value: object) -> Iterator[str]:
    """Yield each string in a value of a workflow's document or of its inputs, and each key, however deep."""
    return (it for it in _leaves([value], keys=True) if isinstance(it, str))


def _leaves(values: Iterable[object], *, keys: bool = False) -> Iterator[object]:
    left = list(values)
    seen = set[int]()  # a node's list may contain itself
    for value in left:
        if not isinstance(value, Mapping | list | tuple):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            left += value.values() if isinstance(value, Mapping) else value
            left += value if keys and isinstance(value, Mapping) else ()


def _spelling(spec: InputSpec, text: str) -> str:
    kind = " | ".join(type_names(spec.field) - {"None"})
    if spec.limits:
        known = [choice for choice in spec.field.choices if isinstance(choice, str)]
        return did_you_mean(text, known, f"It is {', '.join([spec.type, *spec.limits])}")
    if kind == "list" and "\n" in text.strip():
        return f"Write it as JSON, or declare {spec.name} as str and take lines({spec.name}) in a transform"
    if kind in ("list", "dict"):
        return f"Write it as JSON, {spec.name}='{'[...]' if kind == 'list' else '{...}'}'"
    return _SPELLINGS.get(kind, f"Write a value that is {spec.type}")
