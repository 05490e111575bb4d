"""A workflow as typed parts, each with its JSON path."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow.findings import at
from pflow_mcp_plugin.host.workflow.repetition import Batch, Retry

IR_VERSION = "1.0"


@attrs.frozen(kw_only=True)
class NodeSpec:
    """A node as written; `raw` keeps every key, also unknown ones. A malformed type is empty."""

    index: int
    id: str
    type: str
    params: JSONObject
    raw: JSONObject
    batch: Batch | None = None
    retry: Retry | None = None

    @property
    def path(self) -> str:
        """Its JSON path."""
        return f"$.nodes[{self.index}]"


@attrs.frozen(kw_only=True)
class EdgeSpec:
    """From one node to another when the first returns `action`."""

    index: int
    source: str
    target: str
    action: str = "default"

    @property
    def path(self) -> str:
        """Its JSON path."""
        return f"$.edges[{self.index}]"


@attrs.frozen(kw_only=True)
class InputSpec:
    """A declared input; it is required unless it has a default or says otherwise."""

    name: str
    type: str = "any"
    required: bool = True
    default: JSON = None
    has_default: bool = False
    description: str = ""
    stdin: bool = False

    @property
    def path(self) -> str:
        """Its JSON path."""
        return at("$.inputs", self.name)

    @property
    def field(self) -> Field:
        """Its declaration as a field, for coercion."""
        return Field(key=self.name, type=self.type, required=self.required, description=self.description)


@attrs.frozen(kw_only=True)
class OutputSpec:
    """A declared output and the template of its value."""

    name: str
    source: str
    path: str


@attrs.frozen(kw_only=True)
class NodeMapping:
    """Names at the root of the shared store for the keys that a node reads and writes."""

    inputs: Mapping[str, str] = attrs.field(factory=dict)
    outputs: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class WorkflowDocument:
    """A whole workflow; malformed parts have been reported and are left out."""

    nodes: tuple[NodeSpec, ...] = ()
    edges: tuple[EdgeSpec, ...] = ()
    start: str = ""
    inputs: Mapping[str, InputSpec] = attrs.field(factory=dict)
    outputs: Mapping[str, OutputSpec] = attrs.field(factory=dict)
    mappings: Mapping[str, NodeMapping] = attrs.field(factory=dict)
    namespaced: bool = True
    permissive: bool = False

    def mapping(self, node_id: str) -> NodeMapping:
        """Return a node's mapping, an empty one if it has none."""
        return self.mappings.get(node_id, NodeMapping())
