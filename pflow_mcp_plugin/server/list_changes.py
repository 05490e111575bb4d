"""Tells clients that the list of tools, resources or prompts has changed, in both protocol generations."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Literal

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

Changed = Literal["tools", "resources", "prompts"]

_EVENTS: dict[Changed, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "resources": ResourcesListChanged,
    "prompts": PromptsListChanged,
}


class ListChanges:
    """Whom to tell that a list has changed: the open connections of the handshake, and those that listen."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.listen = ListenHandler(self._bus)
        """Serves `subscriptions/listen`, the way of revision 2026-07-28."""

    def seen(self, context: ServerRequestContext[Any, Any]) -> None:
        """Tell the connection of this request about later changes, if it was opened by a handshake."""
        if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            # The session is made anew for each request; the connection stays.
            self._connections.add(context.session._connection)  # noqa: SLF001

    async def announce(self, changed: Changed) -> None:
        """Tell every client that a list has changed; call it in the server's event loop."""
        await self._bus.publish(_EVENTS[changed]())
        for connection in list(self._connections):
            await connection.notify(f"notifications/{changed}/list_changed", None)
