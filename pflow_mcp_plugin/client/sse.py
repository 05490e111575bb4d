"""The older HTTP transport: one event stream for all answers, and a POST for each message.

Ours rather than the SDK's, in which one refused POST ends the writing of all others without a
word, and whose cap on an event cannot be set.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import httpx2

from pflow_mcp_plugin.client.exchange import (
    BadEndpoint,
    Exchange,
    ForeignEndpoint,
    InvalidJson,
    TooLarge,
    current,
)
from pflow_mcp_plugin.client.http import make_client
from pflow_mcp_plugin.client.messages import MessageQueue, MessageSink, as_message, read_json
from pflow_mcp_plugin.types import Server

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_REFUSED = -32603
_MAX_REDIRECTS = 3
_KEPT = 2000
"""Characters of what is no message."""
_PORTS = {"http": 80, "https": 443}


@asynccontextmanager
async def open_sse(server: Server) -> AsyncIterator[tuple[MessageQueue, MessageSink]]:
    """Yield the read and the write stream of a session over HTTP with server-sent events."""
    async with make_client(server) as client:
        stream = EventStream(client, server.url)
        reading = asyncio.create_task(stream.read(), name=f"events of {server.name}")
        try:
            await stream.opened
            yield stream.incoming, MessageSink(stream.send)
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading


class EventStream:
    """The messages of one connection.

    Args:
        client: Sends the requests.
        url: Where the event stream is.

    Attributes:
        incoming: The messages that came.
        opened: Done when the server has said where messages go, or why there is no stream.
    """

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.incoming = MessageQueue()
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._client = client
        self._url = url
        self._endpoint = ""
        self._waiting: dict[str | int, Exchange] = {}

    async def read(self) -> None:
        """Take events until the stream ends; what went wrong is left in the exchanges it harms."""
        reason: Exception | None = None
        try:
            await self._take_events()
        except (httpx2.HTTPError, TooLarge, ForeignEndpoint, BadEndpoint, InvalidJson) as error:
            reason = error
        finally:  # whatever it was, nobody waits for what will not come
            self._fail(reason)
            self.incoming.end()

    async def _take_events(self) -> None:
        response = await self._requested("GET", self._url, headers={"accept": "text/event-stream"})
        try:
            response.raise_for_status()
            async for event in httpx2.EventSource(response, max_event_size=None):
                if event.event == "endpoint":
                    self._open(event.data)
                elif event.event == "message" and event.data:
                    self._take(event.data)
        finally:
            await response.aclose()

    def _open(self, endpoint: str) -> None:
        """Note where messages go: headers and token go there too, so it must be the same host.

        Raises:
            ForeignEndpoint: It is another.
            BadEndpoint: It is no address.
        """
        try:
            target = str(httpx2.URL(urljoin(self._url, endpoint)))
            foreign = not _is_same_origin(self._url, target)
        except (ValueError, httpx2.InvalidURL) as error:
            raise BadEndpoint(endpoint[:_KEPT]) from error
        if foreign:
            raise ForeignEndpoint(target)
        self._endpoint = target
        if not self.opened.done():
            self.opened.set_result(None)

    def _take(self, data: str) -> None:
        from mcp.shared.message import SessionMessage

        message = as_message(_json(data), self._waiting)
        if message is None:
            return  # the deadline of the request says what is missing
        if not hasattr(message, "method"):
            self._match(message.id)
        self.incoming.put(SessionMessage(message))

    def _match(self, reply_to: Any) -> None:
        """Count a reply that nobody asked for on all that wait: one of them is told of it."""
        if self._waiting.pop(reply_to, None) is None:
            for exchange in self._waiting.values():
                exchange.replies += 1

    def _fail(self, error: Exception | None) -> None:
        """Tell all that wait that the stream is over."""
        for exchange in self._waiting.values():
            exchange.error, exchange.cut = error, True
        if not self.opened.done():
            error = error or httpx2.RemoteProtocolError("the stream ended before it named an endpoint")
            opening = current.get()
            if opening is not None and not isinstance(error, httpx2.HTTPStatusError | httpx2.SSEError):
                opening.error = error  # of those two, status and content are noted already
            self.opened.set_exception(error)

    async def send(self, message: SessionMessage) -> None:
        """Post one message; where that fails, its own request is answered with the failure."""
        body = message.message
        request_id = getattr(body, "id", None) if hasattr(body, "method") else None
        exchange = current.get()
        if request_id is not None and exchange is not None:
            self._waiting[request_id] = exchange
        content = body.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "surrogatepass")
        headers = {"content-type": "application/json"}
        response = await self._requested("POST", self._endpoint, content=content, headers=headers)
        await response.aclose()
        if not response.is_success and request_id is not None:
            self._refuse(request_id, response.status_code)

    def _refuse(self, request_id: Any, status: int) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import ErrorData, JSONRPCError

        self._waiting.pop(request_id, None)
        error = ErrorData(code=_REFUSED, message=f"HTTP {status}")
        self.incoming.put(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    async def _requested(self, method: str, url: str, **options: Any) -> httpx2.Response:
        """Send a request; it follows redirects that stay on the host and keep the method."""
        request = self._client.build_request(method, url, **options)
        for _ in range(_MAX_REDIRECTS):
            response = await self._client.send(request, stream=True, follow_redirects=False)
            following = response.next_request
            if following is None or following.method != method:
                return response
            if not _is_same_origin(url, str(following.url)):
                return response
            await response.aclose()
            request = following
        return httpx2.Response(HTTPStatus.LOOP_DETECTED, request=request)


def _json(data: str) -> Any:
    try:
        return read_json(data.encode("utf-8", "replace"))
    except ValueError as error:
        raise InvalidJson(data[:_KEPT], str(error)) from error


def _is_same_origin(one: str, other: str) -> bool:
    """Whether two addresses are on one server, however they are spelt.

    Raises:
        ValueError: One is no address.
    """
    return _origin(one) == _origin(other)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
