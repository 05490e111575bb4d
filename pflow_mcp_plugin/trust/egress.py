"""Which URLs may be connected to: plain http to this machine only, unless `insecure` is set."""

from __future__ import annotations

from urllib.parse import urlsplit

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.types import Server

_WRONG = "uses plain http to {host}: everything, including tokens, can be read on the way"
_STEP = "Use https, or set insecure = true for server {name}"


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
    return "" if "${" in url.partition("://")[2].partition("/")[0] or is_loopback(host) else host


def advise(server: Server) -> Problem | None:
    """Return a warning for a server that is being added if its URL uses plain http over a network."""
    host = plain_http_host(server.url)
    if not host or server.insecure:
        return None
    return Problem(
        message=f"Server {server.name} {_WRONG.format(host=host)}; pflow will not connect to it",
        path=f"mcpServers.{server.name}.url",
        suggestion=_STEP.format(name=server.name),
        severity="warning",
        kind="config",
    )


def require_safe(server: Server) -> None:
    """Refuse to connect to a URL that uses plain http over a network; it must be expanded.

    Raises:
        McpError: Its URL is plain http to another machine, and `insecure` is not set.
    """
    host = plain_http_host(server.url)
    if host and not server.insecure:
        message = f"Server {server.name} {_WRONG.format(host=host)}"
        where = Where(server=server.name, phase="connect")
        raise McpError(message, where=where, next_step=_STEP.format(name=server.name), kind="config")


def is_loopback(host: str) -> bool:
    """Whether a URL's host is this machine, judged by its name or address alone."""
    from ipaddress import ip_address

    # Names below `.localhost` are loopback too (RFC 6761, section 6.3).
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
