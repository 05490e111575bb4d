"""What this package serves over MCP: pflow itself, and a demo server.

- `pflow_server`: pflow as a server of the SDK, and how it is served; start reading here
- `served_tool`: a tool that is served: its declaration, the choice of tools, the check of a call's arguments
- `workflow_tools`, `registry_tools`, `settings_tools`: the tools of pflow
- `offer`: the tools that the user chose, with resources (one is `agent_guide.md`) and prompts
- `saved_workflow_tools`: saved workflows as tools of their own, with the schemas of inputs and outputs
- `workflow_as_tool`: a workflow as a tool of a server of one's own
- `workflow_argument`: a workflow that a client gives: a name, a path in one folder, JSON text or an object
- `envelopes`: the form of every answer and its schema, and the secrets that no answer may contain
- `client_notifications`: the progress of a call, and lists that have changed
- `received_message`: a message of a client, checked, or refused with the reason
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
    from pflow_mcp_plugin.server.client_notifications import ListChanges
    from pflow_mcp_plugin.server.offer import ALL_TOOLS
    from pflow_mcp_plugin.server.pflow_server import ServingOptions, build_server
    from pflow_mcp_plugin.server.served_tool import Claims, ServedRequest, ServedTool, selected
    from pflow_mcp_plugin.server.stdio import serve_stdio
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

_LATER = {
    "client_notifications": "ListChanges",
    "offer": "ALL_TOOLS",
    "pflow_server": "ServingOptions build_server",
    "served_tool": "Claims ServedRequest ServedTool selected",
    "stdio": "serve_stdio",
    "workflow_as_tool": "as_tool",
}


def __getattr__(name: str) -> Any:
    """Return a name of `pflow_mcp_plugin.server` on first use: loading the MCP SDK takes half a second."""
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
