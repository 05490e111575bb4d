"""Checks that a node which always runs needs no value of one that may be skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.host.workflow.coercion import type_name
from pflow_mcp_plugin.host.workflow.expression_places import expression_params
from pflow_mcp_plugin.host.workflow.findings import Findings, at
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, lone, references
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SkipCheck:
    """Checks the templates of one node against the conditions of the nodes they name.

    Attributes:
        node: The node.
        entry: Its entry, None if its type is unknown.
        nodes: Every node by id.
        findings: Collects the problems.
    """

    node: NodeSpec
    entry: Entry | None
    nodes: Mapping[str, NodeSpec]
    findings: Findings

    def run(self) -> None:
        """Warn about each value that the node needs and may not get."""
        if self.node.when:  # its condition may well be the same
            return
        for path, reference in self._needed():
            source = self.nodes.get(reference.root)
            if source is not None and source.when:
                message = f"{reference.text} has no value if node {source.id} is skipped"
                step = 'Give this node a "when" too, or provide a value for that case with a transform'
                self.findings.warning(path, message, step)

    def _needed(self) -> Iterator[tuple[str, TemplateReference]]:
        fields = {field.key: field for field in self.entry.interface.params} if self.entry else {}
        if self.node.batch:
            yield from self._inside(self.node.batch.items, f"{self.node.batch.path}.items")
        for key, value in self.node.params.items():
            path, field = at(f"{self.node.path}.params", str(key)), fields.get(str(key))
            whole = lone(value)
            takes_null = field is None or not field.required or _takes_null(field.types)
            if key in expression_params(self.entry) or (whole is not None and takes_null):
                continue
            yield from self._inside(value, path)

    def _inside(self, value: object, path: str) -> Iterator[tuple[str, TemplateReference]]:
        found = ((where, part) for where, part in references(value, path))
        return ((where, part) for where, part in found if isinstance(part, TemplateReference))


def _takes_null(types: tuple[str, ...]) -> bool:
    return bool({"any", "None"} & set(map(type_name, types)))
