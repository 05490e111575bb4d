"""Every store of pflow as something that takes changes, and a program that makes many of them.

`python store_kinds.py STORE write NAME COUNT` makes changes one after the other.
`python store_kinds.py STORE kill TIMES` has writers killed during a write, one after the other; it
prints the changes that they had acknowledged.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.config.locations import server_file, tool_folder
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Paths, Problem
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.host.registry.node_sources import SavedEntries
from pflow_mcp_plugin.host.stored_settings import StoredSettings
from pflow_mcp_plugin.host.workflow_library import WorkflowLibrary
from pflow_mcp_plugin.storage import default_paths
from pflow_mcp_plugin.types import ServerInfo

_ENTRY = {"class_name": "Echo", "module": "pflow_mcp_plugin.host.nodes.value_nodes"}


@attrs.frozen
class StoreKind:
    """A store.

    Attributes:
        file: Where the change of a key is kept.
        change: Makes a change that can be told by its key.
        keys: Gives the keys of all changes, through the store itself.
    """

    file: Callable[[str], Path]
    change: Callable[[str], object]
    keys: Callable[[], set[str]]


def kinds(paths: Paths, report: Callable[[Problem], None] = lambda _: None) -> dict[str, StoreKind]:
    """Return every store below the given folders; `report` is told what was set aside."""
    config, catalog = ServerStore(server_file(paths)), Catalog(tool_folder(paths))
    settings, library = (
        StoredSettings(paths.config / "settings.json"),
        WorkflowLibrary(paths.data / "workflows"),
    )
    registry = SavedEntries(paths.data / "registry.json", report)
    return {
        "config": StoreKind(
            lambda _: config.path,
            lambda key: config.add({key: {"command": key}}),
            lambda: set(config.names()),
        ),
        "settings": StoreKind(
            lambda _: settings.path, lambda key: settings.set(key, "x"), lambda: set(settings.names())
        ),
        "registry": StoreKind(
            lambda _: registry.store.path,
            lambda key: registry.save({key: {"node": key, **_ENTRY}}),
            lambda: set(registry.store.read().get("nodes", {})),
        ),
        "tools": StoreKind(
            lambda key: catalog.folder / f"{key}.json",
            lambda key: catalog.save(key, Listing(info=ServerInfo(version=str(time.time()))), ""),
            lambda: {name for name in catalog.servers() if catalog.file(name)},
        ),
        "library": StoreKind(
            library.path,
            lambda key: library.save(key, {"nodes": [{"id": key}], "at": time.time()}),
            lambda: {name for name in library.names() if library.get(name)},
        ),
    }


def _write(kind: StoreKind, name: str, count: int) -> None:
    for number in range(count):
        kind.change(f"{name}{number}")


def _kill(kind: StoreKind, times: int) -> None:
    chance = random.Random(7)
    kind.change("first")  # loads what a change needs, so that writers spend their time writing
    for number in range(times):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _write_for_ever(kind, f"n{number}x", writing)
        os.close(writing)
        with os.fdopen(reading) as acknowledged:
            sys.stdout.write(acknowledged.readline())
            time.sleep(chance.uniform(0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            sys.stdout.write(acknowledged.read())


def _write_for_ever(kind: StoreKind, name: str, acknowledge: int) -> None:
    number = 0
    while True:
        number += 1
        kind.change(f"{name}{number}")
        os.write(acknowledge, f"{name}{number}\n".encode())


def main() -> None:
    """Do what the command line says, below `$PFLOW_HOME`."""
    kind = kinds(default_paths())[sys.argv[1]]
    if sys.argv[2] == "write":
        _write(kind, sys.argv[3], int(sys.argv[4]))
    else:
        _kill(kind, int(sys.argv[3]))


if __name__ == "__main__":
    main()
