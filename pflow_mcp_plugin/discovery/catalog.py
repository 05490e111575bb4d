"""The tools of every synced server: one file for each, and the node types they stand for.

Node types are worked out from the files when they are asked for. A node type begins with `mcp-`
and its server's name, so the servers whose names it begins with are the only ones that can hold
its tool, or another tool that claims the same name: a look-up reads their files alone.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import attrs

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.discovery import toolfile
from pflow_mcp_plugin.discovery.toolfile import ToolFile
from pflow_mcp_plugin.types import Tool, ToolRecord

if TYPE_CHECKING:
    from pflow_mcp_plugin.discovery.changes import Changes
    from pflow_mcp_plugin.exchange import Listing

_Stamp = tuple[int, int, int]


class _Named(NamedTuple):
    content: ToolFile
    tool: Tool
    node: str

    def record(self) -> ToolRecord:
        return ToolRecord(
            server=self.content.server,
            node=self.node,
            tool=self.tool,
            info=self.content.info,
            manifest_hash=self.content.manifest_hash,
        )


def _no_renames(_server: str) -> Mapping[str, str]:
    return {}


@attrs.frozen
class Catalog:
    """What the last sync of each server found.

    A corrupt file is moved aside (`NAME.json.corrupt-1`) and counts as not synced; `set_aside`
    tells of it.

    Attributes:
        folder: Where the files are.
        renames: Gives the renamed tools of a server: raw name to the name its node gets.
    """

    folder: Path
    renames: Callable[[str], Mapping[str, str]] = _no_renames
    _read: dict[str, tuple[_Stamp, ToolFile]] = attrs.field(factory=dict, repr=False, eq=False)

    def servers(self) -> tuple[str, ...]:
        """Return the names of the synced servers, sorted."""
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return ()
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return tuple(sorted(stem for stem in stems if naming.is_server_name(stem)))

    def file(self, server: str) -> ToolFile | None:
        """Return what the last sync of a server found, None when there was none.

        Raises:
            storage.StoreError: The file cannot be read, or a newer pflow wrote it.
        """
        path = self._path(server)
        try:
            stamp = _stamp(path.stat())
        except FileNotFoundError:
            return None
        known = self._read.get(server)
        if known is None or known[0] != stamp:
            content = self._decode(path)
            if content is None:
                return None
            known = self._read[server] = (stamp, content)
        return known[1]

    def set_aside(self, server: str) -> Path | None:
        """Return the newest corrupt file of a server that was moved aside, None if there is none."""
        found = self.folder.glob(f"{server}.json.corrupt-*")
        return max(found, key=lambda path: (len(path.name), path.name), default=None)

    def find(self, node_type: str) -> ToolRecord | None:
        """Return the tool that a node type, or an alias `mcp-{server}-{raw tool}`, stands for."""
        servers = self.fitting(node_type)
        named = list(self._named(servers))
        for found in named:
            if found.node == node_type:
                return found.record()
        aliases = (it for it in named if node_type == f"{naming.PREFIX}{it.content.server}-{it.tool.name}")
        alias = max(aliases, key=lambda found: len(found.content.server), default=None)
        return alias.record() if alias else None

    def fitting(self, node_type: str) -> tuple[str, ...]:
        """Return the synced servers that a node type may belong to, the longest name first."""
        rest = node_type.removeprefix(naming.PREFIX)
        if rest == node_type:
            return ()
        names = (name for name in self.servers() if rest.startswith(name + "-"))
        return tuple(sorted(names, key=len, reverse=True))

    def tool(self, server: str, raw: str) -> ToolRecord | None:
        """Return a tool by server and raw name; a node type's own spelling of the name works too."""
        content = self.file(server)
        if content is None:
            return None
        tool = content.tool(raw) or _by_slug(content.tools, raw)
        if tool is None:
            return None
        rivals = self._named(self.fitting(self._claimed(server, tool.name)))
        return next(it.record() for it in rivals if (it.content.server, it.tool.name) == (server, tool.name))

    def records(self, server: str | None = None) -> Iterator[ToolRecord]:
        """Yield every tool, or those of one server, with its node type."""
        for found in self._named(self.servers()):
            if server in (None, found.content.server):
                yield found.record()

    def clashes(self) -> dict[str, list[ToolRecord]]:
        """Return the node types that several tools lay claim to, with the names they got instead."""
        claims: dict[str, list[ToolRecord]] = defaultdict(list)
        for record in self.records():
            claims[self._claimed(record.server, record.tool.name)].append(record)
        return {claimed: records for claimed, records in claims.items() if len(records) > 1}

    def save(self, server: str, listing: Listing, config_fingerprint: str) -> Changes:
        """Keep what a sync found.

        Returns:
            What is different from the sync before.

        Raises:
            storage.StoreError: It could not be written; what was known before still is.
        """
        path = self._path(server)
        self.file(server)  # sets a corrupt file aside, which takes the lock itself
        with storage.locked(path):
            before = self.file(server)
            content = toolfile.from_listing(server, listing, config_fingerprint, before)
            storage.write_atomic(path, toolfile.encode(content))
        from pflow_mcp_plugin.discovery.changes import compare

        return compare(before.tools if before else (), content.tools)

    def forget(self, server: str) -> None:
        """Drop what is known of a server.

        Raises:
            storage.StoreError: The file cannot be removed.
        """
        path = self._path(server)
        if not path.exists():
            return
        with storage.locked(path):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise storage.StoreError(path, f"could not be removed: {error.strerror}") from error

    def era(self, server: str, config_fingerprint: str) -> Literal["modern", "handshake"] | None:
        """Return what a server spoke at its last sync, if its config is still the same."""
        content = self.file(server)
        same = content is not None and content.config_fingerprint == config_fingerprint
        return content.info.era if content and same else None

    def fingerprint_of(self, server: str) -> str:
        """Return the fingerprint of the config that a server was last synced with, empty if never."""
        content = self.file(server)
        return content.config_fingerprint if content else ""

    def _named(self, servers: Iterable[str]) -> Iterator[_Named]:
        contents = [content for server in servers if (content := self.file(server))]
        pairs = [(content.server, tool.name) for content in contents for tool in content.tools]
        renamed = {
            (content.server, raw): name
            for content in contents
            for raw, name in self.renames(content.server).items()
        }
        names = naming.node_names(pairs, renamed)
        for content in contents:
            for tool in content.tools:
                yield _Named(content, tool, names[content.server, tool.name])

    def _claimed(self, server: str, raw: str) -> str:
        return naming.node_name(server, self.renames(server).get(raw, raw))

    def _path(self, server: str) -> Path:
        return self.folder / f"{server}.json"

    def _decode(self, path: Path) -> ToolFile | None:
        content = storage.read_bytes(path)
        if content is None:
            return None
        try:
            return _decode_for(path, content)
        except storage.CorruptFile:
            return self._decode_or_set_aside(path)

    def _decode_or_set_aside(self, path: Path) -> ToolFile | None:
        with storage.locked(path):
            content = storage.read_bytes(path)  # a sync may have replaced it meanwhile
            if content is None:
                return None
            try:
                return _decode_for(path, content)
            except storage.CorruptFile:
                storage.set_aside(path)
                return None


def _decode_for(path: Path, content: bytes) -> ToolFile:
    decoded = toolfile.decode(path, content)
    if decoded.server != path.stem:
        raise storage.CorruptFile(path, f"holds the tools of server {decoded.server}")
    return decoded


def _by_slug(tools: Iterable[Tool], name: str) -> Tool | None:
    fitting = [tool for tool in tools if naming.slug(tool.name) == name]
    return fitting[0] if len(fitting) == 1 else None


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino
