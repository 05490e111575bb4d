"""The streamable HTTP transport: the SDK's, over an HTTP client that keeps what the SDK drops.

A network error becomes an error answer to the one request it hit, so that its neighbours on the
connection are unharmed; status, headers and body of every answer are kept in the `Exchange`.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from pflow_mcp_plugin.client.exchange import current
from pflow_mcp_plugin.types import Server

_BODY_KEPT = 2000
"""Characters of an error body that are kept."""
_BODY_READ = 64 * 1024
"""Bytes of an error body that are read."""
_NO_ANSWER = 599
"""Stands for an answer that never came; no server sends it."""
_MIB = 1 << 20


class KeepingClient(httpx2.AsyncClient):
    """An HTTP client that notes every answer and turns network errors into answers."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request; the answer 599 stands for a network error, kept in the `Exchange`."""
        exchange = current.get()
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if exchange is not None:
                exchange.error = error
            return httpx2.Response(_NO_ANSWER, request=request)
        if exchange is not None:
            exchange.status, exchange.headers = response.status_code, dict(response.headers)
        kind = response.headers.get("content-type", "").lower()
        if response.is_success and kind.startswith("text/event-stream"):
            return response
        if response.is_success and kind.startswith("application/json"):
            return await _read_whole(response)
        return await _keep_body(response)


async def _read_whole(response: httpx2.Response) -> httpx2.Response:
    """Read an answer here, where one that breaks off costs this request alone."""
    try:
        await response.aread()
    except httpx2.TransportError as error:
        await response.aclose()
        exchange = current.get()
        if exchange is not None:
            exchange.error = error
        return httpx2.Response(_NO_ANSWER, request=response.request)
    return response


async def _keep_body(response: httpx2.Response) -> httpx2.Response:
    """Read the beginning of an error's body, keep it, and hand on an answer that holds it."""
    body = b""
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= _BODY_READ:
                break
    except httpx2.HTTPError:
        pass  # what came before it broke off is still worth showing
    finally:
        await response.aclose()
    exchange = current.get()
    if exchange is not None:
        exchange.body = body.decode("utf-8", "replace")[:_BODY_KEPT]
    headers = {name: value for name, value in response.headers.items() if name.lower() in _KEPT_HEADERS}
    kept = httpx2.Response(response.status_code, headers=headers, content=body, request=response.request)
    kept.next_request = response.next_request
    return kept


_KEPT_HEADERS = {"content-type", "location", "retry-after", "www-authenticate", "mcp-session-id"}


def request_headers(server: Server) -> dict[str, str]:
    """Return the configured headers with the `auth` table turned into one more."""
    return {**server.headers, **_auth_header(server.auth)}


def _auth_header(auth: Any) -> dict[str, str]:
    kind = auth.get("type")
    if kind == "api_key":
        return {auth.get("header", "X-API-Key"): auth["key"]}
    if kind == "basic":
        pair = f"{auth['username']}:{auth['password']}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
    token = auth.get("token")
    return {"Authorization": f"Bearer {token}"} if token else {}


@asynccontextmanager
async def open_http(server: Server) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the read and the write stream of a session over streamable HTTP."""
    timeout = httpx2.Timeout(server.timeout, read=server.sse_timeout)
    async with (
        KeepingClient(headers=request_headers(server), timeout=timeout) as client,
        _streams(server, client) as streams,
    ):
        yield streams


def _streams(server: Server, client: httpx2.AsyncClient) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    return streamable_http_client(
        server.url, http_client=client, max_sse_event_size=int(server.max_line_mb * _MIB)
    )
