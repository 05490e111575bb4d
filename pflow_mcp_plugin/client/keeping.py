"""An HTTP client that keeps what the SDK drops, and lets no answer harm its neighbours.

Status, headers and body of every answer are kept in the `Exchange`. What goes wrong with one
request becomes an answer to that request: an exception would end the whole transport.
"""

from __future__ import annotations

import asyncio
from codecs import BOM_UTF8
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
from pydantic_core import from_json

from pflow_mcp_plugin.client.eventstream import EventBytes
from pflow_mcp_plugin.client.exchange import AnswerTooSlow, Exchange, TooLarge, current
from pflow_mcp_plugin.client.surrogates import mended

_BODY_KEPT = 2000
"""Characters of an error body that are kept."""
_BODY_READ = 64 * 1024
"""Bytes of an error body that are read."""
_NO_ANSWER = 599
"""Stands for an answer that never came; no server sends it."""
_MAX_RESUMES = 2
_NOTICE_SECONDS = 2.0
"""How long a server may take to accept a notification, or the end of a session. Nobody waits for
the answer, but messages that come later wait for their turn."""
_KEPT_HEADERS = {"content-type", "location", "retry-after", "www-authenticate", "mcp-session-id"}
_OVER = b'data: {"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"the event stream was cut"}}\n\n'


class KeepingClient(httpx2.AsyncClient):
    """Sends requests of one server.

    Args:
        limit: Bytes that one message may have once it is decoded.
        seconds: How long one exchange may take; an event stream, until it begins.
        call_seconds: The same for a call of a tool; None leaves it to the deadlines of the call.
        options: As of `httpx2.AsyncClient`.
    """

    def __init__(self, *, limit: int, seconds: float, call_seconds: float | None, **options: Any) -> None:
        super().__init__(**options)
        self._limit = limit
        self._seconds = seconds
        self._call_seconds = call_seconds

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request, once more where the server did not take it and says when it will.

        Returns:
            The answer. 599 stands for none; the `Exchange` holds the reason.
        """
        exchange = current.get() or Exchange()
        if exchange.cut and "last-event-id" in request.headers:
            return await self._resumed(request, exchange, options)
        response = await self._exchanged(request, exchange, options)
        pause = _pause(response, exchange)
        if pause is not None:
            await asyncio.sleep(pause)
            response = await self._exchanged(request, exchange, options)
        return response

    async def _resumed(
        self, request: httpx2.Request, exchange: Exchange, options: dict[str, Any]
    ) -> httpx2.Response:
        """Take up a stream that was cut; where that is in vain, end the request that waits for it."""
        if exchange.resumes < _MAX_RESUMES and not isinstance(exchange.error, TooLarge):
            exchange.resumes += 1
            response = await self._exchanged(request, exchange, options)
            if response.is_success or response.status_code == _NO_ANSWER:
                return response
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(HTTPStatus.OK, headers=headers, content=_OVER, request=request)

    async def _exchanged(
        self, request: httpx2.Request, exchange: Exchange, options: dict[str, Any]
    ) -> httpx2.Response:
        seconds = self._allowed(request)
        if seconds is None and request.method == "POST":
            request.extensions["timeout"]["read"] = None  # silence is what the call's deadlines count
        try:
            with anyio.fail_after(seconds):
                response = await super().send(request, **options)
                return await self._kept(response, exchange)
        except TimeoutError:
            exchange.error = AnswerTooSlow(f"{seconds:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, TooLarge) as error:
            exchange.error = error
        return httpx2.Response(_NO_ANSWER, request=request)

    def _allowed(self, request: httpx2.Request) -> float | None:
        """Return the seconds that one exchange may take; None leaves it to the deadline of the phase."""
        if request.method == "GET":
            return None
        if request.method == "DELETE" or _asks_for(request, b"notifications/"):
            return min(_NOTICE_SECONDS, self._seconds)
        return self._call_seconds if _asks_for(request, b"tools/call") else self._seconds

    async def _kept(self, response: httpx2.Response, exchange: Exchange) -> httpx2.Response:
        exchange.status, exchange.headers = response.status_code, dict(response.headers)
        self._drop_unsendable_cookies()
        exchange.body = ""
        if not exchange.cut:  # what cut the stream counts more than that the next exchange went well
            exchange.error = None
        in_session = "mcp-session-id" in response.request.headers
        exchange.session_lost = in_session and response.status_code == HTTPStatus.NOT_FOUND
        kind = response.headers.get("content-type", "").lower()
        if response.is_success and kind.startswith("text/event-stream"):
            # A stream that answers no request ends when it likes, and is nobody's failure.
            told = exchange if response.request.method == "POST" or exchange.cut else Exchange()
            made = _remade(response, stream=EventBytes(response, self._limit, told))
            made.headers["content-type"] = "text/event-stream"  # always UTF-8, whatever charset it names
            return made
        try:
            if response.is_success and kind.startswith("application/json"):
                content = mended(_as_utf8(await _read_whole(response, self._limit)))
                exchange.body = content[:_BODY_KEPT].decode("utf-8", "replace")
                exchange.replies += 1
            else:
                content = mended(await _read_some(response))
                exchange.rpc_error = _is_rpc_error(content)
                exchange.body = content.decode("utf-8", "replace")[:_BODY_KEPT]
        finally:
            await response.aclose()
        return _remade(response, content=content)

    def _drop_unsendable_cookies(self) -> None:
        """Forget cookies that no header can hold: with one in the jar, no request could be made."""
        for cookie in list(self.cookies.jar):
            if not f"{cookie.name}{cookie.value}".isascii():
                self.cookies.jar.clear(cookie.domain, cookie.path, cookie.name)


def _as_utf8(content: bytes) -> bytes:
    content = content.removeprefix(BOM_UTF8)
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode("utf-8", "replace").encode()
    return content


async def _read_whole(response: httpx2.Response, limit: int) -> bytes:
    """Read an answer here, where one that breaks off costs this request alone.

    Raises:
        TooLarge: It has more than `limit` bytes once it is decoded.
    """
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > limit:
            raise TooLarge("an answer", limit, len(content))
    return bytes(content)


async def _read_some(response: httpx2.Response) -> bytes:
    """Read the beginning of an error's body."""
    body = b""
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= _BODY_READ:
                break
    except httpx2.HTTPError:
        pass  # what came before it broke off is still worth showing
    return body


