"""Inputs that a workflow declares and does not use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.host.workflow.expression_places import DATA, edge_expression, expressions_in
from pflow_mcp_plugin.host.workflow.findings import Findings
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, parse_path, references
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument


def check_inputs_are_used(
    document: WorkflowDocument, entries: Mapping[str, Entry | None], findings: Findings
) -> None:
    """Warn about unused inputs, to which nothing refers; a node that may read anything uses all.

    Args:
        document: The workflow.
        entries: The entry of each node type, None for an unknown one.
        findings: Collects the warnings.
    """
    if any(_reads_anything(entries[node.entry_key]) for node in document.nodes):
        return
    used = {*_in_templates(document), *_in_mappings(document), *_in_expressions(document, entries)}
    for node in document.nodes:
        used |= _natural_keys(document, node, entries[node.entry_key])
    for spec in document.inputs.values():
        if spec.name not in used:
            findings.warning(spec.path, f"Input {spec.name} is not used", "Refer to it or remove it")


def reads(entry: Entry) -> set[str]:
    """Return the keys, inputs among them, that a node reads from the shared store if no param is set."""
    return {*entry.interface.reads, *entry.interface.fields}


def _reads_anything(entry: Entry | None) -> bool:
    return entry is None or entry.interface.open


def _in_templates(document: WorkflowDocument) -> Iterator[str]:
    params = [node.params for node in document.nodes]
    lists = [node.batch.items for node in document.nodes if node.batch]
    sources = [output.source for output in document.outputs.values()]
    for value in (*params, *lists, *sources):
        yield from (part.root for _, part in references(value) if isinstance(part, TemplateReference))


def _in_expressions(document: WorkflowDocument, entries: Mapping[str, Entry | None]) -> Iterator[str]:
    edges = [edge_expression(edge) for edge in document.edges if edge.when]
    for node in document.nodes:
        places = [*expressions_in(node, entries[node.entry_key]), *edges]
        edges = []
        if places:
            from pflow_mcp_plugin.host.workflow.expression_reads import expression_reads

            found = expression_reads(places, document.inputs, on_data=DATA in node.params)
            yield from (read.root for read in found)


def _in_mappings(document: WorkflowDocument) -> Iterator[str]:
    for mapping in document.mappings.values():
        for source in mapping.inputs.values():
            yield from (source, str((parse_path(source) or (source,))[0]))


def _natural_keys(document: WorkflowDocument, node: NodeSpec, entry: Entry | None) -> set[str]:
    own = {*node.params, *document.mapping(node.id).inputs}
    return reads(entry) - own if entry else set()
