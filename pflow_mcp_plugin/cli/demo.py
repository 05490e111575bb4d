"""`pflow mcp demo`: adds the bundled server and runs a workflow on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from pflow_mcp_plugin.cli.add import add_servers
from pflow_mcp_plugin.cli.server_sync import sync_servers
from pflow_mcp_plugin.config.server_input import Fitted
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.discovery.servers import server_store
from pflow_mcp_plugin.errors import McpError, Where

SERVER = "demo"
_MODULE = "pflow_mcp_plugin.server.demo_server"
_TEXT = "Tools of any server become nodes.\nNodes make a workflow."

WORKFLOW: Mapping[str, Any] = {
    "nodes": [
        {"id": "count", "type": "mcp-demo-word-count", "params": {"text": _TEXT}},
        {"id": "sum", "type": "mcp-demo-add", "params": {"a": "${count.words}", "b": "${count.lines}"}},
        {
            "id": "say",
            "type": "mcp-demo-echo",
            "params": {"value": "${count.words} words + ${count.lines} lines = ${sum.result}"},
        },
    ],
    "outputs": {"count": "${count.result}", "sum": "${sum.result}", "say": "${say.value}"},
}
"""The workflow of `pflow mcp demo`: three steps that use each other's results, each with an output."""

_NEXT = {
    "pflow mcp tools demo": "what else the server can do",
    "pflow mcp info mcp-demo-word-count": "parameters and outputs of one of its nodes",
    "pflow mcp demo --json": "this workflow and its outputs as JSON",
    "pflow mcp add NAME -- COMMAND ARGS...": "a server of your own; then: pflow mcp sync NAME",
}
"""Commands to try after the demo, and what they show."""


@click.command()
@click.pass_obj
def demo(host: Host) -> Report:
    """Add the bundled demo server, run a workflow of three steps on it, and show what to try next.

    It needs nothing but Python and may be run again. `pflow mcp remove demo` removes the server.
    """
    if host.runner is None:
        raise PflowError("This pflow cannot run workflows: it has no runner", kind="usage")
    store = server_store(host)
    if SERVER in store.names() and _MODULE not in store.get(SERVER).args:
        message = f"Server {SERVER} is already configured, and is not the bundled one"
        step = f"Rename it, or remove it first: pflow mcp remove {SERVER}"
        raise McpError(message, where=Where(server=SERVER, phase="config"), next_step=step, kind="config")
    # -P: a file in the current folder must not shadow a module.
    table: dict[str, JSON] = {"command": sys.executable, "args": ["-P", "-m", _MODULE]}
    added = add_servers(host, Fitted(tables={SERVER: table}))
    synced = sync_servers(host, [SERVER], shown=True)
    if synced.error:
        return synced
    outcome = host.runner.run(WORKFLOW, {}, name=SERVER)
    lines = ["Ran a workflow of three steps on it:"]
    for node in WORKFLOW["nodes"]:
        result = json.dumps(outcome.outputs.get(node["id"]), ensure_ascii=False)
        lines.append(f"  {node['id']:6} {node['type']:20} {result}")
    lines += ["", "Try next:", *(f"  {command:38} {purpose}" for command, purpose in _NEXT.items())]
    return Report(
        data={"outputs": dict(outcome.outputs), "run_id": outcome.run_id, "workflow": WORKFLOW},
        text=lambda: "\n\n".join(
            [added.render().rpartition("\nNext:")[0], synced.render(), "\n".join(lines)]
        ),
        error=outcome.error,
        beside={"trace_path": str(outcome.trace_path)} if outcome.trace_path else {},
        exit_code=outcome.exit_code,
    )
