"""The `registry_*` tools that pflow serves: discover, describe, run, search and list nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Entry, PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.server.envelopes import (
    ANY_OBJECT,
    DISCOVERING,
    INTEGER,
    LOCAL_READING,
    NUMBER,
    RUN_BESIDE,
    TEXT,
    answer_schema,
    arguments_schema,
    discovery_answer,
    discovery_schema,
    list_of,
    object_of,
    success,
)
from pflow_mcp_plugin.server.served_tool import Claims, ServedRequest, ServedTool
from pflow_mcp_plugin.server.workflow_tools import ended

SEARCH_LIMIT = 50
_MOST_DESCRIBED = 100
MOST_PATHS = 200
"""Paths in the outputs of a node that an answer lists."""


def discover(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `registry_discover` with the nodes that fit a task, in brief or whole."""
    to_dict = Entry.to_dict if arguments.get("full") else Entry.to_brief
    return discovery_answer(request.host.registry.discover(arguments["task"]), to_dict)


def run(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `registry_run` with the outputs of a node, and every path inside them."""
    ran = request.runner.run_node(
        arguments["node_type"],
        arguments.get("parameters", {}),
        origin=request.origin,
        control=request.control,
    )
    places = ran.structure
    if len(places) > MOST_PATHS:  # the outermost: they show where to look for the others
        outermost = sorted(places, key=lambda place: place.path.count(".") + place.path.count("["))
        places = tuple(outermost[:MOST_PATHS])
    structure = [attrs.asdict(place) for place in places]
    more_paths = len(ran.structure) - len(places)
    return ended(ran.outcome, request, node=ran.node, structure=structure, more_paths=more_paths)


def describe(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `registry_describe` with the complete interfaces of nodes."""
    names = arguments["nodes"]
    if not names:
        hint = "Find nodes with registry_search"
        raise PflowError("nodes names no node", kind="validation", suggestions=(hint,))
    return success({"nodes": [entry.to_dict() for entry in request.host.registry.describe(names)]})


def search(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `registry_search` with the nodes that match words, best first."""
    registry, pattern = request.host.registry, arguments["pattern"]
    rows = [
        {**_row(entry), "score": round(score, 3)} for entry, score in registry.search(pattern, SEARCH_LIMIT)
    ]
    total = registry.count(pattern) if len(rows) == SEARCH_LIMIT else len(rows)
    note = f"{total - len(rows):,} more found: add words" if total > len(rows) else ""
    return success({"nodes": rows, "limit": SEARCH_LIMIT, "total": total, "note": note})


def list_nodes(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `registry_list` with the name and description of every node."""
    rows = [_row(entry) for entry in request.host.registry.entries()]
    return success({"nodes": rows, "total": len(rows)})


def _row(entry: Entry) -> dict[str, Any]:
    return {"node": entry.node, "description": entry.description, **entry.labels}


_DESCRIBED: JSONObject = {"node": TEXT, "description": TEXT, "interface": ANY_OBJECT, "purity": TEXT}

DISCOVER = ServedTool(
    name="registry_discover",
    title="Find nodes for a task",
    description=(
        "Find the nodes that a workflow for this task is built from. Call it when workflow_discover found "
        "nothing that fits. Returns what fits, best first, each with the types of its params and outputs, a "
        "confidence from 0 to 1 and the reason; what the params mean, registry_describe says, or `full`. "
        "Then see what a node really returns with registry_run, as the outputs of many are declared as Any."
    ),
    input_schema=arguments_schema(
        {
            "task": {**TEXT, "description": "What needs to be built, in plain words"},
            "full": {"type": "boolean", "default": False, "description": "Return complete interfaces"},
        },
        required=("task",),
    ),
    output_schema=discovery_schema(
        {**_DESCRIBED, "params": ANY_OBJECT, "outputs": ANY_OBJECT}, ("node", "description")
    ),
    claims=DISCOVERING,
    answer=discover,
)

RUN = ServedTool(
    name="registry_run",
    title="Run a single node",
    description=(
        "Run one node with these parameters and return its outputs, and as `structure` every path in them "
        f"with its type and a sample; beyond {MOST_PATHS} only the outermost, and `more_paths` counts the "
        "others. A template takes the path after the node's id: for a node `fetch`, the "
        "path `result.items[0].name` is ${fetch.result.items[0].name}. The node really runs, with all its "
        "effects. Call it before you write a workflow that uses the outputs."
    ),
    input_schema=arguments_schema(
        {
            "node_type": {**TEXT, "description": "The node's type. registry_discover names it"},
            "parameters": {
                **ANY_OBJECT,
                "default": {},
                "description": "Its params by key, as plain values: ${...} in them is text",
            },
        },
        required=("node_type",),
    ),
    output_schema=answer_schema(
        {
            "node": TEXT,
            "outputs": ANY_OBJECT,
            "structure": list_of(object_of({"path": TEXT, "type": TEXT, "sample": {}}, ("path", "type"))),
            "more_paths": INTEGER,
            "run_id": TEXT,
        },
        **RUN_BESIDE,
    ),
    claims=Claims(read_only=False, destructive=True, idempotent=False, open_world=True),
    answer=run,
)

DESCRIBE = ServedTool(
    name="registry_describe",
    title="Describe nodes",
    description=(
        "Return the complete interface of these nodes: each param with its type, whether it is required and "
        "what it means; outputs; actions; if it may not run here, the reason under `withheld`. Call it for "
        f"every node before you use it in a workflow, at most {_MOST_DESCRIBED} at once. If some are "
        "unknown, the failure names the nearest of each, and its details hold `entries` of the others."
    ),
    input_schema=arguments_schema(
        {
            "nodes": {
                **list_of(TEXT),
                "minItems": 1,
                "maxItems": _MOST_DESCRIBED,
                "description": f"Names of nodes, at most {_MOST_DESCRIBED}",
            }
        }
    ),
    output_schema=answer_schema({"nodes": list_of(object_of(_DESCRIBED, ("node",)))}),
    claims=LOCAL_READING,
    answer=describe,
)

SEARCH = ServedTool(
    name="registry_search",
    title="Search nodes",
    description=(
        "Search the names, descriptions and parameters of all nodes for words; the best matches come first, "
        f"at most {SEARCH_LIMIT}, of `total` that match. For a task in plain words, registry_discover is "
        "better. Continue with registry_describe."
    ),
    input_schema=arguments_schema({"pattern": {**TEXT, "description": "Words, such as: github issue"}}),
    output_schema=answer_schema(
        {
            "nodes": list_of(object_of({"node": TEXT, "description": TEXT, "score": NUMBER}, ("node",))),
            "limit": INTEGER,
            "total": INTEGER,
            "note": TEXT,
        },
        required=("nodes", "total"),
    ),
    claims=LOCAL_READING,
    answer=search,
)

LIST = ServedTool(
    name="registry_list",
    title="List all nodes",
    description=(
        "List the name and description of every node. There may be hundreds: prefer registry_discover or "
        "registry_search."
    ),
    input_schema=arguments_schema({}),
    output_schema=answer_schema(
        {"nodes": list_of(object_of({"node": TEXT, "description": TEXT})), "total": INTEGER}
    ),
    claims=LOCAL_READING,
    answer=list_nodes,
)
