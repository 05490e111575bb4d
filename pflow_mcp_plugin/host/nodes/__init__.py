"""The host's own nodes.

- `own_nodes`: their registry entries. Start reading here.
- `value_nodes`, `file_nodes`, `folder_nodes`, `shell`, `llm_node`, `ask_node`: the classes, and what they
  share.
- `http_node`: the params and outputs of `http`; `http_request`: its requests, retries, pages and downloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from pflow_mcp_plugin.contract import Host, NodeSource, Run


@hookimpl
def pflow_register_nodes(host: Host) -> Iterable[NodeSource]:
    """Register the built-in nodes, such as `echo`, `read-file`, `shell` and `llm`."""
    from pflow_mcp_plugin.host.nodes.own_nodes import OwnNodes

    return [OwnNodes()]


@hookimpl
def pflow_run_context(run: Run) -> AbstractContextManager[object] | None:
    """Offer the built-in run context, which terminates the processes of `shell` nodes at the end of a run."""
    if not any(node.entry.node == "shell" for node in run.workflow.nodes):
        return None
    from pflow_mcp_plugin.host.nodes.shell import RESOURCE, Processes

    processes = run.resources[RESOURCE] = Processes()
    run.on_cancel(processes.stop)
    return processes
