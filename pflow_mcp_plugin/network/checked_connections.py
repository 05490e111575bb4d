"""HTTP connections only to hosts and addresses that were checked, directly or through a proxy.

A host is looked up once for each connection, and only the addresses that were checked are connected to: a
name that changes in between has no effect. TLS still verifies the name of the host.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.request import getproxies

import anyio
import attrs
import httpcore2
import httpx2

from pflow_mcp_plugin.network import egress
from pflow_mcp_plugin.network.certificates import KeyNotPinned, pin_of, pins_of
from pflow_mcp_plugin.network.egress import Endpoint, HostRefused, is_loopback

_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


class CheckedTransport(httpx2.AsyncBaseTransport):
    """The transport of an endpoint's HTTP client, which checks every URL and every address.

    Through a proxy only the host in the URL can be checked, since the proxy looks it up.
    """

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext) -> None:
        self._endpoint = endpoint
        self._context = context
        self._pins = pins_of(endpoint)
        self._pools: dict[object, httpcore2.AsyncConnectionPool] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
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
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, url: httpx2.URL) -> httpcore2.AsyncConnectionPool:
        """Return new connections to an origin, through its proxy if any; `HostRefused` if not allowed."""
        refusal = egress.refusal_of_url(self._endpoint, f"{url.scheme}://{url.netloc.decode()}")
        if refusal is not None:
            raise HostRefused(refusal)
        # A proxy would see requests to this machine in plain text, and send them to its own loopback.
        proxies = getproxies()
        proxy = "" if is_loopback(url.host) else chosen_proxy(url, proxies)
        variable = f"{url.scheme.upper() if proxies.get(url.scheme) else 'ALL'}_PROXY" if proxy else ""
        network = CheckedNetwork(
            endpoint=self._endpoint, pins=self._pins, context=self._context, proxy=variable
        )
        # No limit of connections: a call must not spend its deadline waiting for one.
        common: dict[str, Any] = {
            "ssl_context": self._context,
            "max_connections": None,
            "keepalive_expiry": 5.0,
            "network_backend": network,
        }
        if not proxy:
            return httpcore2.AsyncConnectionPool(**common)
        known = None
        with suppress(ValueError, httpx2.InvalidURL):  # their messages would show parts of a password
            known = httpx2.Proxy(proxy)
        if known is None or "@" in str(known.url):  # a password that is not escaped ends the host too early
            raise httpx2.ProxyError(f"{variable} is not a valid URL: write / as %2F, # as %23")
        try:
            is_socks = known.url.scheme.startswith("socks")
            kind = httpcore2.AsyncSOCKSProxy if is_socks else httpcore2.AsyncHTTPProxy
            return kind(proxy_url=_core_url(known.url), proxy_auth=known.raw_auth, **common)
        except RuntimeError as error:  # no package for SOCKS
            raise httpx2.ProxyError(str(error)) from error


async def sent(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """Send a request over a checked connection, and follow no redirect from it; the answer's body is unread.

    httpx2 would send headers such as `X-API-Key` to another host too.
    """
    response = await client.send(request, stream=True, follow_redirects=False)
    jar = client.cookies.jar
    for cookie in list(jar):
        if not f"{cookie.name}{cookie.value}".isascii():  # it would make every further request fail
            jar.clear(cookie.domain, cookie.path, cookie.name)
    return response


def _core_url(url: httpx2.URL) -> httpcore2.URL:
    return httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error  # both use the same names
    except ssl.SSLError as error:  # an alert after the handshake, which httpcore2 passes on
        raise httpx2.ReadError(str(error)) from error


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated_errors():
            async for part in self._stream:
                yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


@attrs.frozen(kw_only=True)
class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """The network behind an endpoint's connections, which connects to checked addresses only."""

    endpoint: Endpoint
    pins: frozenset[str]  # of the keys that the host may have; empty for any
    context: ssl.SSLContext  # of connections to it; a proxy has another, and its key is not pinned
    proxy: str = ""  # the variable with the proxy to which connections lead, which may be anywhere

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:

        async def connected(address: str) -> httpcore2.AsyncNetworkStream:
            return await httpcore2.AnyIOBackend().connect_tcp(
                address, port, local_address=local_address, socket_options=socket_options
            )

        try:
            with anyio.fail_after(timeout):
                places = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                allowed = list(dict.fromkeys(str(place[0]) for *_, place in places))
                if not self.proxy:
                    allowed, refusal = egress.allowed_addresses(self.endpoint, host, allowed)
                    if refusal is not None and not allowed:
                        raise HostRefused(refusal)
                stream = await _first(allowed, connected)
        except (OSError, httpcore2.ConnectError) as error:
            if self.proxy:
                raise httpcore2.ProxyError(f"no connection to the address in {self.proxy}") from error
            if isinstance(error, TimeoutError):
                raise httpcore2.ConnectTimeout(str(error)) from error
            raise httpcore2.ConnectError(str(error)) from error
        return _PinnedStream(stream, self) if self.pins else stream


