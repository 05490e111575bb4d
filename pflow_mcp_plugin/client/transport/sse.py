"""The SSE transport of protocol 2024-11-05: one event stream for all answers, a POST for each message.

Ours rather than the SDK's, in which one refused POST silently ends the writing of all others, and
whose cap on the size of an event cannot be set.

Imported on the event loop's thread only, as `session` is.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from urllib.parse import urljoin

import attrs
import httpx2
from anyio import ClosedResourceError
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCRequest

from pflow_mcp_plugin.client.request_failures import (
    AnswerTooSlow,
    BadEndpoint,
    Exchange,
    ForeignEndpoint,
    NotMessage,
    RequestFailed,
)
from pflow_mcp_plugin.client.transport.http_requests import (
    EVENTS,
    HttpRequests,
    RequestAuth,
    is_event_stream,
    is_message,
    read_beginning,
    read_events,
    read_value,
    refusal,
)
from pflow_mcp_plugin.client.transport.messages import MessageQueue, MessageSink, as_message
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.network.egress import is_same_origin
from pflow_mcp_plugin.types import Server

_KEPT = 2000
"""Characters of an invalid address in an SSE `endpoint` event that are kept."""
_NO_ENDPOINT = "the stream ended before it named an endpoint"


class SseTransport:
    """The SSE transport: an async context manager that yields the two streams of a session."""

    def __init__(self, server: Server, auth: RequestAuth | None = None) -> None:
        self.unmatched = 0  # replies whose id matches no request
        self.status: int | None = None  # that of the event stream
        self._server = server
        self._http = HttpRequests(server, auth)
        self._incoming = MessageQueue()
        self._endpoint = ""
        self._asked: set[str | int] = set()  # every request so far: a late reply is not an unmatched one
        self._waiting: dict[str | int, asyncio.Future[None]] = {}
        self._ended = False

    async def __aenter__(self) -> tuple[MessageQueue, MessageSink]:
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(opened), name=f"events of {self._server.name}")
        try:  # it names the address for messages; the deadline of the start limits this
            await opened
        except BaseException:  # cancelled or refused: `__aexit__` is not called then
            await self.__aexit__()
            raise
        return self._incoming, MessageSink(self.send)

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._reading
        finally:
            await self._http.aclose()

    async def _read(self, opened: asyncio.Future[None]) -> None:
        """Read events until the stream ends, then fail every waiting request with the reason."""
        end: Exception = ClosedResourceError()
        try:
            async with self._http.answer("GET", self._server.url, headers={"accept": EVENTS}) as response:
                self.status = response.status_code
                if not is_event_stream(response):
                    raise refusal(response, await read_beginning(response))
                async with aclosing(read_events(response, self._http.limit)) as events:
                    async for event in events:
                        if event.event == "endpoint":
                            self._endpoint = _endpoint(self._server.url, event.data)
                            if not opened.done():
                                opened.set_result(None)
                        elif is_message(event):
                            self._take(read_value(event.data))
                            await self._incoming.room()
            end = RequestFailed(Exchange(cut=True))
            if not opened.done():
                end = RequestFailed(
                    Exchange(error=httpx2.RemoteProtocolError(_NO_ENDPOINT), status=self.status)
                )
        except RequestFailed as failure:
            end = RequestFailed(attrs.evolve(failure.exchange, cut=opened.done()))
        finally:  # whatever ended the stream, no request may wait forever
            for waiting in (opened, *self._waiting.values()):
                if not waiting.done():
                    waiting.set_exception(end)
            self._incoming.end()
            self._ended = True

    def _take(self, value: JSON) -> None:
        message = as_message(value, ())
        if message is None:
            if isinstance(value, dict) and "method" not in value:
                self._settle(value.get("id"), NotMessage())
            return
        self._incoming.put(SessionMessage(message))
        if not hasattr(message, "method"):
            self._settle(message.id)

    def _settle(self, reply_to: object, error: Exception | None = None) -> None:
        """Complete the request that a reply belongs to; count a reply that matches none."""
        request_id = coerce_request_id(reply_to) if isinstance(reply_to, int | str) else -1
        answered = self._waiting.get(request_id)
        self.unmatched += request_id not in self._asked
        if answered is None or answered.done():
            return
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(RequestFailed(Exchange(error=error)))

    async def send(self, message: SessionMessage) -> None:
        """POST one message; return once the SSE stream has brought the answer, if it is a request."""
        if self._ended:
            raise ClosedResourceError
        body = message.message
        if not isinstance(body, JSONRPCRequest):
            with suppress(RequestFailed):
                await self._post(body)
            return
        self._asked.add(body.id)
        self._waiting[body.id] = answered = asyncio.get_running_loop().create_future()
        try:
            await self._post(body)
            await answered
        finally:
            del self._waiting[body.id]
            if answered.done() and not answered.cancelled():
                answered.exception()  # retrieved, or asyncio would log it as never retrieved

    async def _post(self, body: JSONRPCMessage) -> None:
        seconds = self._http.patience(getattr(body, "method", ""))
        try:
            async with asyncio.timeout(seconds), self._http.post(self._endpoint, body, seconds) as response:
                beginning = await read_beginning(response)
        except TimeoutError:
            raise RequestFailed(Exchange(error=AnswerTooSlow(f"{seconds:g} s"))) from None
        if not response.is_success:
            raise refusal(response, beginning)


def _endpoint(url: str, place: str) -> str:
    """Return the address for messages; it receives headers and tokens, so it must have the same origin."""
    try:
        endpoint = str(httpx2.URL(urljoin(url, place)))
        if is_same_origin(url, endpoint):
            return endpoint
        wrong: Exception = ForeignEndpoint(endpoint)
    except (ValueError, httpx2.InvalidURL):
        wrong = BadEndpoint(place[:_KEPT])
    raise RequestFailed(Exchange(error=wrong))
