"""Which hosts and addresses may be connected to; decisions only, nothing is looked up or connected here.

A host is judged when its URL is known (`refusal_of_url`), and each address behind it when it has been
looked up (`refusal_of_address`). What is public may be connected to unless `[network]` says otherwise;
what is not public must be named in the config, as the host of a server's URL or in `allow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.trust.addresses import (
    address_of,
    canonical,
    contains,
    is_loopback,
    reached,
    special_kind,
)
from pflow_mcp_plugin.types import Server

if TYPE_CHECKING:
    from pflow_mcp_plugin.trust.addresses import Address

_UNDENY = "remove that from deny in [network] if the host is needed"


@attrs.frozen(kw_only=True)
class Refusal:
    """Why egress to a host is refused.

    Attributes:
        message: Server, host, address and the rule, in a sentence.
        next_step: What to do if the connection is intended.
        host: The host.
        address: Its address, empty if the host itself is refused.
    """

    message: str
    next_step: str
    host: str
    address: str = ""


def plain_http_host(url: str) -> str:
    """Return the host of a URL that uses plain http over a network, else an empty string.

    A URL whose host still has to be expanded passes.
    """
    if not url.lower().startswith("http://"):
        return ""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # an invalid address, such as http://[::1
        return url
    return "" if "${" in host or is_loopback(host) else host


def advise(server: Server) -> Problem | None:
    """Return a warning for a server that is being added if pflow will not connect to its URL."""
    scheme, _, rest = server.url.partition("://")
    if not server.url or "${" in scheme + rest.partition("/")[0]:
        return None  # judged once it is expanded
    refusal = refusal_of_url(server, server.url)
    if refusal is None:
        return None
    return Problem(
        message=f"{refusal.message}; pflow will not connect to it",
        path=f"mcpServers.{server.name}.url",
        suggestion=refusal.next_step,
        severity="warning",
        kind="config",
    )


def require_safe(server: Server) -> None:
    """Refuse to connect to a server whose URL, which must be expanded, is not allowed.

    Raises:
        McpError: It uses plain http to another machine and `insecure` is not set, or its host is not allowed.
    """
    if server.url:
        require_url(server, server.url)


def require_url(server: Server, url: str) -> None:
    """Refuse a URL that belongs to a server: its own, or one that it names, such as that of its metadata.

    Raises:
        McpError: pflow must not send anything there.
    """
    refusal = refusal_of_url(server, url)
    if refusal is not None:
        raise McpError(
            refusal.message,
            where=Where(server=server.name, phase="connect"),
            next_step=refusal.next_step,
            kind="config",
            host=refusal.host,
            address=refusal.address,
        )


def refusal_of_url(server: Server, url: str) -> Refusal | None:
    """Return why nothing may be sent to a URL on behalf of a server, None if it is allowed.

    Args:
        server: The server, with an expanded URL.
        url: Its URL or a further one: of a redirect, an SSE endpoint, authorization or metadata.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        which = "its url" if url == server.url else "a URL that it refers to"  # which may contain a secret
        return _refused(server, f"{which} is not an http or https address", "correct its url", host)
    if parts.scheme == "http" and server.tls_pins:
        step = f"use https, or remove tls_pins of server {server.name}"
        return _refused(server, f"plain http to {host} cannot be checked against its tls_pins", step, host)
    return _refusal_of_plain_http(server, url) or _refusal_of_host(server, canonical(host))


def refusal_of_address(server: Server, host: str, address: str) -> Refusal | None:
    """Return why a host must not be connected to at one of its addresses, None if it may.

    Args:
        server: The server.
        host: A host of an allowed URL.
        address: An address that was found for it.
    """
    host, found = canonical(host), address_of(address)
    if found is None:
        return _refused(server, f"host {host} has the address {address}, which is invalid", "", host, address)
    denied = _matching(server.network.deny, str(found), found)
    if denied:
        what = f'host {host} has the address {found}, denied by deny = ["{denied}"] in [network]'
        return _refused(server, what, _UNDENY, host, str(found))
    if is_loopback(host):
        return (
            None
            if "loopback" in map(special_kind, reached(found))
            else _refusal_of_stray(server, host, found)
        )
    is_written = host == str(found) and host in _written_hosts(server)
    kind = "" if is_written else _unnamed_kind(server, found)
    if not kind:
        return None
    what = f"host {host} has the {kind} address {found}, which the config does not name"
    step = f'if that is intended, add "{found}" to allow in [network], or write the address in its url'
    return _refused(server, what, step, host, str(found))


