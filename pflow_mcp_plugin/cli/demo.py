"""`pflow mcp demo`: adds the bundled server and runs a workflow on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from pflow_mcp_plugin.cli.add import add_servers
from pflow_mcp_plugin.cli.dependencies import server_store
from pflow_mcp_plugin.cli.server_sync import sync_servers
from pflow_mcp_plugin.config.server_input import Fitted
from pflow_mcp_plugin.contract import Host, Outcome, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON
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


@click.command()
@click.pass_obj
def demo(host: Host) -> Report:
    """Add the bundled demo server, run a workflow of three steps on it, and show what to try next.

    It needs nothing but Python and may be run again. `pflow mcp remove demo` removes the server.
    """
    return run_demo(host)


def run_demo(host: Host) -> Report:
    """Do the work of `pflow mcp demo`: add the bundled server, sync it, run `WORKFLOW` on it.

    Returns:
        The outputs of the steps, or the first failure.

    Raises:
        McpError: Another server is configured under the name `demo`.
    """
    if host.runner is None:
        raise PflowError("This pflow cannot run workflows: it has no runner", kind="usage")
    _refuse_another(host)
    added = add_servers(host, Fitted(tables={SERVER: _table()}))
    synced = sync_servers(host, [SERVER], shown=True)
    if synced.error:
        return synced
    outcome = host.runner.run(WORKFLOW, {}, name=SERVER)
    data = {"outputs": dict(outcome.outputs), "run_id": outcome.run_id, "workflow": WORKFLOW}
    beside = {"trace_path": str(outcome.trace_path)} if outcome.trace_path else {}
    return Report(
        data=data,
        text=lambda: "\n\n".join(
            [added.render().rpartition("\nNext:")[0], synced.render(), _summary(outcome)]
        ),
        error=outcome.error,
        beside=beside,
        exit_code=outcome.exit_code,
    )


def _table() -> dict[str, JSON]:
    # -P: a file in the current folder must not shadow a module.
    return {"command": sys.executable, "args": ["-P", "-m", _MODULE]}


def _refuse_another(host: Host) -> None:
    """Refuse to replace a server of the user that is called demo."""
    store = server_store(host)
    if SERVER not in store.names() or _MODULE in store.get(SERVER).args:
        return
    message = f"Server {SERVER} is already configured, and is not the bundled one"
    step = f"Rename it, or remove it first: pflow mcp remove {SERVER}"
    raise McpError(message, where=Where(server=SERVER, phase="config"), next_step=step, kind="config")


def _summary(outcome: Outcome) -> str:
    return "\n".join([*_steps(outcome), "", *_next_steps()])


def _steps(outcome: Outcome) -> Iterator[str]:
    yield "Ran a workflow of three steps on it:"
    for node in WORKFLOW["nodes"]:
        result = json.dumps(outcome.outputs.get(node["id"]), ensure_ascii=False)
        yield f"  {node['id']:6} {node['type']:20} {result}"


def _next_steps() -> Iterator[str]:
    yield "Try next:"
    for command, purpose in (
        ("pflow mcp tools demo", "what else the server can do"),
        ("pflow mcp info mcp-demo-word-count", "parameters and outputs of one of its nodes"),
        ("pflow mcp demo --json", "this workflow and its outputs as JSON"),
        ("pflow mcp add NAME -- COMMAND ARGS...", "a server of your own; then: pflow mcp sync NAME"),
    ):
        yield f"  {command:38} {purpose}"
