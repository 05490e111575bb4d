"""A connection of the HTTP server that a client cannot hold open by sending slowly, or nothing."""

from __future__ import annotations

import asyncio
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

RECEIVE_SECONDS: float = 60
"""Seconds for a complete request to arrive, once the connection is ready for it."""
UNREAD_SECONDS: float = 120
"""Seconds until a connection is closed because its client does not read (Linux)."""
MOST_CONNECTIONS = 512
"""Connections at once; further ones are closed as soon as they are opened."""


class BoundedConnection(H11Protocol):
    """A connection that ends if its next request does not arrive in time; uvicorn itself has no limit."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        _notice_dead_clients(transport.get_extra_info("socket"))
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request; its body may still be arriving after it was answered."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        arriving = self.conn.their_state in {h11.IDLE, h11.SEND_BODY} and not self.transport.is_closing()
        if not arriving:
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(RECEIVE_SECONDS, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _notice_dead_clients(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_SECONDS * 1000))
