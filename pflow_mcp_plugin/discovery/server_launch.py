"""From a server's name to what a pool needs to start or reach it."""

from __future__ import annotations

from pflow_mcp_plugin.config.expansion import Lookup, expand
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.discovery.catalog import Catalog
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.exchange import Launch


def launch(name: str, store: ServerStore, catalog: Catalog, lookup: Lookup) -> Launch:
    """Return a server ready to be started, with the era it spoke when it was last synced.

    Raises:
        McpError: There is none of that name.
        McpError: It is disabled, its table has mistakes, or a variable is not set.
    """
    server = store.get(name)
    if server.disabled:
        raise McpError(
            f"Server {name} is disabled",
            where=Where(server=name, phase="config"),
            next_step=f"Take `disabled` out of [mcpServers.{name}] in {store.path}",
            kind="config",
        )
    fingerprint = store.fingerprint(name)
    return expand(server, lookup, fingerprint=fingerprint, era=catalog.era(name, fingerprint))
