"""Servers as one value: their config, their stored tools and their pins; and one ready to be started.

The commands `pflow mcp` get all that they work with here, for the host in which they run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.catalog.tool_catalog import Catalog, forget_failure
from pflow_mcp_plugin.config.locations import (
    pin_folder,
    project_file,
    server_file,
    sign_in_folder,
    stderr_folder,
    tool_folder,
)
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import McpError, Where

if TYPE_CHECKING:
    from pflow_mcp_plugin.client import Pool
    from pflow_mcp_plugin.client.kept_servers import KeptServers
    from pflow_mcp_plugin.config.expansion import Lookup
    from pflow_mcp_plugin.config.project_file import ProjectFile
    from pflow_mcp_plugin.contract import Host, Paths
    from pflow_mcp_plugin.contract.json_types import JSONObject
    from pflow_mcp_plugin.exchange import Launch
    from pflow_mcp_plugin.trust.pins import Pins


class Servers:
    """The servers as one value: their config, their stored tools, and the folder of the user's pins."""

    def __init__(self, *, store: ServerStore, catalog: Catalog, pin_folder: Path) -> None:
        self.store = store
        self.catalog = catalog
        self.pin_folder = pin_folder
        self.kept: KeptServers | None = None  # connections that outlive a run of this process

    def forget(self, server: str, begin: Callable[[], bool]) -> bool:
        """Forget one of these servers, with its tools and pins, unless the user's own config (still) has it.

        `begin` is called while no sync stores anything of it, removes it from the config or looks at it,
        and returns whether to go on. Returns whether the server was synced.
        """
        from pflow_mcp_plugin.trust.pins import Pins

        with self.catalog.locked(server) as path:
            if not begin():
                return False
            was_synced = path.exists()
            storage.remove(path, is_locked=True)
            Pins(self.pin_folder).forget(server)  # a project's server may now have the name
            forget_failure(path.parent, server)
        return was_synced

    @property
    def pins(self) -> Pins:
        from pflow_mcp_plugin.trust.pins import Pins  # not needed to list or look up

        return Pins(self.pin_folder, self.catalog.apart)


@lru_cache(maxsize=1)
def servers(paths: Paths) -> Servers:
    """Return all servers as one value, with config, stored tools and pins; the same for the same folders.

    Both parts cache what they read until a file changes, so that compiling and running a workflow
    read each file once in total.
    """

    def project() -> ProjectFile | None:
        # Most folders have none, unless the user asked for it.
        if paths.project is None and not os.path.lexists(project_file(paths)):
            return None
        return known_project()

    @cache
    def known_project() -> ProjectFile:
        from pflow_mcp_plugin.config.project_file import ProjectFile

        return ProjectFile(paths)

    def apart() -> Mapping[str, Path]:
        try:
            return store.project_folders()
        except PflowError:  # the config is corrupt; whoever needs it reports that
            return {}

    def renames(server: str) -> Mapping[str, str]:
        try:
            return store.get(server).rename
        except PflowError:  # it is not configured, or its config is corrupt
            return {}

    store = ServerStore(server_file(paths), project)
    catalog = Catalog(tool_folder(paths), renames=renames, apart=apart)
    return Servers(store=store, catalog=catalog, pin_folder=pin_folder(paths))


def launch(name: str, store: ServerStore, catalog: Catalog, lookup: Lookup) -> Launch:
    """Return one server ready to be started: its config, expanded, and the protocol era of its last sync.

    Raises `McpError` if it is not configured or disabled, has mistakes, or a variable is not set.
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
    from pflow_mcp_plugin.config.expansion import expand

    synced = catalog.current(name, fingerprint)
    ready = expand(server, lookup, fingerprint=fingerprint, era=synced.info.era if synced else None)
    ready = attrs.evolve(ready, config_file=store.file_of(name))
    return attrs.evolve(ready, program=synced.program, synced=synced.manifest_hash) if synced else ready


def with_startup_timeout(ready: Launch, seconds: float | None) -> Launch:
    """Return a server ready to be started with this startup timeout; None keeps that of its config."""
    if seconds is None:
        return ready
    return attrs.evolve(ready, server=attrs.evolve(ready.server, startup_timeout=seconds))


def server_store(host: Host, *, duplicates: bool = False) -> ServerStore:
    """Of the servers of a host, return the store, and report its warnings to the host."""
    store = servers(host.paths).store
    for problem in store.notices(duplicates=duplicates):
        host.report(problem)
    return store


def catalog(host: Host) -> Catalog:
    """Of the servers of a host, return the catalog: what was synced of each."""
    return servers(host.paths).catalog


def pins(host: Host) -> Pins:
    """Of the servers of a host, return one value of all pins: what was approved of each."""
    return servers(host.paths).pins


def open_pool(host: Host) -> Pool:
    """For the servers of a host, return a new pool, which reports its warnings; the caller closes it."""
    from pflow_mcp_plugin.client import Pool
    from pflow_mcp_plugin.contract import Problem

    return Pool(
        lambda line: host.report(Problem(message=line, severity="warning", kind="connection", source="mcp")),
        stderr_folder=stderr_folder(host.paths),
        sign_in_folder=sign_in_folder(host.paths),
    )


def approve_launches(host: Host, names: Iterable[str], *, new: Iterable[str] = ()) -> None:
    """Of the servers of a host, approve the launches of those that a command wrote or showed.

    The names in `new` were free: what is left of former servers with these names is deleted first.
    """
    for name in new:
        _forget_former(host, name)
    for name in names:
        with suppress(storage.CorruptFile):  # the next sync refuses it
            pins(host).approve_launch(name, current_launch(host, name))


def current_launch(host: Host, name: str) -> JSONObject:
    """Of the servers of a host, return the identity of one's launch, by its current config and variables."""
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
    """Delete the stderr files of one of a host's servers, as it is removed or another gets its name."""
    from shutil import rmtree

    rmtree(stderr_folder(host.paths) / naming.server_name(name), ignore_errors=True)


def lookup(host: Host) -> Lookup:
    """For the servers of a host, return what looks up variables: in the environment, then in settings."""
    from pflow_mcp_plugin.config.expansion import VariableLookup

    return VariableLookup(host.settings)
