"""The rules for egress: which URLs, hosts and addresses may be connected to. Decisions only: no look-up.

A host is judged when its URL is known (`refusal_of_url`), and each address behind it when it has been
looked up (`refusal_of_address`). What is public may be connected to unless `[network]` says otherwise;
what is not public must be named in the config, as the host of a server's URL or in `allow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from pflow_mcp_plugin.contract import NetworkRules

    Address = IPv4Address | IPv6Address

RESOURCE = "network"
"""The key of a run's resources with the function that returns its `NetworkRules`."""
_PORTS = {"http": 80, "https": 443}
_UNDENY = "remove that from deny in [network] if the host is needed"
_UP_TO = ", with a / before any template, in a workflow that you run yourself"
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


class Endpoint(Protocol):
    """What the rules for egress apply to, such as a configured server: its URL and what its config allows."""

    @property
    def owner(self) -> str:
        """What messages about egress call the endpoint, such as `server files`."""

    @property
    def url(self) -> str: ...

    @property
    def network(self) -> NetworkRules: ...

    @property
    def insecure(self) -> bool:
        """Whether rules for egress let an endpoint use plain http to its host on another machine."""

    @property
    def tls_pins(self) -> tuple[str, ...] | str: ...  # SHA-256 of keys in base64, or a file of them

    @property
    def ca_bundle(self) -> str:
        """The file or folder of the only CAs trusted for egress to this endpoint; empty for the system's."""

    @property
    def client_cert(self) -> tuple[str, ...]: ...  # a file with certificate and key, or one for each


class Refusal(NamedTuple):
    """Why egress to a host is refused, and what to do if it is intended."""

    message: str
    next_step: str
    host: str
    address: str = ""  # empty if the host itself is refused


class HostRefused(Exception):
    """Egress to a host, or to every address found for it, is not allowed; nothing was sent."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal

    def __str__(self) -> str:
        return self.refusal.message


def plain_http_host(url: str) -> str:
    """For the network's egress rule on plain http: return the host that a URL reaches by it, or empty.

    A URL whose host still has to be expanded passes.
    """
    if not url.lower().startswith("http://"):
        return ""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # an invalid address, such as http://[::1
        return url
    return "" if "${" in host or is_loopback(host) else host


def origin_of(url: str) -> tuple[str, str, int | None] | None:
    """Return the origin of a URL that egress goes to (RFC 6454), None for an invalid address."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # such as a port that is too large
        return None


def is_same_origin(one: str, other: str) -> bool:
    """Whether egress to two URLs is to the same origin (RFC 6454), however they are spelled."""
    origin = origin_of(one)
    return origin is not None and origin == origin_of(other)


def refusal_of_url(endpoint: Endpoint, url: str) -> Refusal | None:
    """Return why an endpoint may not send anything to a URL, None if it may."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        which = "its url" if url == endpoint.url else "a URL that it refers to"  # which may contain a secret
        return _refused(endpoint, f"{which} is not an http or https address", "correct its url", host)
    if parts.scheme == "http" and endpoint.tls_pins:
        step = f"use https, or remove tls_pins of {endpoint.owner}"
        return _refused(endpoint, f"plain http to {host} cannot be checked against its tls_pins", step, host)
    exposed = plain_http_host(url)
    if exposed and not (endpoint.insecure and canonical(exposed) == _own_host(endpoint)):
        return Refusal(
            message=f"{_capitalized(endpoint.owner)} uses plain http to {exposed}: "
            "anyone on the network path can read everything, including tokens",
            next_step=f"Use https, or set insecure = true for {endpoint.owner}",
            host=exposed,
        )
    return _refusal_of_host(endpoint, canonical(host))


def refusal_of_address(endpoint: Endpoint, host: str, address: str) -> Refusal | None:
    """Return why an endpoint may not connect to a host at this address, None if it may."""
    host, found = canonical(host), address_of(address)
    if found is None:
        return _refused(
            endpoint, f"host {host} has the address {address}, which is invalid", "", host, address
        )
    denied = _matching(endpoint.network.deny, str(found), found)
    if denied:
        what = f'host {host} has the address {found}, denied by deny = ["{denied}"] in [network]'
        return _refused(endpoint, what, _UNDENY, host, str(found))
    if is_loopback(host):
        if "loopback" in map(special_kind, reached(found)):
            return None
        what = f"host {host} has the address {found}, which does not belong to this machine"
        step = "correct the entry for this name in the hosts file or in DNS"
        return _refused(endpoint, what, step, host, str(found))
    written = {_own_host(endpoint), *map(canonical, endpoint.network.hosts)}  # in URLs of the config
    allow = endpoint.network.allow
    unnamed = (form for form in reached(found) if not any(contains(entry, form) for entry in allow))
    kind = next(filter(None, map(special_kind, unnamed)), "")  # empty if public or allowed
    if not kind or (host == str(found) and host in written):
        return None
    what = f"host {host} has the {kind} address {found}, which the config does not name"
    step = f'if that is intended, add "{found}" to allow in [network], or write the address in its url'
    step += "" if _own_host(endpoint) else _UP_TO
    return _refused(endpoint, what, step, host, str(found))


def allowed_addresses(
    endpoint: Endpoint, host: str, addresses: Iterable[str]
) -> tuple[list[str], Refusal | None]:
    """Return the addresses among a host's that the rules allow, and the first refusal, if any."""
    judged = [(address, refusal_of_address(endpoint, host, address)) for address in addresses]
    allowed = [address for address, refusal in judged if refusal is None]
    return allowed, next(filter(None, (refusal for _, refusal in judged)), None)


