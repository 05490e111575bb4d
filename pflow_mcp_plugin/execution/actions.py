"""Which action a failed call takes."""

from __future__ import annotations

from collections.abc import Mapping

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import McpError, ToolFailed
from pflow_mcp_plugin.execution.failure_words import ERROR, STATUS_ACTIONS, action_of

_CODES: Mapping[object, str] = {-32001: "timeout", -32002: "resource_missing"}


def classify(error: PflowError) -> str:
    """Return the most specific action for a failure.

    What the failure was made with counts first: its own action, an HTTP status, a JSON-RPC code.
    A tool that reports a failure in words is read for what leaves no doubt.

    Returns:
        `rate_limited`, `auth_failed`, `resource_missing`, `timeout`, else `error`.
    """
    if error.action != ERROR or not isinstance(error, McpError):
        return error.action
    facts = error.facts
    known = STATUS_ACTIONS.get(facts.get("status")) or _CODES.get(facts.get("code"))
    if known:
        return known
    return action_of(error.message) if isinstance(error, ToolFailed) else ERROR
