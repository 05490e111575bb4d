"""The address and socket that the HTTP server listens on."""

from __future__ import annotations

import errno
import re
import socket
from ipaddress import ip_address

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.network.egress import is_loopback

ENDPOINT = "/mcp"
"""The path at which MCP is served."""

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[^:\[\]/\s]*)):(?P<port>\d{1,5})")
_PORTS = 65535
_BACKLOG = 256


@attrs.frozen(kw_only=True)
class ListeningAddress:
    """The host name or IP address and the port that the HTTP server listens on; port 0 picks a free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def is_wildcard(self) -> bool:
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def url(self, scheme: str = "http") -> str:
        return f"{scheme}://{spelled(self.host)}:{self.port}{ENDPOINT}"


def spelled(host: str) -> str:
    """Return the host of a listening address as URLs spell it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def parse_address(text: str) -> ListeningAddress:
    """Return the listening address that `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (on loopback) names."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _PORTS:
        message = f"{text!r} is not an address to listen on"
        raise PflowError(message, kind="usage", suggestions=("Write HOST:PORT, [IPV6]:PORT or :PORT",))
    return ListeningAddress(host=match["ipv6"] or match["host"] or "127.0.0.1", port=int(match["port"]))


def listen(address: ListeningAddress, *, shared: bool = False) -> tuple[socket.socket, ListeningAddress]:
    """Open the socket of a listening address; return it, and the address with the port that was chosen.

    If it is `shared`, other processes of the same user may listen there too; the system spreads connections.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise PflowError(f"Cannot listen on {address.host}: {error.strerror}", kind="usage") from error
    message = f"Cannot listen on {spelled(address.host)}:{address.port}"
    if shared and not hasattr(socket, "SO_REUSEPORT"):
        why = "several processes cannot share an address on this system"
        raise PflowError(f"{message}: {why}", kind="usage")
    opened = socket.socket(family, kind, protocol)  # without the protocol, asyncio would not set TCP_NODELAY
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setblocking(False)  # noqa: FBT003 -- positional only
        if shared:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(place)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        if error.errno != errno.EADDRINUSE:
            raise PflowError(f"{message}: {error.strerror}", kind="usage") from error
        step = "Choose another port" if shared else "Choose another port, or give each process --reuse-port"
        message = f"{message}: another program already does"
        raise PflowError(message, kind="usage", suggestions=(step,)) from error
    return opened, attrs.evolve(address, port=opened.getsockname()[1])
