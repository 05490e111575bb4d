"""What a host or IP address is: this machine, public, private, or of special meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    Address = IPv4Address | IPv6Address

_METADATA = frozenset(
    {
        *("169.254.169.254", "fd00:ec2::254", "fd20:ce::254"),  # AWS, Azure, Google and others
        *("169.254.170.2", "169.254.170.23", "fd00:ec2::23"),  # credentials of containers on AWS
        *("100.100.100.200", "168.63.129.16", "192.0.0.192"),  # Alibaba, Azure, Oracle
    }
)
"""Where clouds hand out a machine's credentials; one of them is a public address."""
_NOT_PUBLIC = (
    "3fff::/20",  # documentation (RFC 9637)
    "192.0.0.0/24",  # for protocols (RFC 6890)
    "192.88.99.0/24",  # relays of 6to4, no longer in use (RFC 7526)
)
"""Ranges of IANA's registries of special-purpose addresses that not every Python knows to be special."""
_TRANSLATED = "64:ff9b::/96"
"""Addresses of NAT64 (RFC 6052): the last 32 bits are an IPv4 address."""


def is_loopback(host: str) -> bool:
    """Whether a URL's host is this machine, judged by its name or address alone."""
    # Names below `.localhost` are loopback too (RFC 6761, section 6.3).
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = address_of(name)
    return address is not None and address.is_loopback


def canonical(host: str) -> str:
    """Return a host in the form that can be compared: lower case, ASCII, addresses normalised."""
    name = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    address = address_of(name)
    if address is not None:
        return str(address)
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return name


def contains(entry: str, address: Address) -> bool:
    """Whether an entry of `allow` or `deny` is this address, or a network that contains it."""
    from ipaddress import ip_network

    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return False
    return address in network


def address_of(text: str) -> Address | None:
    """Return the IP address that a text is, None if it is not one."""
    from ipaddress import ip_address

    try:
        return ip_address(text)
    except ValueError:
        return None


def reached(address: Address) -> Iterator[Address]:
    """Yield the addresses that packets to an address may reach, such as an IPv4 address inside an IPv6 one.

    IPv4-mapped and NAT64 addresses only reach the IPv4 address; 6to4 addresses may be routed by either.
    """
    from ipaddress import IPv4Address, IPv6Address, ip_network

    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
            return
        if address in ip_network(_TRANSLATED):
            yield IPv4Address(int(address) & 0xFFFF_FFFF)
            return
        if address.sixtofour is not None:
            yield address.sixtofour
    yield address


def special_kind(address: Address) -> str:
    """Return what makes an address not public, such as `loopback`; an empty string if it is public."""
    if str(address) in _METADATA:
        return "cloud metadata"
    kinds = {
        "loopback": address.is_loopback,
        "unspecified": address.is_unspecified,
        "link-local": address.is_link_local,
        "multicast": address.is_multicast,
        "reserved": address.is_reserved,
        "private": not address.is_global
        or getattr(address, "is_site_local", False)
        or any(contains(network, address) for network in _NOT_PUBLIC),
    }
    return next((kind for kind, fits in kinds.items() if fits), "")
