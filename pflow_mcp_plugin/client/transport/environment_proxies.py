"""The proxy that the environment names for a URL: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.request import getproxies

import httpx2


def proxy_for(url: httpx2.URL) -> str:
    """Return the URL of the proxy for a URL, an empty string if the host is reached directly."""
    return chosen_proxy(url, getproxies())


def chosen_proxy(url: httpx2.URL, proxies: Mapping[str, str]) -> str:
    """Return the URL of the proxy that the environment has chosen for a URL, `""` for none.

    Args:
        url: Where a request goes.
        proxies: As `urllib.request.getproxies` returns them: `http`, `https`, `all` and `no`.
    """
    proxy = proxies.get(url.scheme) or proxies.get("all") or ""
    if not proxy or any(_is_exempt(url, entry.strip()) for entry in proxies.get("no", "").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_exempt(url: httpx2.URL, entry: str) -> bool:
    """Whether an entry of `NO_PROXY` fits: `*`, a domain, an address or a network, with a scheme or port."""
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
    return _is_within(url.host, name) or _is_below(url.host, name)


def _is_within(host: str, network: str) -> bool:
    address, slash, size = network.partition("/")
    try:
        there = ip_network(address.strip("[]") + slash + size, strict=False)
        return ip_address(host) in there
    except ValueError:
        return False


def _is_below(host: str, domain: str) -> bool:
    """Whether a host is a domain or below it; `.example.com` and `*.example.com` mean only those below."""
    if domain == "*":
        return True
    name = domain.removeprefix("*").removeprefix(".")
    return host.endswith(f".{name}") or (host == name == domain)
