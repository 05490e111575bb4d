"""How many requests are handled at once, how large they may be, and how long they may take."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import anyio
import attrs
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pflow_mcp_plugin.server.http.request_gate import answer

_SUBSCRIPTION = "subscriptions/listen"


@attrs.define(kw_only=True, eq=False)
class RequestLimits:
    """Passes on requests within limits; refuses new ones while the server shuts down.

    Attributes:
        app: What gets them.
        largest: Bytes of the largest request body.
        most: Requests that are handled at once; and, counted apart, streams that clients listen on.
        seconds: How long one request may take.
    """

    app: ASGIApp
    largest: int
    most: int
    seconds: float
    _running: set[anyio.CancelScope] = attrs.field(factory=set)
    _listening: set[anyio.CancelScope] = attrs.field(factory=set)
    _draining: bool = False

    def drain(self) -> None:
        """Refuse new requests, and end the streams that clients listen on."""
        self._draining = True
        for scope in self._listening:
            scope.cancel()

    def cancel(self) -> None:
        """Cancel what is running."""
        for scope in self._running | self._listening:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI event."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        listens = _listens(Headers(scope=scope))
        group = self._listening if listens else self._running
        if self._draining:
            return await _busy(send, "This server is shutting down")
        if len(group) >= self.most:
            return await _busy(send, "This server handles too many requests at once")
        limit = anyio.CancelScope()
        group.add(limit)
        try:
            return await self._handle(scope, receive, send, limit, None if listens else self.seconds)
        finally:
            group.discard(limit)

    async def _handle(
        self, scope: Scope, receive: Receive, send: Send, limit: anyio.CancelScope, seconds: float | None
    ) -> None:
        started = False

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        if seconds is not None:
            limit.deadline = anyio.current_time() + seconds
        with limit:
            body = await self._body(scope, receive, watched)
            if body is not None:
                await self.app(scope, _replayed(body, receive), watched)
        if not limit.cancelled_caught or started:
            return
        if anyio.current_time() < limit.deadline:
            await _busy(send, "This server is shutting down")
            return
        reason = f"The request took more than {seconds:g} seconds and was cancelled"
        await answer(send, 504, {"error": "timeout", "error_description": reason})

    async def _body(self, scope: Scope, receive: Receive, send: Send) -> bytes | None:
        """Return the body of a request; None if the client has gone, or was told that it is too large."""
        declared = Headers(scope=scope).get("content-length", "0")
        body = bytearray()
        more = int(declared) <= self.largest if declared.isdecimal() else False
        if not more:
            await self._too_large(send)
            return None
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > self.largest:
                await self._too_large(send)
                return None
            more = message.get("more_body", False)
        return bytes(body)

    async def _too_large(self, send: Send) -> None:
        reason = f"The request has more than {self.largest} bytes"
        await answer(send, 413, {"error": "too_large", "error_description": reason})


def _listens(headers: Headers) -> bool:
    """Whether a request opens a stream to listen on; the SDK refuses it if its body says otherwise."""
    version = headers.get("mcp-protocol-version")
    modern = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
    return modern and headers.get("mcp-method") == _SUBSCRIPTION


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what receives a body that has been read, and then what follows."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


async def _busy(send: Send, reason: str) -> None:
    body = {"error": "unavailable", "error_description": reason}
    await answer(send, 503, body, {"retry-after": "1"})
