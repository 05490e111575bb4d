"""The normal form of a workflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeGuard

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow.workflow_document import IR_VERSION

Upgrade = Callable[[JSONObject], JSONObject | None]
"""Returns a node in normal form if it has an older shape, else None."""


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
            normal["edges"] = _chain(nodes)
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


def _chain(nodes: list[JSON]) -> list[dict[str, str]]:
    ids = [node["id"] for node in nodes if isinstance(node, dict) and isinstance(node.get("id"), str)]
    # A repeated id is reported by the check; here it must not chain a node to itself.
    distinct = list(dict.fromkeys(ids))
    return [{"from": one, "to": other} for one, other in pairwise(distinct)]
