"""A workflow without files beside it: those that its nodes name are written in it."""

from __future__ import annotations

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.workflow.findings import errors_in, refusal
from pflow_mcp_plugin.host.workflow.normal_form import Upgrade, normalise
from pflow_mcp_plugin.host.workflow.sub_workflows import names_file
from pflow_mcp_plugin.host.workflow.workflow_check import Checked
from pflow_mcp_plugin.host.workflow.workflow_document import WORKFLOW_NODE, NodeSpec


def self_contained(workflow: JSONObject, checked: Checked, name: str, upgrade: Upgrade) -> JSONObject:
    """Return a workflow with the files that its nodes name written in it; those that are saved stay names.

    Args:
        workflow: The workflow as loaded; it is not changed.
        checked: The same, checked where it is.
        name: Its name, for messages.
        upgrade: Rewrites nodes of older shapes.

    Raises:
        PflowError: Kind `validation` or `not_found`, with every problem: a file cannot be run.
    """
    if not any(_runs_files(node, checked) for node in checked.document.nodes):
        return workflow
    nodes = []
    for node in checked.document.nodes:
        raw = dict(node.raw)
        if _runs_files(node, checked):
            called = checked.called[node.entry_key]
            if called.checked is None:
                raise refusal(name, errors_in(checked.problems))
            inner = self_contained(called.workflow, called.checked, called.name, upgrade)
            raw["params"] = {**node.params, WORKFLOW_NODE: inner}
        nodes.append(raw)
    return {**normalise(workflow, upgrade), "nodes": nodes}


def _runs_files(node: NodeSpec, checked: Checked) -> bool:
    if isinstance(node.runs, str):
        return names_file(node.runs)
    called = checked.called.get(node.entry_key)
    inner = called.checked if called else None
    return inner is not None and any(_runs_files(it, inner) for it in inner.document.nodes)