def _refusal_of_host(endpoint: Endpoint, host: str) -> Refusal | None:
    rules, address = endpoint.network, address_of(host)
    denied = _matching(rules.deny, host, address)
    if denied:
        what = f'host {host} is denied by deny = ["{denied}"] in [network]'
        return _refused(endpoint, what, _UNDENY, host)
    allowed = _matching(rules.allow, host, address)
    if rules.policy == "registered" and not allowed and host not in map(canonical, rules.hosts):
        what = f'host {host} is not registered, as policy = "registered" in [network] requires'
        return _refused(endpoint, what, f'if you trust it, add "{host}" to allow in [network]', host)
    # `allow` must name a host of this machine literally, not by a glob.
    is_named = any(
        entry.lower() == host or (address is not None and contains(entry, address)) for entry in rules.allow
    )
    if is_loopback(host) and not (is_named or is_loopback(_own_host(endpoint))):
        named, write = "but its own host is not", ""
        if not _own_host(endpoint):
            named = "which neither allow names nor, in a run of your own, its url as written up to a /"
            write = f", or write it in the url{_UP_TO}"
        what = f"host {host} is this machine, {named}"
        step = f'if that is intended, add "{host}" to allow in [network]{write}'
        return _refused(endpoint, what, step, host)
    return None if address is None else refusal_of_address(endpoint, host, host)


def _refused(endpoint: Endpoint, what: str, step: str, host: str, address: str = "") -> Refusal:
    message = f"{_capitalized(endpoint.owner)}: {what}; nothing was sent"
    return Refusal(message=message, next_step=step, host=host, address=address)


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _own_host(endpoint: Endpoint) -> str:
    try:
        return canonical(urlsplit(endpoint.url).hostname or "")
    except ValueError:
        return ""


def _matching(entries: Iterable[str], host: str, address: Address | None) -> str:
    from fnmatch import fnmatchcase

    addresses = [] if address is None else [address, *reached(address)]
    for entry in entries:
        glob = entry.lower().rstrip(".")
        if any(fnmatchcase(name, glob) for name in (host, *map(str, addresses))):
            return entry
        if any(contains(entry, each) for each in addresses):
            return entry
    return ""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address alone: these rules look nothing up."""
    # Names below `.localhost` are loopback too (RFC 6761, section 6.3).
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = address_of(name)
    return address is not None and address.is_loopback


def canonical(host: str) -> str:
    """Return a host as rules for egress compare it: lower case, ASCII, addresses normalised."""
    name = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    address = address_of(name)
    if address is not None:
        return str(address)
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return name


def contains(entry: str, address: Address) -> bool:
    """Whether an entry of `allow` or `deny` for egress is this address, or a network that contains it."""
    from ipaddress import ip_network

    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return False
    return address in network


def address_of(text: str) -> Address | None:
    """Return the IP address in a text, None if it is not one."""
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
        if address in ip_network("64:ff9b::/96"):  # RFC 6052: the last 32 bits are an IPv4 address
            yield IPv4Address(int(address) & 0xFFFF_FFFF)
            return
        if address.sixtofour is not None:
            yield address.sixtofour
    yield address


def special_kind(address: Address) -> str:
    """Return why the rules for egress do not count an address as public, such as `loopback`; else empty."""
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
