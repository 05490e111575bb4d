"""The objects that the `pflow mcp` commands work with, built from the host: store, catalog, pins and pool."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.config.locations import sign_in_folder, stderr_folder
from pflow_mcp_plugin.discovery.servers import servers

if TYPE_CHECKING:
    from pflow_mcp_plugin.catalog.tool_catalog import Catalog
    from pflow_mcp_plugin.client import Pool
    from pflow_mcp_plugin.config.expansion import Lookup
    from pflow_mcp_plugin.config.server_store import ServerStore
    from pflow_mcp_plugin.contract import Host
    from pflow_mcp_plugin.contract.json_types import JSONObject
    from pflow_mcp_plugin.trust.pins import Pins


def server_store(host: Host, *, duplicates: bool = False) -> ServerStore:
    """Return the server store that commands work with, from the host, and report its warnings to the host."""
    store = servers(host.paths).store
    for problem in store.notices(duplicates=duplicates):
        host.report(problem)
    return store


def catalog(host: Host) -> Catalog:
    """Return the catalog of synced tools that `pflow mcp` commands work with."""
    return servers(host.paths).catalog


def pins(host: Host) -> Pins:
    """Return the pins for a command: what was approved of each server."""
    return servers(host.paths).pins


def open_pool(host: Host) -> Pool:
    """Return a new pool for a command, which closes it; the host reports its warnings."""
    from pflow_mcp_plugin.client import Pool
    from pflow_mcp_plugin.contract import Problem

    return Pool(
        lambda line: host.report(Problem(message=line, severity="warning", kind="connection", source="mcp")),
        stderr_folder=stderr_folder(host.paths),
        sign_in_folder=sign_in_folder(host.paths),
    )


def approve_launches(host: Host, names: Iterable[str], *, new: Iterable[str] = ()) -> None:
    """For several commands: approve, in the host's pins, the launches of servers that they wrote or showed.

    The names in `new` were free: what is left of former servers with these names is deleted first.
    """
    for name in new:
        _forget_former(host, name)
    for name in names:
        with suppress(storage.CorruptFile):  # the next sync refuses it
            pins(host).approve_launch(name, current_launch(host, name))


def current_launch(host: Host, name: str) -> JSONObject:
    """Return, for a command, the identity of a server's launch by the host's current config and variables."""
    from pflow_mcp_plugin.config.expansion import launch_variables
    from pflow_mcp_plugin.trust.launch_identity import launch_identity

    server = servers(host.paths).store.get(name)
    return launch_identity(server, launch_variables(server, lookup(host)))


def _forget_former(host: Host, name: str) -> None:
    known = servers(host.paths)
    forget_stderr(host, name)
    if not any(
        found for folder in (known.catalog.folder, known.pin_folder) for found in folder.glob(f"{name}.*")
    ):
        return
    known.catalog.head(name)  # sets a corrupt file aside, which takes the lock that `forget` holds
    known.forget(name, lambda: known.catalog.fingerprint_of(name) != known.store.fingerprint(name))


def forget_stderr(host: Host, name: str) -> None:
    """For several commands: delete a server's stderr files, as it is removed or another gets its name."""
    from shutil import rmtree

    rmtree(stderr_folder(host.paths) / naming.server_name(name), ignore_errors=True)


def lookup(host: Host) -> Lookup:
    """Return what looks up variables for a command: in the environment, then in the host's settings."""
    from pflow_mcp_plugin.config.expansion import VariableLookup

    return VariableLookup(host.settings)
