"""The host's own nodes.

- `own_nodes`: their registry entries. Start reading here.
- `value_nodes`, `file_content_nodes`, `file_system_nodes`, `shell`, `python_node`, `llm_node`: the classes.
- `child_processes`: what `shell` and `python` start.
- `python_driver`: runs the code of a node `python`, as a program of its own.
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
    """As a plugin: register the nodes of this package, such as `echo` and `http`, as one source."""
    from pflow_mcp_plugin.host.nodes.own_nodes import OwnNodes

    return [OwnNodes()]


@hookimpl
def pflow_run_context(run: Run) -> AbstractContextManager[object] | None:
    """As a plugin: if nodes of this package start programs, return the context that ends those with a run."""
    if not any(node.entry.node in ("shell", "python") for node in run.workflow.nodes):
        return None
    from pflow_mcp_plugin.host.nodes.child_processes import RESOURCE, Processes

    processes = run.resources[RESOURCE] = Processes()
    run.on_cancel(processes.stop)
    return processes
