"""Connections to addresses that the rules for egress allow.

A host is looked up once for each connection, and what is connected to are the addresses that were
checked: a name that changes in between changes nothing. TLS still verifies the name of the host.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import anyio
import attrs
import httpcore2

from pflow_mcp_plugin.client.request_failures import HostRefused, KeyNotPinned
from pflow_mcp_plugin.client.transport.key_pins import pin_of
from pflow_mcp_plugin.trust import egress
from pflow_mcp_plugin.types import Server

_HEAD_START = 0.25
"""Seconds that an address has before the next one is tried beside it (RFC 8305, section 5)."""


@attrs.frozen(kw_only=True)
class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """The network of one server's connections, to checked addresses only.

    Attributes:
        server: The server, with its rules.
        pins: The keys that it may have; empty for any.
        context: The TLS context of connections to it. A proxy has another, and its key is not pinned.
        proxied: Whether connections lead to a proxy of the environment, which may be anywhere.
    """

    server: Server
    pins: frozenset[str]
    context: ssl.SSLContext
    proxied: bool = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Look a host up, check its addresses and connect to the first that answers.

        Raises:
            HostRefused: None of its addresses is allowed.
            httpcore2.ConnectError: It was not found, or no address answers.
            httpcore2.ConnectTimeout: That took longer than `timeout` seconds.
        """

        async def connected(address: str) -> httpcore2.AsyncNetworkStream:
            return await httpcore2.AnyIOBackend().connect_tcp(
                address, port, local_address=local_address, socket_options=socket_options
            )

        try:
            with anyio.fail_after(timeout):
                stream = await _first(await self._addresses(host, port), connected)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        return _PinnedStream(stream, self) if self.pins else stream

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        places = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys(str(place[0]) for *_, place in places))
        if self.proxied:
            return found
        allowed, refusal = egress.allowed_addresses(self.server, host, found)
        if refusal is not None and not allowed:
            raise HostRefused(refusal)
        return allowed


async def _first(
    addresses: Sequence[str], connected: Callable[[str], Awaitable[httpcore2.AsyncNetworkStream]]
) -> httpcore2.AsyncNetworkStream:
    """Return a stream to the first address that answers; each next one is tried a little later.

    Raises:
        OSError: None answers; it says what the last one did.
    """
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
            with anyio.move_on_after(_HEAD_START):
                await over.wait()
    for extra in streams[1:]:  # two may have answered in the same turn
        await extra.aclose()
    if not streams:
        raise errors[-1] if errors else OSError("there is no address")
    return streams[0]


class _PinnedStream(httpcore2.AsyncNetworkStream):
    """A stream whose TLS handshake also requires a pinned key."""

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
