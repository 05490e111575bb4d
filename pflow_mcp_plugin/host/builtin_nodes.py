"""The host's own nodes as a plugin, registered through the same hook as any other plugin's."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from pflow_mcp_plugin.contract import Host, NodeSource, Run, hookimpl
from pflow_mcp_plugin.host.nodes.own_nodes import OwnNodes


@hookimpl
def pflow_register_nodes(host: Host) -> Iterable[NodeSource]:
    """Register the built-in nodes `echo`, `read-file`, `write-file`, `shell` and `llm`."""
    return [OwnNodes()]


@hookimpl
def pflow_run_context(run: Run) -> AbstractContextManager[object] | None:
    """Offer the built-in run context, which terminates the processes of `shell` nodes at the end of a run."""
    if not any(node.entry.node == "shell" for node in run.workflow.nodes):
        return None
    from pflow_mcp_plugin.host.nodes.child_processes import RESOURCE, Processes

    processes = run.resources[RESOURCE] = Processes()
    run.on_cancel(processes.stop)
    return processes
