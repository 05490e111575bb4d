"""All tools that pflow serves, in the order in which an agent needs them."""

from __future__ import annotations

from pflow_mcp_plugin.server.served_tool import ServedTool
from pflow_mcp_plugin.server.tools import registry_tools, settings_tools, trace_tools, workflow_tools

ALL_TOOLS: tuple[ServedTool, ...] = (
    workflow_tools.DISCOVER,
    registry_tools.DISCOVER,
    registry_tools.RUN,
    workflow_tools.EXECUTE,
    workflow_tools.VALIDATE,
    workflow_tools.SAVE,
    registry_tools.DESCRIBE,
    registry_tools.SEARCH,
    workflow_tools.LIST,
    settings_tools.SET,
    settings_tools.GET,
    registry_tools.LIST,
    trace_tools.READ,
)
