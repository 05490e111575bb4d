"""How many requests are handled at once, how large they may be, and how long they may take."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

import anyio
import attrs
from mcp_types import INTERNAL_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pflow_mcp_plugin.server.http.request_gate import answer

_SUBSCRIPTION = "subscriptions/listen"
_EVENTS = "text/event-stream"


@attrs.define(kw_only=True, eq=False)
class RequestLimits:
    """Passes on requests within limits; refuses new ones while the server shuts down.

    Attributes:
        app: The application that receives them.
        max_request_size: Bytes of the largest request body.
        max_requests: Requests that are handled at once; streams that clients listen on are counted apart.
        request_timeout: Seconds that one request may take.
    """

    app: ASGIApp
    max_request_size: int
    max_requests: int
    request_timeout: float
    _answering: set[anyio.CancelScope] = attrs.field(factory=set)
    _listening: set[anyio.CancelScope] = attrs.field(factory=set)
    _draining: bool = False

    def drain(self) -> None:
        """Refuse new requests, and end the streams that clients listen on."""
        self._draining = True
        for scope in self._listening:
            scope.cancel()

    def cancel(self) -> None:
        """Cancel what is running."""
        for scope in self._answering | self._listening:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI event."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        listens = _listens(Headers(scope=scope))
        group = self._listening if listens else self._answering
        if self._draining:
            return await _busy(send, "This server is shutting down")
        if len(group) >= self.max_requests:
            return await _busy(send, "This server handles too many requests at once")
        limit = anyio.CancelScope()
        group.add(limit)
        try:
            return await self._handle(scope, receive, send, limit, None if listens else self.request_timeout)
        finally:
            group.discard(limit)

    async def _handle(
        self, scope: Scope, receive: Receive, send: Send, limit: anyio.CancelScope, seconds: float | None
    ) -> None:
        reply, body = _Reply(send), None
        if seconds is not None:
            limit.deadline = anyio.current_time() + seconds
        with limit:
            body = await self._body(scope, receive, reply)
            if body is not None:
                await self.app(scope, _replayed(body, receive), reply)
        if not limit.cancelled_caught:
            return
        late = anyio.current_time() >= limit.deadline
        reason = f"The request took more than {seconds:g} seconds" if late else "This server is shutting down"
        await reply.break_off(504 if late else 503, reason, body)

    async def _body(self, scope: Scope, receive: Receive, send: Send) -> bytes | None:
        """Return the body of a request; None if the client has gone, or was told that it is too large."""
        declared = Headers(scope=scope).get("content-length", "0")
        body = bytearray()
        more = int(declared) <= self.max_request_size if declared.isdecimal() else False
        if not more:
            await self._too_large(send)
            return None
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > self.max_request_size:
                await self._too_large(send)
                return None
            more = message.get("more_body", False)
        return bytes(body)

    async def _too_large(self, send: Send) -> None:
        reason = f"The request has more than {self.max_request_size} bytes"
        await answer(send, 413, {"error": "too_large", "error_description": reason})


class _Reply:
    """Sends the answer to a request, and can break it off.

    Args:
        send: Where it goes.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._streams = False
        self._complete = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Send an ASGI event."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._streams = Headers(raw=list(message["headers"])).get("content-type", "").startswith(_EVENTS)
        else:
            self._complete = not message.get("more_body", False)
        await self._send(message)

    async def break_off(self, status: int, reason: str, request: bytes | None) -> None:
        """Answer with the reason why the request was ended, even if its stream has begun."""
        if not self._status:
            headers = {"retry-after": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
            body = {"error": "cancelled", "error_description": reason}
            await answer(self._send, status, body, headers)
        elif not self._complete:
            event = _failure(request, reason) if self._streams and request else b""
            await self._send({"type": "http.response.body", "body": event})


def _failure(request: bytes, reason: str) -> bytes:
    """Return the event that answers a JSON-RPC request with a failure."""
    error = {"code": INTERNAL_ERROR, "message": reason}
    message = {"jsonrpc": "2.0", "id": json.loads(request).get("id"), "error": error}
    return f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n".encode()


def _listens(headers: Headers) -> bool:
    """Whether a request opens a stream to listen on; the SDK refuses it if its body says otherwise."""
    version = headers.get("mcp-protocol-version")
    modern = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
    return modern and headers.get("mcp-method") == _SUBSCRIPTION


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns a body already read, and then whatever follows."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


async def _busy(send: Send, reason: str) -> None:
    body = {"error": "unavailable", "error_description": reason}
    await answer(send, 503, body, {"retry-after": "1"})
