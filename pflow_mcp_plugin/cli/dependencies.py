"""The objects that the commands work with, built from the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host
from pflow_mcp_plugin.discovery.catalog import Catalog
from pflow_mcp_plugin.discovery.servers import servers

if TYPE_CHECKING:
    from pflow_mcp_plugin.config.expansion import Lookup


def server_store(host: Host) -> ServerStore:
    """Return the config of the servers."""
    return servers(host.paths).store


def catalog(host: Host) -> Catalog:
    """Return the results of the last sync of each server."""
    return servers(host.paths).catalog


def lookup(host: Host) -> Lookup:
    """Return the lookup of variables; loads the expansion of references."""
    from pflow_mcp_plugin.config.expansion import host_lookup

    return host_lookup(host)
