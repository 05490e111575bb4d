"""The configured servers together with their synced and approved tools."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import attrs

from pflow_mcp_plugin.config.locations import pin_folder, server_file, tool_folder
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Paths
from pflow_mcp_plugin.discovery.catalog import Catalog


@attrs.frozen(kw_only=True)
class Servers:
    """The configured servers together with the results of their last syncs.

    Attributes:
        store: The config.
        catalog: The results of the syncs.
        pin_folder: The folder of what was approved of them; see `pins`.
    """

    store: ServerStore
    catalog: Catalog
    pin_folder: Path


def servers(paths: Paths) -> Servers:
    """Return the configured servers and their synced tools below these folders, the same object each time.

    Both parts cache what they read until a file changes, so that compiling and running a workflow
    read each file once in total.
    """
    return _servers(server_file(paths), tool_folder(paths), pin_folder(paths))


@lru_cache(maxsize=1)
def _servers(config: Path, tools: Path, pins: Path) -> Servers:
    return Servers(store=ServerStore(config), catalog=Catalog(tools), pin_folder=pins)
