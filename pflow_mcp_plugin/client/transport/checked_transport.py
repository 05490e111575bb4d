"""Sends HTTP requests to checked hosts, directly or through the proxy of the environment."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore2
import httpx2

from pflow_mcp_plugin.client.request_failures import HostRefused
from pflow_mcp_plugin.client.transport.checked_network import CheckedNetwork
from pflow_mcp_plugin.client.transport.environment_proxies import proxy_for
from pflow_mcp_plugin.client.transport.key_pins import pins_of
from pflow_mcp_plugin.trust import egress
from pflow_mcp_plugin.trust.addresses import is_loopback
from pflow_mcp_plugin.types import Server

_IDLE_SECONDS = 5.0
"""How long an idle connection is kept."""
_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


class CheckedTransport(httpx2.AsyncBaseTransport):
    """The transport of one server's HTTP client: every URL is checked, and every address connected to.

    Through a proxy only the host in the URL can be checked, since the proxy looks it up.

    Args:
        server: The server, with its rules.
        context: The TLS context of connections to it.

    Raises:
        CertificatesUnreadable: The file with its pins cannot be read.
    """

    def __init__(self, server: Server, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._pins = pins_of(server)
        self._pools: dict[object, httpcore2.AsyncConnectionPool] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request over a checked connection, which is kept for further ones.

        Raises:
            HostRefused: The URL, or every address of its host, is not allowed.
            KeyNotPinned: The host has none of the pinned keys.
        """
        assert isinstance(request.stream, httpx2.AsyncByteStream)  # noqa: S101 - it belongs to an AsyncClient
        url = request.url
        place = (url.raw_scheme, url.raw_host, url.port)
        pool = self._pools.get(place)
        if pool is None:
            pool = self._pools[place] = self._pool(url)
        with _translated_errors():
            answer = await pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=_core_url(url),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        """Close all connections, checked as they were."""
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, url: httpx2.URL) -> httpcore2.AsyncConnectionPool:
        """Return the connections for an origin that was not asked for before, if it is allowed."""
        refusal = egress.refusal_of_url(self._server, f"{url.scheme}://{url.netloc.decode()}")
        if refusal is not None:
            raise HostRefused(refusal)
        # A proxy would see requests to this machine in plain text, and send them to its own loopback.
        proxy = "" if is_loopback(url.host) else proxy_for(url)
        network = CheckedNetwork(
            server=self._server, pins=self._pins, context=self._context, proxied=bool(proxy)
        )
        # No limit of connections: a call must not spend its deadline waiting for one.
        common: dict[str, Any] = {
            "ssl_context": self._context,
            "max_connections": None,
            "keepalive_expiry": _IDLE_SECONDS,
            "network_backend": network,
        }
        return _proxy_pool(proxy, common) if proxy else httpcore2.AsyncConnectionPool(**common)


def _proxy_pool(url: str, common: dict[str, Any]) -> httpcore2.AsyncConnectionPool:
    try:
        proxy = httpx2.Proxy(url)
        kind = httpcore2.AsyncSOCKSProxy if proxy.url.scheme.startswith("socks") else httpcore2.AsyncHTTPProxy
        return kind(proxy_url=_core_url(proxy.url), proxy_auth=proxy.raw_auth, **common)
    except (RuntimeError, ValueError) as error:  # the package for SOCKS is not installed; an unknown scheme
        raise httpx2.ProxyError(str(error)) from error


def _core_url(url: httpx2.URL) -> httpcore2.URL:
    return httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error  # their names are the same
    except ssl.SSLError as error:  # an alert after the handshake, which httpcore2 passes on
        raise httpx2.ReadError(str(error)) from error


class _Body(httpx2.AsyncByteStream):
    """The body of an answer over a checked connection."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated_errors():
            async for part in self._stream:
                yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
