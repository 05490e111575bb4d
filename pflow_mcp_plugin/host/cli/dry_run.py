"""What `pflow run --dry-run` shows: the inputs, the nodes and the servers of a run that does not happen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pflow_mcp_plugin.contract import Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.printable_json import to_json
from pflow_mcp_plugin.host.workflow import Compiled
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.constructs import Known
from pflow_mcp_plugin.host.workflow.findings import cut
from pflow_mcp_plugin.host.workflow.templates import follow, resolve
from pflow_mcp_plugin.host.workflow.workflow_document import bind_inputs
from pflow_mcp_plugin.redaction import REDACTED
from pflow_mcp_plugin.terminal.tables import Column, Table

_COLUMNS = (
    Column(title="NODE", whole=True),
    Column(title="TYPE"),
    Column(title="HOW"),
    Column(title="PARAMS", spare=True),
)
_INNER = "workflow"
"""The param of a node that runs a workflow; the templates in it are about values of that workflow."""
_SERVER = "server"
"""The label by which an entry names the server that its node needs."""


def dry_run_report(compiled: Compiled, given: dict[str, object]) -> Report:
    """Return the report of a run that does not happen.

    Args:
        compiled: The plan of the run, which was checked against the inputs.
        given: The inputs as given; defaults are filled in. Those that are secret are not shown. Params are
            shown with the values of the inputs in them; what a node will write stays a template.
    """
    values, _ = bind_inputs(compiled.document, given)
    secret = {name for name, spec in compiled.document.inputs.items() if spec.secret}
    inputs = {name: REDACTED if name in secret else value for name, value in values.items()}
    known = _Known(compiled, inputs)
    nodes = [(node, known.params(node), partial(known.value, node)) for node in compiled.every()]
    labels = (node.ref.entry.labels.get(_SERVER) for node, _, _ in nodes)
    servers = list(dict.fromkeys(label for label in labels if label))
    data = {"inputs": inputs, "nodes": [_described(*it) for it in nodes], "servers": servers}
    rows = [
        (node.ref.id, node.ref.type, "; ".join(_how(node, value)), _shown(params))
        for node, params, value in nodes
    ]
    lines = [f"{compiled.name} is valid; nothing was run"]
    lines += [f"input {name} = {to_json(value)}" for name, value in inputs.items()]
    return Report(
        data=data,
        text=(*lines, Table(columns=_COLUMNS, rows=rows), f"Servers: {', '.join(servers) or 'none'}"),
    )


class _Known:
    """Fills in what is known before a run: the inputs, in the templates of the outermost workflow."""

    def __init__(self, compiled: Compiled, inputs: Mapping[str, object]) -> None:
        self._outermost = {node.ref.id for node in compiled.nodes}
        self._inputs = inputs

    def params(self, node: PlannedNode) -> dict[str, JSON]:
        params = {key: value for key, value in node.ref.params.items() if not key.startswith("__")}
        inner = {_INNER: params[_INNER]} if node.sub and _INNER in params else {}
        return {**self.value(node, params), **inner}

    def value(self, node: PlannedNode, value: object) -> Any:
        if node.ref.id not in self._outermost:
            return value  # names in it are those of other inputs
        return resolve(value, lambda reference: follow(self._inputs, reference.path), keep_missing=True)


def _described(node: PlannedNode, params: dict[str, JSON], known: Known) -> dict[str, JSON]:
    return {
        "id": node.ref.id,
        "type": node.ref.type,
        "params": params,
        **node.constructs.described(known),
        "kept_seconds": node.ttl,
        "server": node.ref.entry.labels.get(_SERVER, ""),
    }


def _shown(params: Mapping[str, JSON]) -> str:
    return ", ".join(f"{key}={cut(' '.join(to_json(value).split()))}" for key, value in params.items())


def _how(node: PlannedNode, known: Known) -> list[str]:
    """Return what is special about how a node would run."""
    kept = [] if node.ttl is None else [f"or its result of the last {node.ttl:g} s"]
    return [*node.constructs.words(known), *kept]
