"""The two HTTP transports: streamable HTTP, and SSE, that of protocol 2024-11-05.

Streamable HTTP posts each message, and its answer is JSON or a stream of events. With SSE, one stream of
events brings all answers.

Ours rather than the SDK's. That for streamable HTTP reports most failures as JSON-RPC errors that no server
sent. In that for SSE, one refused POST silently ends the writing of all others, and the cap on the size of an
event cannot be set. Here `send` returns once the answer to a request has been passed on, and raises
`RequestFailed` if there will be none; the SDK passes both on to the caller of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

import attrs
import httpx2
from anyio import ClosedResourceError
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

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
    NETWORK_ERRORS,
    NOTICE_SECONDS,
    HttpRequests,
    RequestAuth,
    is_event_stream,
    is_message,
    read_beginning,
    read_events,
    read_value,
    read_whole,
    refusal,
)
from pflow_mcp_plugin.client.transport.messages import MessageQueue, MessageSink, as_message, read_json
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.network.egress import is_same_origin, origin_of
from pflow_mcp_plugin.network.http_headers import media_type
from pflow_mcp_plugin.types import Server

_ACCEPTED = f"application/json, {EVENTS}"
_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_LONGEST_PAUSE = 30_000
"""Milliseconds before a stream is resumed. Without a limit, a server's `retry:` could ask for years."""
_OWN_WORDS = {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND}
"""HTTP statuses of a POST whose body may be a JSON-RPC error, which is then more specific."""


class HttpTransport:
    """What both HTTP transports have: requests to the server, and the queue of the messages that it sends."""

    def __init__(self, server: Server, auth: RequestAuth | None = None) -> None:
        self.unmatched = 0  # replies whose id matches no request
        self.status: int | None = None  # that of the latest answer to a request, or of the event stream
        self._server = server
        self._http = HttpRequests(server, auth)
        self._incoming = MessageQueue()


