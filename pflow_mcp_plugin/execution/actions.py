"""Chooses the action of a failed call."""

from __future__ import annotations

from collections.abc import Mapping

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.execution.failure_words import ERROR, STATUS_ACTIONS

# JSON-RPC codes: a request that timed out (in MCP's SDKs), and a resource that does not exist (in MCP).
_CODES: Mapping[object, str] = {-32001: "timeout", -32002: "resource_missing"}


def classify(error: PflowError) -> str:
    """Return the action of a failed call, as specific as possible.

    The error's own action has priority, then an HTTP status, then a JSON-RPC code.

    Returns:
        `rate_limited`, `auth_failed`, `resource_missing`, `timeout`, else `error`.
    """
    if error.action != ERROR or not isinstance(error, McpError):
        return error.action
    facts = error.facts
    return STATUS_ACTIONS.get(facts.get("status")) or _CODES.get(facts.get("code")) or ERROR
