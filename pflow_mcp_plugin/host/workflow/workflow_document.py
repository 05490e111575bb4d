"""A workflow's document: its normal form, and its typed parts, each with its JSON path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeGuard

import attrs

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow.constructs import Constructs, ExpressionPlace, When
from pflow_mcp_plugin.host.workflow.findings import at

IR_VERSION = "1.0"
EXTRA = "extra"
"""The member of a node that lets it take parameters beyond those that are declared."""
WORKFLOW_NODE = "workflow"
"""The type of a node that runs another workflow; in a document the name of that workflow follows it."""
_IF = " if "
Upgrade = Callable[[JSONObject], JSONObject | None]
"""Returns a node in normal form if it has an older shape, else None."""


def split_route(route: str) -> tuple[str, str]:
    """Return the action of an edge of a document, and its condition, from its `route`."""
    action, _, when = route.partition(_IF)
    return action, when


@attrs.frozen(kw_only=True)
class NodeSpec:
    """A node of the document; `raw` keeps every key, also unknown ones. A malformed type is empty.

    A node that runs a workflow has its parameter `workflow` as `runs`, and not among its params. Its type
    says which it runs, `workflow:NAME`, or `workflow` for one that is written in it: parameters and outputs
    are those of that workflow.
    With `extra` it takes parameters beyond those that its entry declares.
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
        """The JSON path of the node in the document."""
        return f"$.nodes[{self.index}]"

    @property
    def entry_key(self) -> str:
        """What the entry of the node is found by: its type, with its id if a workflow is written in it.

        Nodes that take other parameters than those declared have an entry of their own.
        """
        key = f"{self.type}:{{{self.id}}}" if isinstance(self.runs, Mapping) else self.type
        return f"{key} {EXTRA}" if self.extra and self.runs is None else key


@attrs.frozen(kw_only=True)
class EdgeSpec:
    """An edge of the document: from one node to another when the first returns `action`.

    `when` is a further condition, if there is one.
    """

    index: int
    source: str
    target: str
    action: str = "default"
    when: When | None = None

    @property
    def path(self) -> str:
        """The JSON path of the edge in the document."""
        return f"$.edges[{self.index}]"

    def conditions(self) -> Iterator[ExpressionPlace]:
        """Yield the expressions that decide about the edge."""
        if self.when:
            yield from self.when.conditions()

    @property
    def route(self) -> str:
        """The edge's action, with its condition if it has one: what distinguishes the edges of a node."""
        return f"{self.action}{_IF}{self.when.text}" if self.when else self.action


@attrs.frozen(kw_only=True)
class InputSpec:
    """An input that the document declares, required unless it has a default or says otherwise.

    `stdin` takes it from what is piped in, and `setting` names a setting that has its value; a `secret` is
    redacted from traces.
    """

    name: str
    type: str = "any"
    required: bool = True
    default: JSON = None
    has_default: bool = False
    description: str = ""
    stdin: bool = False
    setting: str = ""
    secret: bool = False

    @property
    def path(self) -> str:
        """The JSON path of the input in the document."""
        return at("$.inputs", self.name)

    @property
    def field(self) -> Field:
        """The document's declaration of the input as a field, for coercion."""
        return Field(key=self.name, type=self.type, required=self.required, description=self.description)


@attrs.frozen(kw_only=True)
class OutputSpec:
    """An output that the document declares, and the template of its value."""

    name: str
    source: str
    path: str


@attrs.frozen(kw_only=True)
class NodeMapping:
    """The document's mapping of the keys that a node reads and writes to names at the root of the store."""

    inputs: Mapping[str, str] = attrs.field(factory=dict)
    outputs: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class WorkflowDocument:
    """The document of a whole workflow; malformed parts have been reported and are left out."""

    nodes: tuple[NodeSpec, ...] = ()
    edges: tuple[EdgeSpec, ...] = ()
    start: str = ""
    inputs: Mapping[str, InputSpec] = attrs.field(factory=dict)
    outputs: Mapping[str, OutputSpec] = attrs.field(factory=dict)
    mappings: Mapping[str, NodeMapping] = attrs.field(factory=dict)
    namespaced: bool = True
    permissive: bool = False

    def mapping(self, node_id: str) -> NodeMapping:
        """Return the document's mapping for a node, an empty one if it has none."""
        return self.mappings.get(node_id, NodeMapping())


def normalise(workflow: JSON, upgrade: Upgrade | None = None) -> Any:
    """Return a workflow in normal form; the one given is not changed.

    It gets an `ir_version`; a node without a type gets its id as its type; without edges the nodes are
    chained in order; nodes of older shapes are rewritten by the source they belong to, which turns
    namespacing off unless the workflow itself sets it. Malformed parts stay unchanged for the check to
    find.
    """
    if not isinstance(workflow, Mapping):
        return workflow
    normal = {"ir_version": IR_VERSION, **workflow}
    nodes = normal.get("nodes")
    if isinstance(nodes, list):
        nodes, upgraded = _normal_nodes(nodes, upgrade)
        normal["nodes"] = nodes
        if upgraded:
            normal.setdefault("enable_namespacing", False)
        if normal.get("edges") in (None, []):
            ids = [node["id"] for node in nodes if isinstance(node, dict) and isinstance(node.get("id"), str)]
            # A repeated id is reported by the check; here it must not chain a node to itself.
            distinct = list(dict.fromkeys(ids))
            normal["edges"] = [{"from": one, "to": other} for one, other in pairwise(distinct)]
    return normal


def _normal_nodes(nodes: list[JSON], upgrade: Upgrade | None) -> tuple[list[JSON], bool]:
    normal = []
    upgraded = False
    for node in nodes:
        newer = upgrade(node) if upgrade and _is_node(node) else None
        upgraded = upgraded or newer is not None
        normal.append(_with_type(node if newer is None else dict(newer)))
    return normal, upgraded


def _is_node(node: JSON) -> TypeGuard[JSONObject]:
    # Sources are asked about well-formed nodes only, so they need not check the shape.
    if not isinstance(node, dict) or not isinstance(node.get("id"), str):
        return False
    return isinstance(node.get("type", ""), str) and isinstance(node.get("params", {}), dict)


def _with_type(node: JSON) -> JSON:
    if not isinstance(node, dict) or "type" in node or "id" not in node:
        return node
    return {**node, "type": node["id"]}
