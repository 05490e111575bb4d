"""`as_tool`: a workflow as a tool for a server of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import Host, PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.execution.current_host import current_host
from pflow_mcp_plugin.server.saved_workflow_tools import ToolWorkflow, workflow_tool
from pflow_mcp_plugin.server.served_tool import runner_of

if TYPE_CHECKING:
    from pflow_mcp_plugin.server.mounted_workflow import WorkflowTool


def as_tool(
    workflow: str | Path | JSONObject, *, name: str = "", description: str = "", host: Host | None = None
) -> WorkflowTool:
    """Return a workflow as a tool, with the types of its inputs and outputs.

    It is checked here and runs as it is now: a later change of the file or the library has no effect.

    Args:
        workflow: The name of a saved workflow, the path of a JSON file, or the workflow itself.
        name: The name of the tool; by default that of the workflow. A workflow itself needs one.
        description: What it does, for agents; by default the workflow's own description.
        host: The host that runs it; by default the current one, or an installed one that is opened.

    Raises:
        PflowError: There is no such workflow, or it has errors.

    Example:
        >>> from mcp.server import MCPServer
        >>> from pflow_mcp_plugin.server import as_tool
        >>> greet = {"nodes": [{"id": "echo", "params": {"message": "hello"}}]}
        >>> server = MCPServer("mine", tools=[as_tool(greet, name="greet")])
    """
    from pflow_mcp_plugin.server.mounted_workflow import WorkflowTool

    host = host or current_host()
    given = _given(host, workflow, name, description)
    return WorkflowTool.of(host, workflow_tool(host, given))


def _given(host: Host, workflow: str | Path | JSONObject, tool: str, description: str) -> ToolWorkflow:
    if isinstance(workflow, Mapping):
        if not tool:
            hint = 'Pass it as as_tool(workflow, name="my-tool")'
            raise PflowError("A workflow itself needs a name as a tool", kind="usage", suggestions=(hint,))
        return ToolWorkflow(name=tool, workflow=workflow, saved=False, description=description)
    library = host.library
    if library is not None and workflow in library.names():
        found = library.get(str(workflow))
        return ToolWorkflow(name=str(workflow), workflow=found, tool=tool, description=description)
    path = Path(workflow)
    if not path.is_file():
        message = f"{path} is neither the name of a saved workflow nor a file"
        raise PflowError(message, kind="not_found", suggestions=("See: pflow workflow list",))
    read = runner_of(host).read_file(path)
    return ToolWorkflow(name=path.stem, workflow=read, saved=False, tool=tool, description=description)