def _asks_for(request: httpx2.Request, rpc: bytes) -> bool:
    """Whether the JSON-RPC method of a message begins so."""
    return b'"method":"' + rpc in request.read()[:100]


def _is_rpc_error(body: bytes) -> bool:
    try:
        answer = from_json(body)  # json.loads has no limit of its own for what is nested
    except ValueError:
        return False
    return isinstance(answer, dict) and isinstance(answer.get("error"), dict)


def _remade(response: httpx2.Response, **content: Any) -> httpx2.Response:
    """Return the same answer around content that is decoded already.

    Headers that are not ASCII are left out: they cannot be written again, nor sent back.
    """
    headers = {
        name: value
        for name, value in response.headers.items()
        if name.lower() in _KEPT_HEADERS and value.isascii()
    }
    made = httpx2.Response(response.status_code, headers=headers, request=response.request, **content)
    made.next_request = response.next_request
    return made


def _pause(response: httpx2.Response, exchange: Exchange) -> float | None:
    """Return the seconds to wait before a refused request is sent again, None to leave it.

    A server that answers 429 has not begun with the request, whatever the request does.
    """
    if response.status_code != HTTPStatus.TOO_MANY_REQUESTS or exchange.deadline is None:
        return None
    end, seconds = exchange.deadline.when(), retry_after(response.headers.get("retry-after", ""))
    if seconds is None or end is None or asyncio.get_running_loop().time() + seconds >= end:
        return None
    return seconds


def retry_after(text: str) -> float | None:
    """Return the seconds that a `Retry-After` header asks for, None if it says nothing usable."""
    if text.strip().isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
