"""The hooks that this plugin offers to other plugins: presets of servers, and control over tool calls.

An implementation registers like any pflow plugin, under the entry-point group `pflow`, and marks its
functions with `pflow_mcp_plugin.contract.hookimpl`. The example of each hook is a complete plugin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import hookspec

if TYPE_CHECKING:  # loaded at every start, where the types are rarely needed
    from pflow_mcp_plugin.contract import Host
    from pflow_mcp_plugin.exchange import CallResult, ToolCall
    from pflow_mcp_plugin.types import ServerPreset

HOSTS: list[Host] = []
"""The hosts of this process that have loaded this plugin; calls outside a run use the last of them."""


@hookspec
def pflow_mcp_presets(host: Host) -> Iterable[ServerPreset]:
    """Hook of this plugin for offering presets, which users add by name: `pflow mcp add NAME`.

    Called when presets are listed, shown or added, and by the sync of a server that was added from
    a preset; never when the program starts. Import the presets inside the function if there are many.

    Returns:
        The presets. A name that two plugins offer is refused: neither preset can be added, and both
        distributions are named.

    If an implementation raises, it is named and skipped; presets that it had yielded before stay.

    Example:
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> from pflow_mcp_plugin.types import PresetInput, ServerPreset
        >>> @hookimpl
        ... def pflow_mcp_presets(host):
        ...     yield ServerPreset(
        ...         name="acme-tickets",
        ...         title="Acme tickets",
        ...         description="Search and file tickets",
        ...         command="uvx",
        ...         args=("acme-tickets-mcp@1.4.2", "--project=${project}"),
        ...         env={"ACME_TOKEN": "${ACME_TOKEN}"},
        ...         inputs=(
        ...             PresetInput(name="project", description="Key of the project"),
        ...             PresetInput(name="ACME_TOKEN", description="Token of your account", secret=True),
        ...         ),
        ...     )
    """
    return ()


@hookspec
def pflow_mcp_prepare_call(call: ToolCall) -> ToolCall | None:
    """Hook of this plugin for changing a tool call before it is made, or vetoing it.

    Called once for each call, after its arguments were validated. Implementations are called in
    plugin order; each receives the call as the previous one left it, with a copy of its arguments.

    Returns:
        A changed call (`attrs.evolve(call, arguments=...)`), or None to leave it unchanged. The arguments of
        a changed call are validated like those before.

    Raise `pflow_mcp_plugin.errors.CallRefused` to veto. If an implementation raises, the call is not sent.

    Example:
        >>> import attrs
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> from pflow_mcp_plugin.errors import CallRefused, Where
        >>> @hookimpl
        ... def pflow_mcp_prepare_call(call):
        ...     if call.server != "mail":
        ...         return None
        ...     if call.tool == "delete_all":
        ...         where = Where(server=call.server, tool=call.tool)
        ...         raise CallRefused("Mail is never deleted", where=where, next_step="do it by hand")
        ...     return attrs.evolve(call, arguments={**call.arguments, "dry_run": True})
    """
    return None


@hookspec(firstresult=True)
def pflow_mcp_call_tool(call: ToolCall) -> CallResult | None:
    """Hook of this plugin for answering a tool call in place of its server, or watching it as a wrapper.

    Called once for each call; this plugin's own implementation comes last and calls the server.

    Returns:
        A result in place of the server's, or None to let the next implementation answer.

    A wrapper (`@hookimpl(wrapper=True)`) sees the result and may replace it; the arguments are a copy. If
    an implementation raises, the call is not repeated.

    Example:
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> from pflow_mcp_plugin.exchange import CallResult
        >>> @hookimpl
        ... def pflow_mcp_call_tool(call):
        ...     if call.tool == "now":
        ...         return CallResult(content=({"type": "text", "text": "noon"},))
    """
    return None
