"""Wraps every tool call: the list that it returns gets one more line."""

from __future__ import annotations

import attrs

from pflow_mcp_plugin.contract import hookimpl


@hookimpl(wrapper=True)
def pflow_mcp_call_tool(call):
    """Let the server answer, and add a line."""
    answer = yield
    found = [*answer.structured["result"], "seen by acme-wrapper"]
    return attrs.evolve(answer, structured={"result": found})
