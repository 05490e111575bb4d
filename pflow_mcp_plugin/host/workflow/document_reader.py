"""Reads a workflow's JSON into a `WorkflowDocument` and reports its malformed parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.coercion import (
    TypeMismatch,
    alternatives,
    coerce,
    described,
    is_type,
    require_within,
    type_of,
)
from pflow_mcp_plugin.host.workflow.constructs import CONSTRUCT_KEYS, Constructs, condition_at
from pflow_mcp_plugin.host.workflow.findings import CLOSE, Findings, at, cut, listing, shown
from pflow_mcp_plugin.host.workflow.workflow_document import (
    EXTRA,
    IR_VERSION,
    WORKFLOW_NODE,
    EdgeSpec,
    InputSpec,
    NodeMapping,
    NodeSpec,
    OutputSpec,
    WorkflowDocument,
)
from pflow_mcp_plugin.storage.json_and_toml import is_too_deep
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

T = TypeVar("T")

SCHEMA_FILE = Path(__file__).with_name("workflow.schema.json")
"""The JSON Schema of workflow files, for editors: it and this reader accept the same workflows."""

_PARTS = frozenset({"nodes", "edges", "start_node", "inputs", "outputs", "mappings"})
_MODES = frozenset({"ir_version", "enable_namespacing", "template_resolution_mode"})
_KEYS = _PARTS | _MODES | {"$schema", "metadata", "name", "description"}
NODE_KEYS = frozenset({"id", "type", "params", "purpose", "version", EXTRA, *CONSTRUCT_KEYS})
EDGE_KEYS = frozenset({"from", "to", "action", "when"})
MAPPING_KEYS = frozenset({"input_mappings", "output_mappings"})
BOUNDS: Mapping[str, type] = {"enum": list, "minimum": float, "maximum": float, "pattern": str}
"""The bounds on the values of an input, and the type of each bound."""
_NUMBERS = frozenset({"int", "float"})
_BOUNDED: Mapping[str, frozenset[str]] = {
    "minimum": _NUMBERS,
    "maximum": _NUMBERS,
    "pattern": frozenset({"str"}),
}
"""The types that each bound applies to."""
INPUT_KEYS = frozenset({"type", "required", "default", "description", "stdin", "setting", "secret", *BOUNDS})
_TYPES = ("any", *FRIENDLY_NAMES.values())
_NAME = re.compile(r"\w[\w-]*")
_DEEPEST = 100
_LONGEST_PATTERN = 200
MOST_NODES = 10_000
"""The most nodes that a workflow may have."""
MOST_EDGES = 50_000
"""The most edges that a workflow may have."""
_WORDS: Mapping[type, tuple[str, str]] = {
    dict: ("an object", "Write {...}"),
    list: ("a list", "Write [...]"),
    str: ("a string", 'Write "..."'),
    bool: ("true or false", "Write true or false, without quotes"),
    float: ("a number", "Write a number, without quotes"),
}
"""The type that the reader expects, in words, and how to write it."""


def read_document(workflow: JSON, findings: Findings) -> WorkflowDocument:
    """Read workflow JSON into a document: malformed parts are left out and reported to `findings`."""
    reader = _Reader(findings)
    if not reader.expect(workflow, dict, "$"):
        return WorkflowDocument()
    if is_too_deep(workflow, _DEEPEST):
        findings.error("$", f"The workflow is nested deeper than {_DEEPEST} levels", "Flatten it")
        return WorkflowDocument()
    reader.check_keys(workflow)
    reader.check_version(workflow)
    if workflow.get("nodes") in (None, []):
        findings.error("$.nodes", "The workflow has no nodes", "Add at least one node")
    return WorkflowDocument(
        nodes=reader.each(workflow, "nodes", MOST_NODES, reader.node),
        edges=reader.each(workflow, "edges", MOST_EDGES, reader.edge),
        start=reader.get(workflow, "start_node", str, "$", "") or "",
        inputs=reader.inputs(workflow),
        outputs=reader.outputs(workflow),
        mappings=reader.mappings(workflow),
        namespaced=reader.get(workflow, "enable_namespacing", bool, "$", True),
        permissive=reader.permissive(workflow),
    )


def _why_not_linear(pattern: str) -> str:
    """Return why the reader refuses a workflow input's `pattern`; empty if it is linear."""
    from pflow_mcp_plugin.schemas.schema_reduction import is_linear

    if is_linear(pattern):
        return ""
    try:
        re.compile(pattern[:_LONGEST_PATTERN])
    except (re.error, OverflowError, RecursionError) as error:
        if len(pattern) <= _LONGEST_PATTERN:
            return f"is not a regular expression: {error}"
    return "may take more than linear time"