def allowed_addresses(
    server: Server, host: str, addresses: Iterable[str]
) -> tuple[list[str], Refusal | None]:
    """Return those of a host's addresses that egress is allowed to, and the first refusal, if any."""
    allowed: list[str] = []
    first: Refusal | None = None
    for address in addresses:
        refusal = refusal_of_address(server, host, address)
        if refusal is None:
            allowed.append(address)
        first = first or refusal
    return allowed, first


def _refusal_of_plain_http(server: Server, url: str) -> Refusal | None:
    host = plain_http_host(url)
    if not host:
        return None
    if server.insecure and canonical(host) == _own_host(server):
        return None
    return Refusal(
        message=f"Server {server.name} uses plain http to {host}: "
        "anyone on the network path can read everything, including tokens",
        next_step=f"Use https, or set insecure = true for server {server.name}",
        host=host,
    )


def _refusal_of_host(server: Server, host: str) -> Refusal | None:
    rules, address = server.network, address_of(host)
    denied = _matching(rules.deny, host, address)
    if denied:
        what = f'host {host} is denied by deny = ["{denied}"] in [network]'
        return _refused(server, what, _UNDENY, host)
    allowed = _matching(rules.allow, host, address)
    if rules.policy == "registered" and not allowed and host not in _written_hosts(server, own=False):
        what = f'host {host} is not registered, as policy = "registered" in [network] requires'
        return _refused(server, what, f'if you trust it, add "{host}" to allow in [network]', host)
    if is_loopback(host) and not (is_loopback(_own_host(server)) or _is_named(rules.allow, host, address)):
        what = f"host {host} is this machine, but the server's own host is not"
        return _refused(server, what, f'if that is intended, add "{host}" to allow in [network]', host)
    return None if address is None else refusal_of_address(server, host, host)


def _refusal_of_stray(server: Server, host: str, address: Address) -> Refusal:
    what = f"host {host} has the address {address}, which does not belong to this machine"
    step = "correct the entry for this name in the hosts file or in DNS"
    return _refused(server, what, step, host, str(address))


def _refused(server: Server, what: str, step: str, host: str, address: str = "") -> Refusal:
    message = f"Server {server.name}: {what}; nothing was sent"
    return Refusal(message=message, next_step=step, host=host, address=address)


def _own_host(server: Server) -> str:
    try:
        return canonical(urlsplit(server.url).hostname or "")
    except ValueError:
        return ""


def _written_hosts(server: Server, *, own: bool = True) -> set[str]:
    """Return the hosts that the config writes in URLs, and that of the server's own expanded URL."""
    return {*map(canonical, server.network.hosts), *([_own_host(server)] if own else [])}


def _is_named(entries: Iterable[str], host: str, address: Address | None) -> bool:
    """Whether `allow` names a host of loopback itself, not by a glob."""
    return any(
        entry.lower() == host or (address is not None and contains(entry, address)) for entry in entries
    )


def _unnamed_kind(server: Server, address: Address) -> str:
    """Return what an address is if it is neither public nor named by `allow`, else an empty string."""
    for form in reached(address):
        kind = special_kind(form)
        if kind and not any(contains(entry, form) for entry in server.network.allow):
            return kind
    return ""


def _matching(entries: Iterable[str], host: str, address: Address | None) -> str:
    """Return the first entry of `allow` or `deny` that matches a host or its address, `""` if none does."""
    from fnmatch import fnmatchcase

    addresses = [] if address is None else [address, *reached(address)]
    names = [host, *map(str, addresses)]
    for entry in entries:
        glob = entry.lower().rstrip(".")
        if any(fnmatchcase(name, glob) for name in names):
            return entry
        if any(contains(entry, each) for each in addresses):
            return entry
    return ""
