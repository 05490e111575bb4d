"""The hooks that this plugin offers to other plugins: they change, veto, answer or watch a tool call.

The hooks are called while a workflow runs. An implementation registers like any pflow plugin, under the
entry-point group `pflow`, and marks its functions with `pflow_mcp_plugin.contract.hookimpl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import hookspec

if TYPE_CHECKING:  # loaded at every start, where the types are rarely needed
    from pflow_mcp_plugin.exchange import CallResult, ToolCall


@hookspec
def pflow_mcp_prepare_call(call: ToolCall) -> ToolCall | None:
    """Hook for plugins of this plugin: change a tool call before it is made, or veto it.

    Called once for each call, after its arguments were validated. Implementations are called in
    plugin order; each receives the call as the previous one left it.

    Returns:
        A changed call (`attrs.evolve(call, arguments=...)`), or None to leave it unchanged.

    Raise `pflow_mcp_plugin.errors.CallRefused` to veto. If an implementation raises, the call is not sent.

    Example:
        >>> import attrs
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> @hookimpl
        ... def pflow_mcp_prepare_call(call):
        ...     if call.server == "mail":
        ...         return attrs.evolve(call, arguments={**call.arguments, "dry_run": True})
    """
    return None


@hookspec(firstresult=True)
def pflow_mcp_call_tool(call: ToolCall) -> CallResult | None:
    """Hook for plugins of this plugin: answer a tool call in place of its server, or watch it as a wrapper.

    Called once for each call; this plugin's own implementation comes last and calls the server.

    Returns:
        A result in place of the server's, or None to let the next implementation answer.

    A wrapper (`@hookimpl(wrapper=True)`) sees the result and may replace it. If an
    implementation raises, the call is not repeated.

    Example:
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> from pflow_mcp_plugin.exchange import CallResult
        >>> @hookimpl
        ... def pflow_mcp_call_tool(call):
        ...     if call.tool == "now":
        ...         return CallResult(content=({"type": "text", "text": "noon"},))
    """
    return None