def _why_no_choice(choice: JSON, field: Field, before: list[object]) -> str:
    """Return why the reader refuses a value in an input's `enum`, after others `before`; else empty."""
    if isinstance(choice, list | dict):
        return "must be a single value"
    try:
        found = coerce(choice, field)
        require_within(found, field)
    except TypeMismatch as error:
        return f"must be {error.expected}"
    if type(found) is not type(choice):
        return f"must be {field.type}"
    return "is listed twice" if (isinstance(choice, bool), choice) in before else ""


class _Reader:
    """Reads a workflow document, one section after another; each method reports what it leaves out."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def expect(self, value: JSON, kind: type[T], path: str) -> TypeGuard[T]:
        """Return whether a part of the document has the JSON type; report it if not."""
        if isinstance(value, kind) or (kind is float and type(value) is int):
            return True
        expected, step = _WORDS[kind]
        self.findings.error(path, f"Expected {expected}, found {shown(value)}", step)
        return False

    def get(self, holder: JSONObject, key: str, kind: type[T], path: str, default: T) -> T:
        """Read an optional member of the document; `default` if it is absent, null or of another type."""
        value = holder.get(key)
        if value is None or not self.expect(value, kind, at(path, key)):
            return default
        return value

    def check_keys(self, workflow: JSONObject) -> None:
        for key in workflow:
            # JSON has string keys only, but a workflow may also be a Python object.
            if not isinstance(key, str):
                self.findings.error("$", f"The key {key!r} is not a string", "Put it in quotes")
            elif key not in _KEYS:
                hint = did_you_mean(key, _KEYS, "Put your own keys under metadata")
                self.findings.warning(at("$", key), f"Unknown key {key}", hint)

    def check_members(self, item: JSONObject, known: frozenset[str], path: str) -> None:
        for key in item:
            if key not in known:
                hint = did_you_mean(str(key), known, f"The keys are {listing(sorted(known))}")
                self.findings.warning(at(path, str(key)), f"Unknown key {key}", hint)

    def check_spelling(self, node: JSONObject, path: str) -> None:
        """Warn of a misspelled key of a node being read; any other, such as `types`, is the user's own."""
        for key in (key for key in node if key not in NODE_KEYS):
            known = [ours for ours in NODE_KEYS if ours not in node or not str(key).startswith(ours)]
            hint = did_you_mean(str(key), known, cutoff=CLOSE)
            if hint:
                self.findings.warning(at(path, str(key)), f"Unknown key {key}", hint)

    def check_version(self, workflow: JSONObject) -> None:
        version = self.get(workflow, "ir_version", str, "$", IR_VERSION)
        major = version.partition(".")[0]
        # Cut to nine digits, as `int` refuses thousands of digits.
        if not (major.isdecimal() and int(major[:9]) <= int(IR_VERSION.partition(".")[0])):
            message = f"ir_version {version} is not supported; {IR_VERSION} is"
            self.findings.error("$.ir_version", message, "Upgrade pflow, or write the workflow for it")

    def permissive(self, workflow: JSONObject) -> bool:
        mode = self.get(workflow, "template_resolution_mode", str, "$", "strict")
        if mode not in ("strict", "permissive"):
            path = "$.template_resolution_mode"
            hint = did_you_mean(mode, ("strict", "permissive"), "Use strict or permissive")
            self.findings.error(path, f"Unknown template resolution mode {mode}", hint)
        return mode == "permissive"

    def each(
        self, workflow: JSONObject, key: str, most: int, read: Callable[[int, JSON], T | None]
    ) -> tuple[T, ...]:
        """Read each item of a list in the document, none if the list is longer than allowed; report that."""
        items: list[JSON] = self.get(workflow, key, list, "$", [])
        if len(items) > most:
            message = f"The workflow has {len(items):,} {key}, more than the {most:,} allowed"
            self.findings.error(f"$.{key}", message, "Use batch, or several workflows")
            return ()
        found = (read(index, item) for index, item in enumerate(items))
        return tuple(item for item in found if item is not None)

    def node(self, index: int, item: JSON) -> NodeSpec | None:
        path = f"$.nodes[{index}]"
        if not self.expect(item, dict, path):
            return None
        self.check_spelling(item, path)
        named = self.name_at(item, "id", path)
        # Without an id, the normal form had no id to use as the type: one problem is enough.
        typed = self.name_at(item, "type", path) if "id" in item or "type" in item else ""
        params = self.get(item, "params", dict, path, {})
        constructs = Constructs.read(item, path, self.findings)
        if not named:
            return None
        # A bad id or type has been reported; the node stays, for edges and templates that name it.
        self.is_name(named, f"{path}.id", "node id")
        runs = params.get(WORKFLOW_NODE) if typed == WORKFLOW_NODE else None
        if not isinstance(runs, str | dict):
            runs = None
        else:
            # The templates in a workflow that it runs are not its own.
            params = {key: value for key, value in params.items() if key != WORKFLOW_NODE}
            typed = f"{WORKFLOW_NODE}:{runs}" if isinstance(runs, str) else WORKFLOW_NODE
        return NodeSpec(
            index=index,
            id=named,
            type=typed,
            params=params,
            raw=item,
            constructs=constructs,
            runs=runs,
            extra=self.get(item, EXTRA, bool, path, False),
        )

    def name_at(self, item: JSONObject, key: str, path: str) -> str:
        """Read a member of the document that must be a non-empty string; "" if it is not."""
        if key not in item:
            self.findings.error(path, f"{key} is missing", f"Add {key}")
        elif self.expect(item[key], str, at(path, key)):
            if not item[key]:
                self.findings.error(at(path, key), f"{key} is empty", f"Fill in {key}")
            return str(item[key])
        return ""

    def is_name(self, name: str, path: str, what: str) -> bool:
        """Return whether the document may use a name; report one that is reserved or no template can name."""
        if is_reserved(name):
            self.findings.error(path, f"The {what} {name} is reserved", "Drop the double underscores")
        elif not _NAME.fullmatch(name):
            self.findings.error(
                path, f"The {what} {name!r} may contain only letters, digits, _ and -", "Rename it"
            )
        else:
            return True
        return False

    def edge(self, index: int, item: JSON) -> EdgeSpec | None:
        path = f"$.edges[{index}]"
        if not self.expect(item, dict, path):
            return None
        self.check_members(item, EDGE_KEYS, path)
        source, target = self.name_at(item, "from", path), self.name_at(item, "to", path)
        action = self.get(item, "action", str, path, "default") or "default"
        when = condition_at(item.get("when"), f"{path}.when", self.findings)
        if not source or not target:
            return None
        return EdgeSpec(index=index, source=source, target=target, action=action, when=when)

    def inputs(self, workflow: JSONObject) -> dict[str, InputSpec]:
        items = self.get(workflow, "inputs", dict, "$", {})
        read = (self.input(name, item) for name, item in items.items())
        inputs = {spec.name: spec for spec in read if spec}
        streams = [name for name, spec in inputs.items() if spec.stdin]
        for name in streams[1:]:
            message = f"Only one input can take stdin; {streams[0]} does"
            self.findings.error(f"{inputs[name].path}.stdin", message, "Remove stdin from one")
        return inputs

    def input(self, name: str, item: JSON) -> InputSpec | None:
        path = at("$.inputs", str(name))
        if not self.is_name(str(name), path, "input name") or not self.expect(item, dict, path):
            return None
        self.check_members(item, INPUT_KEYS, path)
        kind = self.get(item, "type", str, path, "any")
        if not is_type(kind):
            hint = did_you_mean(kind, _TYPES, f"Use one of {', '.join(_TYPES)}")
            self.findings.error(f"{path}.type", f"Unknown type {kind}", hint)
            kind = "any"
        found = {word: self.get(item, word, type_, path, None) for word, type_ in BOUNDS.items()}
        bounds = {word: value for word, value in found.items() if value is not None}
        if kind == "any" and bounds.get("enum"):
            kind = " | ".join(dict.fromkeys(map(type_of, bounds["enum"])))
        self.check_bounds(bounds, kind, path)
        setting = self.get(item, "setting", str, path, "")
        spec = InputSpec(
            name=name,
            type=kind,
            required=self.get(item, "required", bool, path, "default" not in item),
            default=item.get("default"),
            has_default="default" in item,
            description=self.get(item, "description", str, path, ""),
            bounds=bounds,
            stdin=self.get(item, "stdin", bool, path, False),
            setting=setting,
            secret=self.get(item, "secret", bool, path, bool(setting)),
        )
        try:
            if spec.default is not None:
                require_within(coerce(spec.default, spec.field), spec.field)
        except TypeMismatch as error:
            message = f"The default of input {spec.name} must be {error.expected}, got {error.given}"
            self.findings.error(f"{spec.path}.default", message, "Write one, or change the type")
        return spec

    def check_bounds(self, bounds: dict[str, Any], kind: str, path: str) -> None:
        """Report the wrong bounds of an input in the document, and leave them out."""

        def refuse(word: str, message: str, step: str) -> None:
            self.findings.error(f"{path}.{word}", message, step)
            del bounds[word]

        given = {*alternatives(kind)} - {"None"}
        for word in bounds.keys() & _BOUNDED:
            if not given or not given <= _BOUNDED[word]:
                step = f"Declare the type {' or '.join(sorted(_BOUNDED[word]))}, or remove {word}"
                refuse(word, f"{word} does not apply to the type {kind}", step)
        if bounds.keys() >= {"minimum", "maximum"} and not bounds["minimum"] <= bounds["maximum"]:
            message = f"The minimum {bounds['minimum']} is more than the maximum {bounds['maximum']}"
            refuse("minimum", message, "Exchange them")
        if "pattern" in bounds and (reason := _why_not_linear(bounds["pattern"])):
            step = r"Use ^, $, characters, classes and repeats, as in ^[a-z]+-\d{2}$, or an enum"
            refuse("pattern", f"The pattern {cut(bounds['pattern'])} {reason}", step)
        if bounds.get("enum") == []:
            refuse("enum", "The enum is empty", "List the values")
        others = {word: bound for word, bound in bounds.items() if word != "enum"}
        plain = Field(key="enum", type=kind, schema=others)
        seen: list[object] = []
        for number, choice in enumerate(bounds.get("enum", ())):
            if reason := _why_no_choice(choice, plain, seen):
                message = f"A value of the enum {reason}: {described(choice)}"
                self.findings.error(f"{path}.enum[{number}]", message, "Correct it")
                bounds.pop("enum", None)
            seen.append((isinstance(choice, bool), choice))

    def outputs(self, workflow: JSONObject) -> dict[str, OutputSpec]:
        items = self.get(workflow, "outputs", dict, "$", {})
        read = (self.output(str(name), item) for name, item in items.items())
        return {spec.name: spec for spec in read if spec}

    def output(self, name: str, item: JSON) -> OutputSpec | None:
        path = at("$.outputs", name)
        if isinstance(item, str):
            return OutputSpec(name=name, source=item, path=path)
        if not isinstance(item, dict):
            message = f"Expected a template or an object with a source, found {shown(item)}"
            self.findings.error(path, message, 'Write "${node.key}"')
            return None
        source = self.name_at(item, "source", path)
        return OutputSpec(name=name, source=source, path=f"{path}.source") if source else None

    def mappings(self, workflow: JSONObject) -> dict[str, NodeMapping]:
        items = self.get(workflow, "mappings", dict, "$", {})
        return {str(node): self.mapping(at("$.mappings", str(node)), item) for node, item in items.items()}

    def mapping(self, path: str, item: JSON) -> NodeMapping:
        if not self.expect(item, dict, path):
            return NodeMapping()
        self.check_members(item, MAPPING_KEYS, path)
        return NodeMapping(
            inputs=self.names(item, "input_mappings", path),
            outputs=self.names(item, "output_mappings", path),
        )

    def names(self, item: JSONObject, key: str, path: str) -> dict[str, str]:
        pairs = self.get(item, key, dict, path, {})
        where = at(path, key)
        return {own: other for own, other in pairs.items() if self.expect(other, str, at(where, str(own)))}
