"""The parts of a workflow, in as few words as tests can read."""

import json
from typing import Any


def flow(*nodes: Any, **parts: Any) -> dict[str, Any]:
    """Return a workflow of some nodes, with `edges`, `inputs` and whatever else is given."""
    return {"nodes": [*nodes], **parts}


def step(node_id: str, node_type: str, params: Any = None, **settings: Any) -> dict[str, Any]:
    """Return a node, with settings such as `batch` and `when`."""
    given = {} if params is None else {"params": params}
    return {"id": node_id, "type": node_type, **given, **settings}


def edge(source: str, target: str, action: str = "", **settings: Any) -> dict[str, Any]:
    """Return an edge, for the default action if none is given."""
    taken = {"action": action} if action else {}
    return {"from": source, "to": target, **taken, **settings}


def trace_of(outcome: Any) -> Any:
    """Return the trace that a run has written."""
    return json.loads(outcome.trace_path.read_text())