async def _first(
    addresses: Sequence[str], connected: Callable[[str], Awaitable[httpcore2.AsyncNetworkStream]]
) -> httpcore2.AsyncNetworkStream:
    """Return a connection to the first checked address that answers; each next is tried a little later."""
    if len(addresses) == 1:
        return await connected(addresses[0])
    streams: list[httpcore2.AsyncNetworkStream] = []
    errors: list[OSError] = []

    async def attempt(address: str, over: anyio.Event) -> None:
        try:
            stream = await connected(address)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
            # httpcore2 drops the cause of its own exceptions, but not that of the exception behind them.
            errors.append(error.__cause__ if isinstance(error.__cause__, OSError) else OSError(str(error)))
            over.set()
        else:
            streams.append(stream)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for address in addresses:
            over = anyio.Event()
            tasks.start_soon(attempt, address, over)
            with anyio.move_on_after(0.25):  # RFC 8305, section 5
                await over.wait()
    for extra in streams[1:]:  # two may have answered in the same turn
        await extra.aclose()
    if not streams:
        raise errors[-1] if errors else OSError("there is no address")
    return streams[0]


class _PinnedStream(httpcore2.AsyncNetworkStream):
    """A connection to a checked address that also checks its key against the pins, in the TLS handshake."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, network: CheckedNetwork) -> None:
        self._stream = stream
        self._network = network

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore2's
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore2's
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's
    ) -> httpcore2.AsyncNetworkStream:
        secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        if ssl_context is not self._network.context:  # with a proxy; the server's own handshake comes inside
            return _PinnedStream(secured, self._network)
        pin = pin_of(secured.get_extra_info("ssl_object").getpeercert(binary_form=True))
        if pin not in self._network.pins:
            await secured.aclose()
            raise KeyNotPinned(server_hostname or "", pin)
        return secured


def chosen_proxy(url: httpx2.URL, proxies: Mapping[str, str]) -> str:
    """Return the proxy, of those in the environment, through which to connect to a URL; empty if directly."""
    proxy = proxies.get(url.scheme) or proxies.get("all") or ""
    if not proxy or any(_is_exempt(url, entry.strip()) for entry in proxies.get("no", "").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_exempt(url: httpx2.URL, entry: str) -> bool:
    # The entry is `*`, a domain, address or network, a scheme or port.
    scheme, has_scheme, rest = entry.lower().rpartition("://")
    if not rest or (has_scheme and scheme not in (url.scheme, "all")):
        return False
    if _is_within(url.host, rest):
        return True
    name, _, port = rest.rpartition(":")
    if not (name and port.isdigit()):
        name, port = rest, ""
    if port and int(port) != (url.port or {"http": 80, "https": 443}.get(url.scheme)):
        return False
    # `.example.com` and `*.example.com` mean only the hosts below it.
    domain = name.removeprefix("*").removeprefix(".")
    is_below = name == "*" or url.host.endswith(f".{domain}") or (url.host == domain == name)
    return is_below or _is_within(url.host, name)


def _is_within(host: str, network: str) -> bool:
    address, entry = egress.address_of(host), "/".join(part.strip("[]") for part in network.split("/"))
    return address is not None and egress.contains(entry, address)
