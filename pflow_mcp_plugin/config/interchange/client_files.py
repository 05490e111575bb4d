"""The config files of other clients that this machine has."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from pflow_mcp_plugin.config.interchange.clients import CLIENTS, Client, ConfigFile, System


@attrs.frozen(kw_only=True)
class Machine:
    """What decides where clients keep their files.

    Attributes:
        system: The operating system.
        home: The user's home folder.
        folder: The current folder.
        variables: The environment.
    """

    system: System
    home: Path
    folder: Path
    variables: Mapping[str, str]


def this_machine() -> Machine:
    """Return what decides where clients keep their config files on this machine."""
    system: System = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")  # type: ignore[assignment]
    home = Path.home()
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # it was deleted: there is no project
        folder = home
    return Machine(system=system, home=home, folder=folder, variables=os.environ)


@attrs.frozen(kw_only=True)
class FoundFile:
    """A config file of another client, at a place on this machine.

    Attributes:
        client: Whose it is.
        path: Where it is.
        is_project: Whether it belongs to a project, not to the user.
    """

    client: Client
    path: Path
    is_project: bool = False


def places(client: Client, machine: Machine) -> Iterator[FoundFile]:
    """Yield the files that a client may have here, whether they exist or not."""
    seen = set()
    for file in client.files:
        path = _path(file, machine)
        if path and path not in seen:
            seen.add(path)
            yield FoundFile(client=client, path=path, is_project=file.is_project)


def found(machine: Machine, client: Client | None = None) -> list[FoundFile]:
    """Return the files that exist here, of one client or of all."""
    clients = CLIENTS.values() if client is None else (client,)
    return [file for each in clients for file in places(each, machine) if _exists(file.path)]


def written(client: Client, machine: Machine) -> Path | None:
    """Return the user's own file into which a client's servers are written here; None if it has none.

    It is the first that exists, or else the first of its places, which may not exist yet.
    """
    files = (file for file in client.files if not (file.is_project or file.read_only))
    paths = [path for path in (_path(file, machine) for file in files) if path]
    return next(filter(_exists, paths), paths[0] if paths else None)


def owner(path: Path, machine: Machine) -> Client | None:
    """Return the client whose file a path is by its place, or by the name of its folder and its own."""
    whole = machine.folder / path
    files = [file for client in CLIENTS.values() for file in places(client, machine)]
    exact = next((file.client for file in files if file.path == whole), None)
    if exact:
        return exact
    tail = whole.parts[-2:]
    return next((file.client for file in files if file.path.parts[-2:] == tail and len(tail[0]) > 1), None)


def _path(file: ConfigFile, machine: Machine) -> Path | None:
    if machine.system not in file.systems:
        return None
    if file.is_project:
        return machine.folder / file.path
    root, _, rest = file.path.partition("/")
    if root == "~":
        return machine.home / rest
    value = machine.variables.get(root[1:], "")
    return Path(value) / rest if value else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # its folder may not be entered: reading it will say so
        return True
