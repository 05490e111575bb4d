"""How a workflow uses its nodes and inputs, as far as that is known before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pflow_mcp_plugin.contract import UNKNOWN, Entry, Field, PflowError
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce
from pflow_mcp_plugin.host.workflow.constructs import Path
from pflow_mcp_plugin.host.workflow.expression_places import (
    every_expression,
    expression_params,
    expression_reads,
)
from pflow_mcp_plugin.host.workflow.templates import (
    MissingValue,
    TemplateReference,
    follow,
    has_template,
    parse,
    parse_path,
    references,
    resolve,
)
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument

KnownValue = Callable[[TemplateReference], object]
"""Returns the value of a template, or `UNKNOWN`."""


def nothing_known(_: TemplateReference) -> object:
    """Return `UNKNOWN`: before a run, a use knows none of the values that templates name."""
    return UNKNOWN


def known_params(
    node: NodeSpec, entry: Entry, lookup: KnownValue = nothing_known, *, of_item: bool = False
) -> dict[str, object]:
    """Return the params of a use of a node, coerced, with `UNKNOWN` where only the run knows the value.

    So is a value of the wrong type, which the check of the workflow reports. Only in the use of an item of a
    batch such a value stays as it is.
    """
    fields = entry.interface.fields
    params: dict[str, object] = {}
    for key, value in node.params.items():
        found = UNKNOWN if key in expression_params(entry) else known_value(value, lookup)
        fit = fitting(found, fields[key]) if key in fields else found
        keeps = fit is UNKNOWN and of_item and has_template(value)
        params[str(key)] = found if keeps else fit
    return params


def fitting(value: object, field: Field) -> object:
    """Return a value that a use knows in its declared type; `UNKNOWN` if it does not fit."""
    try:
        return value if value is UNKNOWN else coerce(value, field)
    except TypeMismatch:
        return UNKNOWN


def values_of(known: Mapping[str, object]) -> KnownValue:
    """Return what looks up the values that a use knows, by the first name of a template."""

    def lookup(reference: TemplateReference) -> object:
        return follow(known[reference.root], reference.path[1:]) if reference.root in known else UNKNOWN

    return lookup


def known_value(value: object, lookup: KnownValue = nothing_known) -> Any:
    """Return a value of a use with its templates filled in, `UNKNOWN` in place of what they leave open."""
    if isinstance(value, dict):
        return {key: known_value(item, lookup) for key, item in value.items()}
    if isinstance(value, list):
        return [known_value(item, lookup) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    parts = [part for part in parse(value) if not isinstance(part, str)]
    try:
        found = [lookup(part) if isinstance(part, TemplateReference) else UNKNOWN for part in parts]
        # A value with gaps can stand for itself, but not inside other text.
        if len(found) == 1 and parts[0].text == value:
            return found[0]
        return UNKNOWN if any(map(_has_gap, found)) else resolve(value, lookup)
    except (MissingValue, PflowError):
        return UNKNOWN


def _has_gap(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_gap, value.values()))
    return any(map(_has_gap, value)) if isinstance(value, list) else value is UNKNOWN


class WorkflowReads:
    """What a workflow reads of its inputs and of the outputs of its nodes; collected once.

    Attributes:
        inputs: The inputs that something reads.
    """

    def __init__(self, document: WorkflowDocument, entries: Mapping[str, Entry | None]) -> None:
        self._found: dict[str, set[Path]] = {}
        ids, writers = {node.id for node in document.nodes}, _writers(document, entries)
        named = {*_in_templates(document), *_in_expressions(document, entries), *_in_mappings(document)}
        natural = set(_natural(document, entries))
        for path in named:
            if path[0] in ids:
                self._add(str(path[0]), path[1:])
        for path in named | natural:
            for node_id, key in writers.get(str(path[0]), ()):
                self._add(node_id, (key, *path[1:]))
        for node_id, mapping in document.mappings.items():
            for key in mapping.outputs:
                self._add(node_id, (key,))
        self.inputs = document.inputs.keys() & {path[0] for path in named | natural}

    def of(self, node: NodeSpec) -> frozenset[Path]:
        """Return the paths that are read of the outputs of a node; of one that repeats those of one run."""
        paths = self._found.get(node.id, ())
        return frozenset(inner for path in paths for inner in node.constructs.read_of_one(path))

    def _add(self, node_id: str, path: Path) -> None:
        self._found.setdefault(node_id, set()).add(path)


def reads(entry: Entry) -> set[str]:
    """Return the keys, inputs among them, that a node reads from the shared store if no param is set."""
    return {*entry.interface.reads, *entry.interface.fields}


def _writers(
    document: WorkflowDocument, entries: Mapping[str, Entry | None]
) -> dict[str, list[tuple[str, str]]]:
    """Return the nodes that may write each name at the root, each with its own name for it."""
    writers: dict[str, list[tuple[str, str]]] = {}
    for node in document.nodes:
        entry, mapped = entries.get(node.entry_key), document.mapping(node.id).outputs
        names = dict(mapped)
        if entry and not document.namespaced:
            names = {field.key: field.key for field in entry.interface.outputs} | names
        for key, name in names.items():
            writers.setdefault(name, []).append((node.id, key))
    return writers


def _in_templates(document: WorkflowDocument) -> Iterator[Path]:
    values: list[object] = [output.source for output in document.outputs.values()]
    for node in document.nodes:
        values += node.params.values()
        values += (place.value for place in node.constructs.templates())
    yield from (part.path for _, part in references(values) if isinstance(part, TemplateReference))


def _in_expressions(document: WorkflowDocument, entries: Mapping[str, Entry | None]) -> Iterator[Path]:
    everything = (*document.inputs, *(node.id for node in document.nodes))
    yield from (path for _, path in expression_reads(every_expression(document, entries), everything))


def _in_mappings(document: WorkflowDocument) -> Iterator[Path]:
    for mapping in document.mappings.values():
        for source in mapping.inputs.values():
            yield from ((source,), parse_path(source) or (source,))


def _natural(document: WorkflowDocument, entries: Mapping[str, Entry | None]) -> Iterator[Path]:
    """Yield the names that nodes take from the root because nothing else gives them."""
    for node in document.nodes:
        entry = entries.get(node.entry_key)
        if entry is not None:
            own = {*node.params, *document.mapping(node.id).inputs}
            yield from ((key,) for key in reads(entry) - own)
