"""What a tool does to data, for the check of data flows.

A hint counts as the server states it, and as the specification says where it states none: the tool is then
destructive and open to the world. A claim of harmlessness needs no further trust here, unlike for `purity`:
it is part of what is pinned, and the check is about what strangers write, not about a server that lies.
What a remote server gets and gives does not depend on its claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pflow_mcp_plugin.types import Server, Tool

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.entries import Effect

_REMOTE = ("http", "sse")


def effects(tool: Tool, server: Server) -> tuple[Effect, ...]:
    """Return the effects of a tool on data.

    Its output is untrusted and it sends data unless it says that it is closed to the world, and always if its
    server is reached over the network. It is destructive unless it says that it only reads or adds.
    """
    is_open = server.transport in _REMOTE or tool.annotations.get("openWorldHint") is not False
    reads_only = tool.annotations.get("readOnlyHint") is True
    found: list[Effect] = ["untrusted_output"] if is_open else []
    if not (reads_only or tool.annotations.get("destructiveHint") is False):
        found.append("destructive")
    if is_open:
        found.append("sends_data")
    return tuple(found)
