"""Turns the name of a server into the `Launch` that a pool needs to connect to it."""

from __future__ import annotations

import attrs

from pflow_mcp_plugin.config.expansion import Lookup, expand
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.discovery.catalog import Catalog
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.exchange import Launch


def launch(name: str, store: ServerStore, catalog: Catalog, lookup: Lookup) -> Launch:
    """Return the `Launch` of a server by its name, with the protocol era of its last sync.

    Args:
        name: The server's name.
        store: The config of the servers.
        catalog: The results of their last syncs.
        lookup: Returns the values of variables.

    Raises:
        McpError: The server is not configured.
        McpError: It is disabled, its table has mistakes, or a variable is not set.
    """
    server = store.get(name)
    if server.disabled:
        raise McpError(
            f"Server {name} is disabled",
            where=Where(server=name, phase="config"),
            next_step=store.enabling_step(name),
            kind="config",
        )
    fingerprint = store.fingerprint(name)
    ready = expand(server, lookup, fingerprint=fingerprint, era=catalog.era(name, fingerprint))
    return attrs.evolve(ready, config_file=store.file_of(name))


def with_startup_timeout(ready: Launch, seconds: float | None) -> Launch:
    """Return a launch whose server has so long to start, None for as long as its config says."""
    if seconds is None:
        return ready
    return attrs.evolve(ready, server=attrs.evolve(ready.server, startup_timeout=seconds))
