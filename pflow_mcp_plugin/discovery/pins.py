"""What was approved of each server: one file for each, with its launch, instructions and tools.

A file holds every approved tool in full, so that a later version can be compared with it. Only the user
changes it: by a first sync, or by approving a change. A file that is corrupt is refused, since an empty
one would approve whatever the next sync finds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.discovery.launch_identity import same
from pflow_mcp_plugin.discovery.tool_file import tool_from_json, tool_to_json
from pflow_mcp_plugin.types import Tool

SCHEMA_VERSION = 1


@attrs.frozen(kw_only=True)
class Pinned:
    """The pins of one server.

    Attributes:
        launch: The identity of the launch that they hold for.
        instructions: The approved instructions.
        tools: The approved tools by raw name; some may no longer exist.
    """

    launch: JSONObject
    instructions: str = ""
    tools: Mapping[str, Tool] = attrs.field(factory=dict)


@attrs.frozen
class Pins:
    """The pins of all servers.

    Attributes:
        folder: The folder of their files.
        apart: As of the catalog: a project's servers have a folder `pins` beside that of their tool files.
    """

    folder: Path
    apart: Callable[[], Mapping[str, Path]] = dict

    def read(self, server: str) -> Pinned | None:
        """Return the pins of a server, None if nothing of it was approved.

        Raises:
            storage.CorruptFile: The file is corrupt.
            storage.StoreError: It cannot be read, or a newer version wrote it.
        """
        path = self._path(server)
        content = storage.read_own(path)
        return None if content is None else _decode(path, content)

    def update(self, server: str, change: Callable[[Pinned | None], Pinned]) -> Pinned:
        """Change the pins of a server under the lock of their file; returns them as written.

        Raises:
            storage.CorruptFile: The file is corrupt; it is left as it is.
            storage.StoreError: It cannot be read or written, or a newer version wrote it.
        """
        path = self._path(server)
        with storage.locked(path):
            before = self.read(server)
            after = change(before)
            if after != before:
                storage.write_atomic(path, _encode(server, after))
            return after

    def keep_for(self, server: str, launch: JSONObject) -> None:
        """Delete the pins of a server unless they hold for this launch, which the user has just approved.

        Corrupt ones stay, and the next sync refuses them.

        Raises:
            storage.StoreError: The file could not be read or removed, or a newer version wrote it.
        """
        try:
            pinned = self.read(server)
        except storage.CorruptFile:
            return
        if pinned and not same(pinned.launch, launch):
            self.forget(server)

    def forget(self, server: str) -> None:
        """Delete the pins of a server, corrupt ones too: its next sync is the first one.

        Raises:
            storage.StoreError: The file could not be removed.
        """
        storage.remove(self._path(server))

    def _path(self, server: str) -> Path:
        apart = self.apart().get(server)
        folder = apart.with_name("pins") if apart else self.folder
        return folder / f"{server}.json"


def _encode(server: str, pinned: Pinned) -> bytes:
    data: dict[str, JSON] = {
        "schema_version": SCHEMA_VERSION,
        "server": server,
        "launch": pinned.launch,
        "instructions": pinned.instructions,
    }
    # Not `storage.encode_json`: it refuses numbers that are not finite, which schemas may contain.
    tools = ",\n".join(json.dumps(tool_to_json(tool)) for tool in pinned.tools.values())
    return f'{json.dumps(data)[:-1]}, "tools": [\n{tools}\n]}}\n'.encode("ascii")


def _decode(path: Path, content: bytes) -> Pinned:
    try:
        data: dict[str, Any] = storage.decode_json(path, content)
        version = data["schema_version"]
        if isinstance(version, int) and version > SCHEMA_VERSION:
            reason = f"written by a newer pflow (schema {version}, this one knows {SCHEMA_VERSION})"
            raise storage.StoreError(path, reason, suggestion="Upgrade pflow")
        return _from_json(path, data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise storage.CorruptFile(path, f"not the approved tools of server {path.stem}: {error!r}") from error


def _from_json(path: Path, data: Mapping[str, Any]) -> Pinned:
    launch, instructions = data["launch"], data["instructions"]
    if data["server"] != path.stem:
        raise storage.CorruptFile(path, f"it belongs to another server: {data['server']!r:.100}")
    if not isinstance(launch, dict) or not isinstance(instructions, str):
        raise TypeError("launch or instructions")
    tools = [tool_from_json(item) for item in data["tools"]]
    return Pinned(launch=launch, instructions=instructions, tools={tool.name: tool for tool in tools})
