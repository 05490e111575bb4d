"""The configured servers together with their synced tools."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import attrs

from pflow_mcp_plugin.config.locations import server_file, tool_folder
from pflow_mcp_plugin.config.project_file import ProjectFile
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Paths, PflowError
from pflow_mcp_plugin.discovery.catalog import Catalog


@attrs.frozen(kw_only=True)
class Servers:
    """The configured servers together with the results of their last syncs.

    Attributes:
        store: The config.
        catalog: The results of the syncs.
    """

    store: ServerStore
    catalog: Catalog


def servers(paths: Paths) -> Servers:
    """Return the configured servers and their synced tools below these folders, the same object each time.

    Both parts cache what they read until a file changes, so that compiling and running a workflow
    read each file once in total.
    """
    return _servers(paths)


@lru_cache(maxsize=1)
def _servers(paths: Paths) -> Servers:
    store = ServerStore(server_file(paths), ProjectFile(paths))

    def apart() -> Mapping[str, Path]:
        try:
            return store.project_folders()
        except PflowError:  # the config is corrupt; who needs it says so
            return {}

    return Servers(store=store, catalog=Catalog(tool_folder(paths), apart=apart))
