"""Notifies clients that the list of tools, resources or prompts has changed, in both protocol generations."""

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


class _Bus(InMemorySubscriptionBus):
    """The bus of the SDK, which also knows whether anyone listens."""

    def __init__(self) -> None:
        super().__init__()
        self._subscriptions: set[object] = set()

    @property
    def has_listeners(self) -> bool:
        """Whether the bus has a listener."""
        return bool(self._subscriptions)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a listener of the bus; return the function that removes it, which may be called twice."""
        unsubscribe = super().subscribe(listener)
        subscription = object()
        self._subscriptions.add(subscription)

        def leave() -> None:
            unsubscribe()
            self._subscriptions.discard(subscription)

        return leave


class ListChanges:
    """The clients to notify of changes: open connections with a handshake, and those that subscribed."""

    def __init__(self) -> None:
        self._bus = _Bus()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.listen = ListenHandler(self._bus)
        """Answers `subscriptions/listen`, the subscriptions of revision 2026-07-28."""

    def seen(self, context: ServerRequestContext[Any, Any]) -> None:
        """Notify the connection of this request of later changes, if a handshake opened it."""
        if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            # Each request has a session of its own; the connection stays.
            self._connections.add(context.session._connection)  # noqa: SLF001

    @property
    def has_audience(self) -> bool:
        """Whether any client would be notified of a change."""
        return bool(self._connections or self._bus.has_listeners)

    async def announce(self, changed: Changed) -> None:
        """Notify every client that a list has changed; call it in the server's event loop."""
        await self._bus.publish(_EVENTS[changed]())
        for connection in list(self._connections):
            await connection.notify(f"notifications/{changed}/list_changed", None)
