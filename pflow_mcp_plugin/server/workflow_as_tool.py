"""`as_tool`: a workflow as a tool for an MCP server of one's own, which is not pflow's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from pydantic import PrivateAttr

from pflow_mcp_plugin.contract import Host, PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.execution.current_host import current_host
from pflow_mcp_plugin.server.pflow_server import CallHandler, call_handler, declaration
from pflow_mcp_plugin.server.saved_workflow_tools import workflow_tool
from pflow_mcp_plugin.server.served_tool import ServedTool
from pflow_mcp_plugin.server.workflow_argument import GivenWorkflow, found_workflow


class WorkflowTool(Tool):
    """A workflow as a tool for an MCP server of one's own.

    `MCPServer("mine", tools=[tool])` serves it among other tools. A low-level `Server` lists its
    `declaration` and answers calls with `call`.
    """

    _declared: types.Tool = PrivateAttr()
    _handle: CallHandler = PrivateAttr()

    @classmethod
    def of(cls, host: Host, served: ServedTool) -> WorkflowTool:
        declared = types.Tool.model_validate(declaration(served), by_name=False)
        tool = cls(
            fn=_not_called,
            name=served.name,
            title=served.title,
            description=served.description,
            parameters=dict(served.input_schema),
            fn_metadata=FuncMetadata(arg_model=ArgModelBase, output_schema=dict(served.output_schema)),
            is_async=True,
            context_kwarg=None,
            annotations=declared.annotations,
        )
        tool._declared = declared
        tool._handle = call_handler(host, lambda: (served,))
        return tool

    @property
    def declaration(self) -> types.Tool:
        return self._declared

    async def call(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        named = params.model_copy(update={"name": self.name})  # it may be mounted under another name
        return types.CallToolResult.model_validate(await self._handle(context, named), by_name=False)

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,  # noqa: FBT001, FBT002 - the signature of the SDK
    ) -> types.CallToolResult:
        """Run the workflow as `MCPServer` calls its tools; the result needs no conversion."""
        request = context.request_context
        params = types.CallToolRequestParams(name=self.name, arguments=arguments, _meta=request.meta)
        return await self.call(request, params)


def as_tool(
    workflow: str | Path | Mapping[str, Any],
    *,
    name: str = "",
    description: str = "",
    host: Host | None = None,
) -> WorkflowTool:
    """Return a workflow as a tool for an `MCPServer` of one's own, which is not pflow's.

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
    host = host or current_host()
    return WorkflowTool.of(host, workflow_tool(host, _given(host, workflow, name), name, description))


def _given(host: Host, workflow: str | Path | JSONObject, name: str) -> GivenWorkflow:
    if isinstance(workflow, Mapping):
        if not name:
            hint = 'Pass it as as_tool(workflow, name="my-tool")'
            raise PflowError("A workflow itself needs a name as a tool", kind="usage", suggestions=(hint,))
        return GivenWorkflow(workflow, name)
    found, saved = found_workflow(host, workflow)
    return GivenWorkflow(found, str(workflow) if saved else Path(workflow).stem, saved)


async def _not_called() -> None:
    """Stand in for the function that the SDK requires of a tool; `WorkflowTool.run` replaces it."""
