"""What a workflow reads: where it has expressions, and what is known of its nodes and inputs before a run.

Expressions are in the constructs of nodes, in conditions of edges, in the cases of a `branch`, and in a
`transform`. The expression language is imported only where there is one to parse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pflow_mcp_plugin.contract import UNKNOWN, Entry, Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, json_in
from pflow_mcp_plugin.host.workflow.constructs import ExpressionPlace, Path
from pflow_mcp_plugin.host.workflow.findings import at
from pflow_mcp_plugin.host.workflow.templates import (
    MissingValue,
    TemplateReference,
    follow,
    has_template,
    named,
    parse,
    parse_path,
    resolve,
    with_strings,
)
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument
from pflow_mcp_plugin.schemas.schema_reader import list_of, table_of

OWN = "pflow"
"""The source of the host's own nodes."""
EVALUATE = "__evaluate__"
"""The parameter in which a node gets the function that evaluates its expressions."""
ASKING = "__asking__"
"""The parameter in which a node gets the function that asks a person."""
READS = "__reads__"
"""The parameter in which a node `shell` gets the paths that the workflow reads of its outputs."""
CASES, EXPRESSION, OUTPUTS, DATA = "cases", "expression", "outputs", "data"
_PARAMS: Mapping[str, frozenset[str]] = {
    "branch": frozenset({CASES}),
    "transform": frozenset({EXPRESSION, OUTPUTS}),
}
KnownValue = Callable[[TemplateReference], object]
"""Returns the value of a template, or `UNKNOWN`."""


def own_type(entry: Entry | None) -> str:
    """Return the type of a workflow's node that reads values by expressions, one of our own; else empty."""
    return entry.node if entry is not None and entry.source == OWN else ""


def expression_params(entry: Entry | None) -> frozenset[str]:
    """Return where a workflow's node has expressions: the params read as such, which hold no templates."""
    return _PARAMS.get(own_type(entry), frozenset())


def param_expressions(node: NodeSpec, entry: Entry | None) -> Iterator[ExpressionPlace]:
    """Yield the expressions in a node's params; malformed ones are left out."""
    path, on_data = f"{node.path}.params", DATA in node.params
    if own_type(entry) == "branch":
        for number, case in enumerate(cases_of(node.params)):
            text = table_of(case).get("when")
            if isinstance(text, str):
                where = f"{path}.cases[{number}].when"
                yield ExpressionPlace(text=text, path=where, param=CASES, is_condition=True, on_data=on_data)
    elif own_type(entry) == "transform":
        text = node.params.get(EXPRESSION)
        if isinstance(text, str):
            where = f"{path}.{EXPRESSION}"
            yield ExpressionPlace(text=text, path=where, param=EXPRESSION, output="result", on_data=on_data)
        for name, text in outputs_of(node.params).items():
            if isinstance(text, str):
                where = at(f"{path}.{OUTPUTS}", name)
                yield ExpressionPlace(text=text, path=where, param=OUTPUTS, output=name, on_data=on_data)


def expressions_in(
    document: WorkflowDocument, entries: Mapping[str, Entry | None]
) -> Iterator[ExpressionPlace]:
    """Yield every expression that a workflow reads values by: on its edges and in its nodes."""
    for edge in document.edges:
        yield from edge.conditions
    for node in document.nodes:
        yield from node.constructs.conditions
        yield from param_expressions(node, entries.get(node.entry_key))


def cases_of(params: Mapping[str, Any]) -> list[JSON]:
    """Return the cases of a workflow's `branch`, whose conditions read values; empty if it has none."""
    return list_of(_structured(params.get(CASES)))