class StreamableHttp(HttpTransport):
    """The streamable HTTP transport: an async context manager that yields the streams of a session."""

    def __init__(self, server: Server, auth: RequestAuth | None = None) -> None:
        super().__init__(server, auth)
        self._session_id = ""
        self._version = ""
        self._waiting: set[asyncio.Timeout] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._get_stream: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> tuple[MessageQueue, MessageSink]:
        return self._incoming, MessageSink(self.send)

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        self._incoming.end()
        # Not cancelled: the tasks belong to the callers, who would take that for their own cancellation.
        # A deadline that passes now becomes a `ClosedResourceError`.
        for deadline in self._waiting:
            if not deadline.expired():
                deadline.reschedule(0)
        if self._get_stream is not None:
            self._get_stream.cancel()
        if self._session_id:
            self._run_in_background(self._end_session())
        try:
            if self._background:
                await asyncio.wait(self._background)
        finally:
            await self._http.aclose()

    async def send(self, message: SessionMessage) -> None:
        """POST one message over streamable HTTP; the answer to a request is passed on before this returns."""
        if self._closed:
            raise ClosedResourceError
        body = message.message
        metadata = message.metadata
        headers = (metadata.headers if isinstance(metadata, ClientMessageMetadata) else None) or {}
        method = getattr(body, "method", "")
        # The SDK adds no version header to replies; they use that of the last message.
        self._version = "" if method == "initialize" else headers.get(_VERSION_HEADER, self._version)
        if isinstance(body, JSONRPCRequest):
            await self._request(body, headers)
        elif method == "notifications/cancelled":
            if self._version not in MODERN_PROTOCOL_VERSIONS:  # there, closing the POST cancels the request
                self._run_in_background(self._notify(body, headers))
        else:
            await self._notify(body, headers)
        # Protocol 2025-11-25, "Listening for Messages from the Server": they belong to no request.
        if method == "notifications/initialized" and self._session_id:
            self._get_stream = self._run_in_background(self._read_get_stream())

    async def _request(self, request: JSONRPCRequest, headers: Mapping[str, str]) -> None:
        seconds = self._http.patience(request.method)
        try:
            async with asyncio.timeout(seconds) as deadline:
                self._waiting.add(deadline)
                try:
                    async with self._posted(request, seconds, headers) as response:
                        self.status = response.status_code
                        stream = await self._take_answer(response, request, deadline)
                    if stream is not None:
                        await self._resume(stream, request)
                finally:
                    self._waiting.discard(deadline)
        except TimeoutError:
            if self._closed:
                raise ClosedResourceError from None
            raise RequestFailed(Exchange(error=AnswerTooSlow(f"{seconds:g} s"))) from None

    async def _take_answer(
        self, response: httpx2.Response, request: JSONRPCRequest, deadline: asyncio.Timeout
    ) -> _CutStream | None:
        if not response.is_success:
            body = await read_beginning(response)
            failure = refusal(response, body)
            if response.status_code in _OWN_WORDS and not failure.exchange.session_lost:
                with suppress(ValueError):
                    message = as_message(read_json(body), ())
                    if isinstance(message, JSONRPCError):  # which is more specific than the status
                        message.id = request.id  # null if the server refused before it read the id
                        self._incoming.put(SessionMessage(message))
                        return None
            raise failure
        if request.method == "initialize":
            session_id = response.headers.get(_SESSION_HEADER, "")
            if session_id.isascii():  # others could not be sent back
                self._session_id = session_id
        if is_event_stream(response):
            deadline.reschedule(None)  # it has begun: from here on, the deadlines of the call apply
            stream = _CutStream()
            return None if await self._read(response, stream, request) else stream
        if media_type(response.headers) != "application/json":
            raise refusal(response, await read_beginning(response))
        self._take(read_value(await read_whole(response, self._http.limit)), request)
        return None

    def _posted(
        self, body: JSONRPCMessage, seconds: float | None, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[httpx2.Response]:
        return self._http.post(self._server.url, body, seconds, {**self._headers(_ACCEPTED), **headers})

    def _streamed(self, stream: _CutStream) -> AbstractAsyncContextManager[httpx2.Response]:
        last = {"last-event-id": stream.event_id} if stream.event_id else {}
        return self._http.answer("GET", self._server.url, headers={**self._headers(EVENTS), **last})

    def _headers(self, accepted: str) -> dict[str, str]:
        own = {"accept": accepted, _SESSION_HEADER: self._session_id, _VERSION_HEADER: self._version}
        return {name: value for name, value in own.items() if value}

    async def _read(
        self, response: httpx2.Response, stream: _CutStream, request: JSONRPCRequest | None = None
    ) -> bool:
        try:
            async with aclosing(read_events(response, self._http.limit)) as events:
                async for event in events:
                    stream.note(event)
                    try:
                        if is_message(event) and self._take(read_value(event.data), request):
                            return True
                    except RequestFailed:
                        if request is not None:  # an invalid message on the GET stream fails no request
                            raise
                    await self._incoming.room()
        except NETWORK_ERRORS as error:
            stream.error = error
        return False

    async def _resume(self, stream: _CutStream, request: JSONRPCRequest) -> None:
        # Protocol 2026-07-28 has no resumption: a broken stream loses its request.
        left = 0 if self._version in MODERN_PROTOCOL_VERSIONS else 2
        resumes = 0
        while resumes < left and stream.event_id:
            resumes += 1
            await asyncio.sleep(stream.pause)
            try:
                async with self._streamed(stream) as response:
                    if not is_event_stream(response):
                        break
                    if await self._read(response, stream, request):
                        return
            except RequestFailed as failure:
                if not isinstance(failure.exchange.error, NETWORK_ERRORS):
                    raise
        raise RequestFailed(Exchange(cut=True, error=stream.error, resumes=resumes))

    def _take(self, value: JSON, request: JSONRPCRequest | None) -> bool:
        message = as_message(value, ())
        if message is None:
            raise RequestFailed(Exchange(error=NotMessage()))
        answers = False
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            if request is not None:
                # The id is null if the server refused before it read the request's id.
                message.id = request.id if message.id is None else message.id
                answers = coerce_request_id(message.id) == request.id  # some servers return 1 as "1"
            self.unmatched += not answers
        self._incoming.put(SessionMessage(message))
        return answers

    async def _notify(self, body: JSONRPCMessage, headers: Mapping[str, str]) -> None:
        seconds = self._http.patience(getattr(body, "method", ""))
        with suppress(RequestFailed, TimeoutError):
            async with asyncio.timeout(seconds), self._posted(body, seconds, headers) as response:
                await read_beginning(response)

    async def _end_session(self) -> None:
        # Protocol 2025-11-25, "Session Management"; a server may refuse it with 405.
        with suppress(RequestFailed, TimeoutError):
            async with (
                asyncio.timeout(min(NOTICE_SECONDS, self._server.timeout)),
                self._http.answer("DELETE", self._server.url, headers=self._headers(_ACCEPTED)),
            ):
                pass

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _read_get_stream(self) -> None:
        """Read messages that belong to no request; reopen their GET stream, after a pause, when it ends."""
        stream, failures = _CutStream(), 0
        while failures < 2:  # in a row
            stream.error = None
            try:
                async with self._streamed(stream) as response:
                    if not is_event_stream(response):
                        return
                    await self._read(response, stream)
            except RequestFailed as failure:
                stream.error = failure
            failures = failures + 1 if stream.error is not None else 0
            await asyncio.sleep(stream.pause)


@attrs.define
class _CutStream:
    event_id: str = ""
    pause: float = 1.0  # seconds
    error: Exception | None = None

    def note(self, event: httpx2.ServerSentEvent) -> None:
        self.event_id = event.id or self.event_id
        if event.retry is not None:
            self.pause = granted_pause(event.retry)


def granted_pause(milliseconds: int) -> float:
    """Return the seconds before a stream of HTTP is resumed: those of a server's `retry:`, within limits."""
    return max(100, min(milliseconds, _LONGEST_PAUSE)) / 1000


class SseTransport(HttpTransport):
    """The SSE transport: an async context manager that yields the two streams of a session."""

    def __init__(self, server: Server, auth: RequestAuth | None = None) -> None:
        super().__init__(server, auth)
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
        """Read events until the SSE stream ends, then fail every waiting request with the reason."""
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
                error = httpx2.RemoteProtocolError("the stream ended before it named an endpoint")
                end = RequestFailed(Exchange(error=error, status=self.status))
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
    """Return SSE's address for messages; it receives headers and tokens, so it must have the same origin."""
    try:
        endpoint = str(httpx2.URL(urljoin(url, place)))
        if is_same_origin(url, endpoint):
            return endpoint
        is_valid = origin_of(endpoint) is not None
    except (ValueError, httpx2.InvalidURL):
        is_valid = False
    raise RequestFailed(Exchange(error=ForeignEndpoint(endpoint) if is_valid else BadEndpoint(place[:2000])))
