"""HTTP requests to one server: redirects stay on its origin, answers have a size limit.

Both HTTP transports use this. A failure is a `RequestFailed` with what is known about the exchange.
"""

from __future__ import annotations

import base64
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import httpx2

from pflow_mcp_plugin.client.request_failures import (
    Exchange,
    InvalidJson,
    MessageTooLarge,
    NoAccessToken,
    RequestFailed,
)
from pflow_mcp_plugin.client.transport.messages import read_json
from pflow_mcp_plugin.config.auth import missing_scopes, wanted_scopes, with_header
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.network.certificates import KeyNotPinned, client_context
from pflow_mcp_plugin.network.checked_connections import CheckedTransport, sent
from pflow_mcp_plugin.network.egress import HostRefused, is_same_origin
from pflow_mcp_plugin.network.http_headers import media_type
from pflow_mcp_plugin.types import Server

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

NETWORK_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)
"""httpx2's errors for an HTTP request that fails in the network, or for a redirect to an invalid URL."""

EVENTS = "text/event-stream"
NOTICE_SECONDS = 2.0
"""How long the HTTP request of a notification, or of the end of a session, may take."""

_USUAL_CALL_TIMEOUT: Any = attrs.fields(Server).call_timeout.default
"""A call_timeout above this means slow tools: `timeout` does not bound the HTTP requests of calls then."""
_BODY_KEPT = 2000
"""Characters of an HTTP body that are kept to be shown."""


class RequestAuth(Protocol):
    """What puts access tokens on the requests that `HttpRequests` makes; see `oauth.bearer_auth`."""

    async def authorize(self, request: httpx2.Request) -> None: ...

    async def authorize_again(self, request: httpx2.Request, response: httpx2.Response) -> bool: ...

    async def aclose(self) -> None: ...


class HttpRequests:
    """Makes the HTTP requests to one server, within its origin and a size limit."""

    def __init__(self, server: Server, auth: RequestAuth | None = None) -> None:
        if auth is None:
            _require_scopes(server)
        self.limit = int(server.max_line_mb * (1 << 20))  # of a message, in bytes, after decompression
        self._server = server
        self._client = make_client(server)
        self._auth = auth

    async def aclose(self) -> None:
        try:
            if self._auth is not None:
                await self._auth.aclose()
        finally:
            await self._client.aclose()

    def patience(self, method: str) -> float | None:
        """Return how many seconds an HTTP request waits for its answer's end, or events; None: no limit."""
        if method.startswith("notifications/"):
            return min(NOTICE_SECONDS, self._server.timeout)
        slow = method == "tools/call" and self._server.call_timeout > _USUAL_CALL_TIMEOUT
        return None if slow else self._server.timeout

    def post(
        self, url: str, body: JSONRPCMessage, seconds: float | None, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[httpx2.Response]:
        silence = None if seconds is None else self._server.sse_timeout
        return self.answer(
            "POST",
            url,
            headers={"content-type": "application/json", **(headers or {})},
            content=body.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "surrogatepass"),
            timeout=httpx2.Timeout(self._server.timeout, read=silence),
        )

    @asynccontextmanager
    async def answer(self, method: str, url: str, **options: Any) -> AsyncIterator[httpx2.Response]:
        """Send the server an HTTP request and yield its answer, of any status, before its body is read."""
        try:
            response = await self._followed(self._client.build_request(method, url, **options))
            try:
                yield response
            finally:
                await response.aclose()
        except (*NETWORK_ERRORS, MessageTooLarge, HostRefused, KeyNotPinned, NoAccessToken) as error:
            raise RequestFailed(Exchange(error=error)) from error

    async def _followed(self, request: httpx2.Request) -> httpx2.Response:
        for _ in range(3):  # redirects
            response = await self._authorized(request)
            following = response.next_request
            if (
                following is None
                or following.method != request.method  # 301 to 303 make of a POST a GET without the message
                or following.url.userinfo != request.url.userinfo  # which would be sent as credentials
                or not is_same_origin(str(request.url), str(following.url))
            ):
                return response
            await read_beginning(response)
            await response.aclose()
            request = following
        return await self._authorized(request)

    async def _authorized(self, request: httpx2.Request) -> httpx2.Response:
        if self._auth is None:
            return await sent(self._client, request)
        await self._auth.authorize(request)
        response = await sent(self._client, request)
        try:
            if not await self._auth.authorize_again(request, response):
                return response
        except BaseException:
            await response.aclose()
            raise
        await response.aclose()
        return await sent(self._client, request)


