"""Repairs of a planned workflow that need no model.

What the task leaves open becomes a declared input; where an output is named differently from the parameter
that needs it, a mapping joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import chain, count
from typing import Any

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.planning.joins import (
    join_by_name,
    join_by_type,
    names_place,
    outputs_of,
    result_of,
    template_name,
)
from pflow_mcp_plugin.host.planning.plan import Origin
from pflow_mcp_plugin.host.planning.plan_prompt import INPUT_TYPES, visible
from pflow_mcp_plugin.host.workflow.coercion import may_become
from pflow_mcp_plugin.host.workflow.reference_check import effective_entry
from pflow_mcp_plugin.host.workflow.sub_workflows import check_workflow
from pflow_mcp_plugin.host.workflow.templates import lone, named, parse_path, with_strings
from pflow_mcp_plugin.host.workflow.workflow_check import Checked, NodeTypes
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec
from pflow_mcp_plugin.host.workflow.workflow_reads import reads
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

_DESCRIPTION = 160
_CLOSE = 0.8
"""From this similarity to a known name on, an unknown name is a misspelling, not a new input."""


class PlanRepair:
    """Repairs a planned workflow; `workflow` is the repaired copy."""

    def __init__(self, workflow: JSONObject, types: NodeTypes, origin: Origin) -> None:
        self._origin = origin
        self.workflow: dict[str, Any] = deepcopy(dict(workflow))
        self._types = types
        self._checked: Checked = check_workflow(workflow, types)
        self._nodes: dict[str, NodeSpec] = {}
        for node in self._checked.document.nodes:
            self._nodes.setdefault(node.id, node)

    def join(self) -> None:
        """Repair names in a planned workflow: an output gets its node, any other name becomes an input."""
        for node in self._nodes.values():
            for part in named([node.params, *(place.value for place in node.constructs.templates)]):
                if not self._is_known(part.root):
                    # It means the only output of that name, else a new input.
                    earlier = self._checked.graph.before(node.id)
                    known = ((node_id, self._entry(node_id)) for node_id in earlier if node_id != node.id)
                    holders = [
                        it
                        for it, entry in known
                        if entry and part.root in {field.key for field in entry.interface.outputs}
                    ]
                    if len(holders) == 1:
                        params = self.workflow["nodes"][node.index]["params"]
                        text = part.text.replace(part.root, f"{holders[0]}.{part.root}", 1)
                        self.workflow["nodes"][node.index]["params"] = with_strings(
                            params,
                            lambda it: it.replace(part.text, text),  # noqa: B023 - called at once
                        )
                    elif len(part.path) == 1 and not did_you_mean(
                        part.root, [*self._nodes, *self.workflow.get("inputs", {})], cutoff=_CLOSE
                    ):
                        key = next((key for key, value in node.params.items() if value == part.text), "")
                        self._declare(part.root, node, key)
        for node_id, mapping in self._checked.document.mappings.items():
            for key, source in mapping.inputs.items():
                root = str((parse_path(source) or (source,))[0])
                if root == source and not self._is_known(root) and node_id in self._nodes:
                    self._declare(source, self._nodes[node_id], key)

    def map_lacking(self, *, pipes: bool = True) -> None:
        """Repair required parameters that lack a value, by mappings.

        With `pipes`, the parameter that a node takes from a pipe gets the previous result, whatever its name.
        """
        for node, field in list(self._lacking()):
            source = self._source(node, field, pipes=pipes)
            if source and source not in self._mapped(node).values():
                self._map(node, field.key, source)

    def ask_for_lacking(self) -> None:
        for node, field in list(self._lacking()):
            if not field.source_code:
                self._use_input(node, field.key)

    def ask_for(self, params: Iterable[tuple[int, str]]) -> None:
        """Repair these parameters by inputs that ask for their values; each is the node's index and the key.

        A command line is left alone: an input would be one word of it.
        """
        by_place = {node.index: node for node in self._nodes.values()}
        for place, key in params:
            if place in by_place and not self._field(by_place[place], key).is_code:
                self._use_input(by_place[place], key)

    def used(self) -> set[str]:
        """Return the ids of the nodes in the repaired workflow whose outputs others use."""
        document = check_workflow(self.workflow, self._types).document
        sources = [text for it in document.mappings.values() for text in it.inputs.values()]
        params = [node.params for node in document.nodes]
        return {it.root for it in named([params, [f"${{{text}}}" for text in sources]])}

    def drop_dead_edges(self) -> list[str]:
        """Remove edges of a planned workflow for actions that their node never takes; note each."""
        places = {it.path for it in self._checked.problems}
        dead = [edge for edge in self._checked.document.edges if f"{edge.path}.action" in places]
        gone = {edge.index for edge in dead}
        edges = self.workflow.get("edges", [])
        self.workflow["edges"] = [edge for place, edge in enumerate(edges) if place not in gone]
        return [f"{edge.source} never takes {edge.action}: that edge was left out" for edge in dead]

    def describe_inputs(self) -> None:
        """Repair planned inputs that lack a description: describe them by the parameters that they fill."""
        inputs = self.workflow.get("inputs", {})
        for node in self._nodes.values():
            for key, value in node.params.items():
                reference = lone(value)
                declared = inputs.get(reference.root) if reference else None
                if isinstance(declared, dict) and not declared.get("description"):
                    declared["description"] = self._description(node, key)

    def _is_known(self, root: str) -> bool:
        node = root in self._nodes or root in self.workflow.get("inputs", {})
        return node or any(root in item.constructs.names for item in self._nodes.values())

    def _field(self, node: NodeSpec, key: str) -> Field:
        entry = self._checked.entries.get(node.entry_key)
        found = (field for field in entry.interface.params if field.key == key) if entry else iter(())
        return next(found, Field(key=key))

    def _description(self, node: NodeSpec, key: str) -> str:
        """Describe, in a repair, a planned input by the parameter it fills; an empty key stands for any."""
        said = visible(self._field(node, key).description, _DESCRIPTION)
        return said if said and self._origin.is_harmless(said) else f"{key or 'a value'} for {node.id}"

    def _declare(self, name: str, node: NodeSpec, key: str) -> None:
        self.workflow.setdefault("inputs", {}).setdefault(name, self._declared(node, key))

    def _declared(self, node: NodeSpec, key: str) -> dict[str, JSON]:
        field = self._field(node, key)
        kind = field.type if field.type in INPUT_TYPES else "any"
        # A string from an input is not a command line; the arguments of a program are a list.
        return {"type": "list" if field.shell_line else kind, "description": self._description(node, key)}

    def _use_input(self, node: NodeSpec, key: str) -> None:
        """Repair a parameter by an input named after it, shared by nodes that describe it in the same way."""
        plain = template_name(key, "value")
        own = f"{template_name(node.id, 'node')}_{plain}"
        names = chain([plain, own], (f"{own}_{number}" for number in count(2)))
        name = next(it for it in names if self._may_name(it, node, key))
        self._declare(name, node, key)
        if is_reserved(key):
            self._map(node, key, name)
        else:
            self.workflow["nodes"][node.index].setdefault("params", {})[key] = f"${{{name}}}"

    def _may_name(self, name: str, node: NodeSpec, key: str) -> bool:
        """Return whether a planned input may have a name: it is free, and no node reads it by mistake."""
        if name in self.workflow.get("inputs", {}):
            return not self._writes_to(node, key) and self.workflow["inputs"][name] == self._declared(
                node, key
            )
        for reader in self._nodes.values():
            entry = self._checked.entries.get(reader.entry_key)
            if entry is None or (reader.id, name) == (node.id, key):
                continue
            # An input would set an unset optional parameter of the same name.
            filled = {*(self.workflow["nodes"][reader.index].get("params") or ()), *self._mapped(reader)}
            lacking = {field.key for field in entry.interface.params if field.needs_value}
            if name in reads(entry) - filled - lacking:
                return False
        return not self._is_known(name)

    def _writes_to(self, node: NodeSpec, key: str) -> bool:
        entry = self._checked.entries.get(node.entry_key)
        return entry is not None and names_place(key) and entry.purity != "flow_safe"

    def _mapped(self, node: NodeSpec) -> Mapping[str, JSON]:
        mapped: Mapping[str, JSON] = (
            self.workflow.get("mappings", {}).get(node.id, {}).get("input_mappings", {})
        )
        return mapped

    def _map(self, node: NodeSpec, key: str, source: str) -> None:
        mapping = self.workflow.setdefault("mappings", {}).setdefault(node.id, {})
        mapping.setdefault("input_mappings", {})[key] = source

    def _lacking(self) -> Iterator[tuple[NodeSpec, Field]]:
        return ((node, field) for node in self._nodes.values() for field in self._lacking_of(node))

    def _lacking_of(self, node: NodeSpec) -> list[Field]:
        entry = self._checked.entries.get(node.entry_key)
        there = {*node.params, *self.workflow.get("inputs", {}), *self._mapped(node)}
        fields = entry.interface.params if entry else ()
        return [field for field in fields if field.needs_value and field.key not in there]

    def _source(self, node: NodeSpec, field: Field, *, pipes: bool) -> str:
        """Return the output to repair a lacking value with: what is piped in, else one by name or type."""
        entry = self._checked.entries[node.entry_key]
        if entry is None or self._writes_to(node, field.key):
            return ""
        # The outputs of nodes that lead to it on success come first, then the latest in the workflow.
        successors = self._checked.graph.successors
        leading = [it for it, targets in successors.items() if targets.get("default") == node.id]
        used = {part.root for part in named(node.params)}
        # The result of the only node that leads to it, if it does not use that yet.
        previous = self._entry(leading[0]) if len(leading) == 1 and leading[0] not in used else None
        result = result_of(leading[0], previous) if previous else None
        is_piped = pipes and entry.interface.piped_key(node.params) == field.key
        if result and is_piped and may_become(result.field, field):
            return result.source
        earlier = [it for it in self._checked.graph.before(node.id) if it != node.id and it not in leading]
        known = ((it, self._entry(it)) for it in (*leading, *reversed(earlier)))
        outputs = [output for it, declared in known if declared for output in outputs_of(it, declared)]
        found = join_by_name(field, entry.family or entry.source, outputs)
        if result and not found and join_by_type(self._lacking_of(node), result) == field:
            return result.source
        return found.source if found else ""

    def _entry(self, node_id: str) -> Entry | None:
        return effective_entry(self._nodes[node_id], self._checked.entries)
