"""What the commands work with, made from the host's handle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pflow_mcp_plugin.config.store import ServerStore
from pflow_mcp_plugin.config.where import server_file, tool_folder
from pflow_mcp_plugin.contract import Host
from pflow_mcp_plugin.discovery.catalog import Catalog

if TYPE_CHECKING:
    from pflow_mcp_plugin.config.expansion import Lookup


def server_store(host: Host) -> ServerStore:
    """Return the config of the servers."""
    return ServerStore(server_file(host.paths))


def catalog(host: Host) -> Catalog:
    """Return what the last sync of each server found."""
    return Catalog(tool_folder(host.paths))


def lookup(host: Host) -> Lookup:
    """Return the lookup of variables, made when a server is reached."""
    from pflow_mcp_plugin.config.expansion import host_lookup

    return host_lookup(host)
