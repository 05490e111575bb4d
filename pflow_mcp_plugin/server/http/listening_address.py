"""The address that the HTTP server listens on."""

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
    """An address to listen on.

    Attributes:
        host: A name or IP address.
        port: 0 for any free one.
    """

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for all addresses of this machine."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def url(self, scheme: str = "http") -> str:
        """Return the URL of the MCP endpoint."""
        return f"{scheme}://{spelled(self.host)}:{self.port}{ENDPOINT}"


def spelled(host: str) -> str:
    """Return a host as a URL has it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def parse_address(text: str) -> ListeningAddress:
    """Return the address that `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (on loopback) names.

    Raises:
        PflowError: Kind `usage`: it is none of these.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _PORTS:
        message = f"{text!r} is not an address to listen on"
        raise PflowError(message, kind="usage", suggestions=("Write HOST:PORT, [IPV6]:PORT or :PORT",))
    return ListeningAddress(host=match["ipv6"] or match["host"] or "127.0.0.1", port=int(match["port"]))


def listen(address: ListeningAddress, *, shared: bool = False) -> tuple[socket.socket, ListeningAddress]:
    """Open the socket of an address.

    Args:
        address: The address.
        shared: Let other processes of the same user listen there too; the system spreads connections.

    Returns:
        The socket, and the address with the port that was chosen.

    Raises:
        PflowError: Kind `usage`: it is in use, not of this machine, or cannot be shared here.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise PflowError(f"Cannot listen on {address.host}: {error.strerror}", kind="usage") from error
    opened = socket.socket(family, kind, protocol)
    try:
        _prepare(opened, shared=shared)
        opened.bind(place)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise _not_listening(address, error, shared=shared) from error
    return opened, attrs.evolve(address, port=opened.getsockname()[1])


def _prepare(opened: socket.socket, *, shared: bool) -> None:
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.setblocking(False)  # noqa: FBT003 -- positional only
    if not shared:
        return
    if not hasattr(socket, "SO_REUSEPORT"):
        raise OSError(errno.ENOTSUP, "several processes cannot share an address on this system")
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def _not_listening(address: ListeningAddress, error: OSError, *, shared: bool) -> PflowError:
    place = f"{spelled(address.host)}:{address.port}"
    if error.errno != errno.EADDRINUSE:
        return PflowError(f"Cannot listen on {place}: {error.strerror}", kind="usage")
    step = "Choose another port" if shared else "Choose another port, or give each process --reuse-port"
    return PflowError(
        f"Cannot listen on {place}: another program already does", kind="usage", suggestions=(step,)
    )
