"""Saved workflows that fit a task in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from pflow_mcp_plugin.contract import Match, SavedWorkflow
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.matching.confidence import workflow_confidence
from pflow_mcp_plugin.host.matching.task_fit import Described, Place, TaskFit, root, roots

_LEAST = 0.1
"""The degree to which a workflow that is worth a look fits at least."""


def match_workflows(
    task: str, workflows: Iterable[tuple[SavedWorkflow, JSONObject]]
) -> list[Match[SavedWorkflow]]:
    """Return the workflows that fit a task as a whole, best first.

    Args:
        task: The task in words.
        workflows: What is saved, with the content of each.
    """
    described = [(saved, _described(saved, workflow)) for saved, workflow in workflows if not saved.problem]
    common = Counter(found for _, item in described for found in item.roots)
    fit = TaskFit(task, len(described), lambda word: common[root(word)])
    fits = ((saved, fit.whole(item)) for saved, item in described)
    matches = [
        Match(item=saved, confidence=workflow_confidence(found.degree), reason=found.reason)
        for saved, found in fits
        if found.degree >= _LEAST
    ]
    return sorted(matches, key=lambda match: (-match.confidence, match.item.name))


def _described(saved: SavedWorkflow, workflow: JSONObject) -> Described:
    """Return a saved workflow as what may fit a task."""
    return Described.of(
        saved.name,
        saved.description,
        Place("inputs", roots(_fields(saved.inputs)), 0.8),
        Place("outputs", roots(_fields(saved.outputs)), 0.8),
        Place("nodes", roots(" ".join(_nodes(workflow))), 0.7),
    )


def _fields(declared: JSONObject) -> str:
    """Return the names and descriptions of declared inputs or outputs."""
    texts = (field.get("description") for field in declared.values() if isinstance(field, dict))
    return " ".join([*declared, *(text for text in texts if isinstance(text, str))])


def _nodes(workflow: JSONObject) -> Iterator[str]:
    """Yield the ids, types and purposes of a workflow's nodes."""
    nodes: JSON = workflow.get("nodes")
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict):
            yield from (text for key in ("id", "type", "purpose") if isinstance(text := node.get(key), str))
