"""Whether pflow may connect to a configured server, or to a URL that it names."""

from __future__ import annotations

from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.network import egress
from pflow_mcp_plugin.types import Server


def advise(server: Server) -> Problem | None:
    """Return a warning if pflow may not connect to a configured server; None while its host is a variable."""
    scheme, _, rest = server.url.partition("://")
    if not server.url or "${" in scheme + rest.partition("/")[0]:
        return None  # judged once it is expanded
    refusal = egress.refusal_of_url(server, server.url)
    if refusal is None:
        return None
    message = f"{refusal.message}; pflow will not connect to it"
    return advice(f"{server_path(server.name)}.url", message, refusal.next_step)


def require_url(server: Server, url: str) -> None:
    """Raise an `McpError` if pflow may not connect to a configured server's URL, or one that it names."""
    refusal = egress.refusal_of_url(server, url)
    if refusal is not None:
        raise McpError(
            refusal.message,
            where=Where(server=server.name, phase="connect"),
            next_step=refusal.next_step,
            kind="config",
            host=refusal.host,
            address=refusal.address,
        )