async def read_whole(response: httpx2.Response, limit: int) -> bytes:
    """Return the body of the answer to an HTTP request; raise MessageTooLarge at the size limit."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > limit:
            raise MessageTooLarge("an answer", len(content))
    return bytes(content)


async def read_beginning(response: httpx2.Response) -> bytes:
    """Return how the body of the answer to an HTTP request begins, where that is enough, even if cut off."""
    body = b""
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= 64 * 1024:
                break
    except httpx2.HTTPError:
        pass
    return body


def refusal(response: httpx2.Response, body: bytes) -> RequestFailed:
    """Return the RequestFailed for an HTTP request whose answer is a refusal, or something other than MCP."""
    # Protocol 2025-11-25, "Session Management": 404 for a request with a session id ends the session.
    lost = response.status_code == HTTPStatus.NOT_FOUND and "mcp-session-id" in response.request.headers
    return RequestFailed(
        Exchange(
            status=response.status_code,
            headers=dict(response.headers),
            body=body.decode("utf-8", "replace")[:_BODY_KEPT],
            session_lost=lost,
        )
    )


def read_value(text: bytes | str) -> JSON:
    """Return the JSON of the answer to an HTTP request, or of its event; invalid UTF-8 becomes U+FFFD."""
    content = text.encode("utf-8", "replace") if isinstance(text, str) else text.removeprefix(BOM_UTF8)
    try:
        return read_json(content)
    except ValueError:
        whole = content.decode("utf-8", "replace")
    try:
        return read_json(whole.encode())
    except ValueError as error:
        raise RequestFailed(Exchange(error=InvalidJson(whole[:_BODY_KEPT], str(error)))) from error


def is_event_stream(response: httpx2.Response) -> bool:
    """Whether the answer to an HTTP request is successful and an event stream."""
    return response.is_success and media_type(response.headers) == EVENTS


def is_message(event: httpx2.ServerSentEvent) -> bool:
    """Return whether an event in the answer to an HTTP request has a message, not only a new resume id."""
    return event.event == "message" and bool(event.data)


async def read_events(response: httpx2.Response, limit: int) -> AsyncGenerator[httpx2.ServerSentEvent]:
    """Yield the events in the answer to an HTTP request; raise MessageTooLarge at the size limit."""
    counted = _CountedBytes(response)
    # Wrapped in another response: its bytes are decompressed, and UTF-8 whatever charset it declares.
    plain = httpx2.Response(
        HTTPStatus.OK, headers={"content-type": EVENTS}, stream=counted, request=response.request
    )
    try:
        async for event in httpx2.EventSource(plain, max_event_size=limit):
            counted.size = 0
            yield event
    except httpx2.SSEError as error:
        raise MessageTooLarge("an event", counted.size) from error


class _CountedBytes(httpx2.AsyncByteStream):
    """The decoded bytes of an answer on the HTTP transport; `size` counts them since it was set to 0."""

    def __init__(self, response: httpx2.Response) -> None:
        self.size = 0
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_bytes():
            self.size += len(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


def make_client(server: Server) -> httpx2.AsyncClient:
    """Return the HTTP client for the requests to one server, to allowed hosts and addresses only.

    Proxies come from the environment, and trusted certificates too if the server has no `ca_bundle`.
    """
    return httpx2.AsyncClient(
        headers=with_header(server.headers, server.auth),
        timeout=httpx2.Timeout(server.timeout, read=server.sse_timeout),
        transport=CheckedTransport(server, client_context(server, server.url)),
    )


def _require_scopes(server: Server) -> None:
    # Only a JWT says which scopes it has. It is read without verification: that is the server's task.
    granted: tuple[str, ...] = ()
    with suppress(ValueError, RecursionError):  # not a JWT: three segments, the claims in the second
        _, payload, _ = str(server.auth.get("token", "")).split(".")
        claims = read_json(base64.urlsafe_b64decode(payload + "=="))
        # The claim of RFC 9068, and another common one.
        for value in map(claims.get, ("scope", "scp")) if isinstance(claims, dict) else ():
            words = value.split() if isinstance(value, str) else value
            if not granted and isinstance(words, list):
                granted = tuple(word for word in words if isinstance(word, str))
    missing = " ".join(missing_scopes(wanted_scopes(server.auth), granted))
    if missing:
        has = " ".join(granted)
        error = NoAccessToken(f"its token lacks the scope {missing}; it has {has}", "login", missing)
        raise RequestFailed(Exchange(error=error))
