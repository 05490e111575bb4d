"""What this package serves over MCP: pflow itself, and a demo server.

- `pflow_server`: pflow as a server of the SDK; start reading here
- `served_tool`: a tool that is served: its declaration, the choice of tools, the check of a call's arguments
- `tools`: the tools of pflow
- `serving_options`: how they are served, and what is offered beside them
- `offer`: the tools that the user chose, with resources and prompts
- `saved_workflow_tools`, `workflow_schemas`: saved workflows as tools of their own
- `resources`, with `agent_guide.md`, and `prompts`: what is offered beside the tools
- `workflow_as_tool`, `mounted_workflow`: a workflow as a tool of a server of one's own
- `envelopes`: the form of every answer
- `workflow_argument`: a workflow that a client gives: a name, a path, JSON text or an object
- `confined_paths`: paths inside one folder
- `known_secrets`: the secrets that no answer may contain
- `worker_threads`: the threads that answer calls
- `progress_sender`: the progress of a run, sent to the client
- `list_changes`: clients are told that a list has changed
- `library_watch`: the saved workflows, watched for changes
- `stdio`: serving over standard input and output
- `http`: serving over HTTP
- `demo_server`: a small server to try pflow with

A program that mounts pflow in a server of its own imports the names below; importing this package loads
nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pflow_mcp_plugin.server.list_changes import ListChanges
    from pflow_mcp_plugin.server.pflow_server import build_server
    from pflow_mcp_plugin.server.served_tool import Claims, ServedRequest, ServedTool, selected
    from pflow_mcp_plugin.server.serving_options import ServingOptions
    from pflow_mcp_plugin.server.stdio import serve_stdio
    from pflow_mcp_plugin.server.tools.all_tools import ALL_TOOLS
    from pflow_mcp_plugin.server.workflow_as_tool import as_tool

__all__ = [
    "ALL_TOOLS",
    "Claims",
    "ListChanges",
    "ServedRequest",
    "ServedTool",
    "ServingOptions",
    "as_tool",
    "build_server",
    "selected",
    "serve_stdio",
]

_MODULES = {
    "ALL_TOOLS": "tools.all_tools",
    "Claims": "served_tool",
    "ListChanges": "list_changes",
    "ServedRequest": "served_tool",
    "ServedTool": "served_tool",
    "ServingOptions": "serving_options",
    "as_tool": "workflow_as_tool",
    "build_server": "pflow_server",
    "selected": "served_tool",
    "serve_stdio": "stdio",
}


def __getattr__(name: str) -> Any:
    """Import a name of this package when it is first used: the SDK takes half a second to load."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