def outputs_of(params: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the expressions of a workflow's `transform`, which read values, by the names of its outputs."""
    return {str(name): text for name, text in table_of(_structured(params.get(OUTPUTS))).items()}


def _structured(value: Any) -> Any:
    return json_in(value) if isinstance(value, str) else value


def actions_of(node: NodeSpec) -> tuple[str, ...]:
    """Read from a workflow which actions a `branch` has: those of its cases, `default` and `error`."""
    cases = (table_of(case).get("action") for case in cases_of(node.params))
    return tuple(dict.fromkeys([*(name for name in cases if isinstance(name, str)), "default", "error"]))


def expression_reads(
    places: Iterable[ExpressionPlace], everything: Iterable[str]
) -> Iterator[tuple[str, Path]]:
    """Yield the paths that expressions read, each with its parameter; a malformed one reads nothing."""
    for place in places:
        from pflow_mcp_plugin.host.workflow.expressions import parsed
        from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading, Shape

        try:
            expression = parsed(place.text)
        except PflowError:
            continue
        reading = Reading.of(expression, current=Shape() if place.on_data else None)
        if reading.everything:
            yield from ((place.param, (name,)) for name in everything)
        yield from ((place.param, path) for path in reading.longest_paths)


def transform_outputs(node: NodeSpec, entry: Entry) -> tuple[Field, ...]:
    """Return the outputs that a workflow's `transform` will have, each typed by what its expression reads."""
    from pflow_mcp_plugin.host.workflow.expressions import parsed
    from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading

    outputs = []
    for place in param_expressions(node, entry):
        try:
            outputs.append(Reading.of(parsed(place.text)).result.field(place.output))
        except PflowError:  # the check reports it
            outputs.append(Field(key=place.output))
    return tuple(outputs)


def known_params(
    node: NodeSpec, entry: Entry, lookup: KnownValue, *, of_item: bool = False
) -> dict[str, object]:
    """Read what is known of a node's params before a run; `UNKNOWN` where a value is not there yet.

    A value of the wrong type is `UNKNOWN` too; only in the use of an item of a batch it stays as it is.
    """
    fields = entry.interface.fields
    params: dict[str, object] = {}
    for key, value in node.params.items():
        is_code = key in fields and fields[key].source_code and has_template(value)
        found = UNKNOWN if is_code or key in expression_params(entry) else known_value(value, lookup)
        fit = fitting(found, fields[key]) if key in fields else found
        keeps = fit is UNKNOWN and of_item and has_template(value)
        params[str(key)] = found if keeps else fit
    return params


def fitting(value: object, field: Field) -> object:
    """Return a value known before a run in its declared type; `UNKNOWN` if it does not fit."""
    try:
        return value if value is UNKNOWN else coerce(value, field)
    except TypeMismatch:
        return UNKNOWN


def values_of(known: Mapping[str, object]) -> KnownValue:
    """Return a look-up by which a workflow's templates read, before a run, the values that are known then."""

    def lookup(reference: TemplateReference) -> object:
        return follow(known[reference.root], reference.path[1:]) if reference.root in known else UNKNOWN

    return lookup


def known_value(value: object, lookup: KnownValue) -> Any:
    """Read, before a run, what a value with templates will be; `UNKNOWN` for values not there yet."""

    def known(text: str) -> Any:
        if "${" not in text:
            return text
        parts = [part for part in parse(text) if not isinstance(part, str)]
        try:
            found = [lookup(part) if isinstance(part, TemplateReference) else UNKNOWN for part in parts]
            # A value with gaps can stand for itself, but not inside other text.
            if len(found) == 1 and parts[0].text == text:
                return found[0]
            return UNKNOWN if any(map(_has_gap, found)) else resolve(text, lookup)
        except (MissingValue, PflowError):
            return UNKNOWN

    return with_strings(value, known)


def _has_gap(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_gap, value.values()))
    return any(map(_has_gap, value)) if isinstance(value, list) else value is UNKNOWN


class WorkflowReads:
    """What a workflow reads of its `inputs` and of the outputs of its nodes; collected once."""

    def __init__(self, document: WorkflowDocument, entries: Mapping[str, Entry | None]) -> None:
        self._found: defaultdict[str, set[Path]] = defaultdict(set)
        ids = {node.id for node in document.nodes}
        writers: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        everything = (*document.inputs, *ids)
        values: list[object] = [output.source for output in document.outputs.values()]
        for node in document.nodes:
            values += (*node.params.values(), *(place.value for place in node.constructs.templates))
        expressions = expression_reads(expressions_in(document, entries), everything)
        by_name = {*(part.path for part in named(values)), *(path for _, path in expressions)}
        sources = [source for mapping in document.mappings.values() for source in mapping.inputs.values()]
        by_name |= {path for source in sources for path in ((source,), parse_path(source) or (source,))}
        natural: set[Path] = set()
        for node in document.nodes:
            entry = entries.get(node.entry_key)
            for key, name in root_names(document, node.id, entry).items():
                writers[name].append((node.id, key))
            # Names that nodes read from the root because nothing else gives them.
            taken = reads(entry) - {*node.params, *document.mapping(node.id).inputs} if entry else ()
            natural |= {(key,) for key in taken}
        for path in by_name:
            if path[0] in ids:
                self._found[str(path[0])].add(path[1:])
        for path in by_name | natural:
            for node_id, key in writers.get(str(path[0]), ()):
                self._found[node_id].add((key, *path[1:]))
        for node_id, mapping in document.mappings.items():
            for key in mapping.outputs:
                self._found[node_id].add((key,))
        self.inputs = document.inputs.keys() & {path[0] for path in by_name | natural}

    def of(self, node: NodeSpec) -> frozenset[Path]:
        """Return the paths that the workflow reads of a node's outputs; of a batch, those of a single run."""
        paths = self._found.get(node.id, ())
        return frozenset(inner for path in paths for inner in node.constructs.read_of_one(path))


def reads(entry: Entry) -> set[str]:
    """Return the keys, inputs among them, that a node reads from the shared store if no param is set."""
    return {*entry.interface.reads, *entry.interface.fields}


def root_names(document: WorkflowDocument, node_id: str, entry: Entry | None) -> dict[str, str]:
    """Return the names at the store's root by which a workflow reads a node's outputs, by the node's own."""
    mapped = document.mapping(node_id).outputs
    declared = () if document.namespaced or entry is None else entry.interface.outputs
    return {field.key: field.key for field in declared} | dict(mapped)
