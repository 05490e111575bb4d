"""The uses of nodes in a workflow, as far as they are known before it runs, for the nodes' sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.contract import UNKNOWN, Entry, Field, PflowError
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce
from pflow_mcp_plugin.host.workflow.expression_places import (
    DATA,
    edge_expression,
    expression_params,
    expressions_in,
)
from pflow_mcp_plugin.host.workflow.repetition import Batch
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
from pflow_mcp_plugin.host.workflow.unused_inputs import reads
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument

Path = tuple[str | int, ...]
KnownValue = Callable[[TemplateReference], object]
"""Returns the value of a template, or `UNKNOWN`."""

MOST_ITEMS = 1_000
"""How many items of a batch are looked at before it runs."""


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


def item_values(batch: Batch, known: Mapping[str, object]) -> Iterator[tuple[int, KnownValue]]:
    """Yield, for each item of a batch that is known, its index and the values that its use knows."""
    items = known_value(batch.items, values_of(known))
    for index, item in enumerate(items[:MOST_ITEMS] if isinstance(items, list) else ()):
        yield index, values_of({**known, batch.name: item})


@attrs.frozen(eq=False, repr=False)
class OutputReads:
    """What a workflow reads of the outputs of its nodes; collected once for the uses of all of them."""

    _document: WorkflowDocument
    _entries: Mapping[str, Entry | None]
    _found: dict[str, set[Path]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        writers = self._writers()
        ids = {node.id for node in self._document.nodes}
        for path in (*self._in_templates(), *self._in_expressions(), *self._in_mappings()):
            root = str(path[0])
            if root in ids:
                self._add(root, path[1:])
            self._add_written(path, writers)
        for path in self._natural():
            self._add_written(path, writers)
        for node_id, mapping in self._document.mappings.items():
            for key in mapping.outputs:
                self._add(node_id, (key,))

    def of(self, node: NodeSpec) -> frozenset[Path]:
        """Return the paths that are read of the outputs of a node; of one in a batch those of an item."""
        found = self._found.get(node.id, ())
        return frozenset(found if node.batch is None else (it for path in found for it in _of_item(path)))

    def _add(self, node_id: str, path: Path) -> None:
        self._found.setdefault(node_id, set()).add(path)

    def _add_written(self, path: Path, writers: Mapping[str, list[tuple[str, str]]]) -> None:
        for node_id, key in writers.get(str(path[0]), ()):
            self._add(node_id, (key, *path[1:]))

    def _writers(self) -> dict[str, list[tuple[str, str]]]:
        """Return the nodes that may write each name at the root, each with its own name for it."""
        writers: dict[str, list[tuple[str, str]]] = {}
        for node in self._document.nodes:
            entry, mapped = self._entries.get(node.entry_key), self._document.mapping(node.id).outputs
            names = dict(mapped)
            if entry and not self._document.namespaced:
                names = {field.key: field.key for field in entry.interface.outputs} | names
            for key, name in names.items():
                writers.setdefault(name, []).append((node.id, key))
        return writers

    def _in_templates(self) -> Iterator[Path]:
        for node in self._document.nodes:
            unresolved = expression_params(self._entries.get(node.entry_key))
            values = [value for key, value in node.params.items() if key not in unresolved]
            for value in (*values, *((node.batch.items,) if node.batch else ())):
                yield from _named_in(value)
        for output in self._document.outputs.values():
            yield from _named_in(output.source)

    def _in_expressions(self) -> Iterator[Path]:
        everything = [node.id for node in self._document.nodes]
        edges = [edge_expression(edge) for edge in self._document.edges if edge.when]
        for node in self._document.nodes:
            places = [*expressions_in(node, self._entries.get(node.entry_key)), *edges]
            edges = []
            if places:
                from pflow_mcp_plugin.host.workflow.expression_reads import expression_reads

                for read in expression_reads(places, everything, on_data=DATA in node.params):
                    yield read.path

    def _in_mappings(self) -> Iterator[Path]:
        for mapping in self._document.mappings.values():
            for source in mapping.inputs.values():
                yield parse_path(source) or (source,)

    def _natural(self) -> Iterator[Path]:
        """Yield the names that nodes take from the root because nothing else gives them."""
        for node in self._document.nodes:
            entry = self._entries.get(node.entry_key)
            if entry is not None:
                own = {*node.params, *self._document.mapping(node.id).inputs}
                yield from ((key,) for key in reads(entry) - own)


def _named_in(value: object) -> Iterator[Path]:
    return (part.path for _, part in references(value) if isinstance(part, TemplateReference))


def _of_item(path: Path) -> Iterator[Path]:
    """Yield what a path into the outputs of a batch reads of an item: `results[0].title` reads `title`."""
    match path:
        case () | ("results" | "items",) | ("results" | "items", _) | ("items", _, "result"):
            yield ()
        case ("results", _, *rest) | ("items", _, "result", *rest):
            yield tuple(rest)
