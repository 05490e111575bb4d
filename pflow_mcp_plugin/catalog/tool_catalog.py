"""The tools of every synced server: one file for each, and the node types they stand for.

Node types are computed from the files on request. A node type begins with `mcp-` and the name of
its server, so only servers whose names match that prefix can have its tool, or another tool that
claims the same name. A lookup reads only their files, and of these only the tools that claim the
name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.catalog import tool_file
from pflow_mcp_plugin.catalog.tool_file import READ_RESOURCE, StoredFile, SyncedTool
from pflow_mcp_plugin.types import Tool, ToolRecord

if TYPE_CHECKING:
    from pflow_mcp_plugin.catalog.tool_file import Head, ToolFile
    from pflow_mcp_plugin.exchange import Listing

_T = TypeVar("_T")


class _Found(NamedTuple):
    head: Head
    tool: Tool
    approved: Tool | None = None

    @property
    def pair(self) -> tuple[str, str]:
        return self.head.server, self.tool.name

    def record(self, node: str) -> ToolRecord:
        shown, is_approved = self.approved or self.tool, self.tool.name not in self.head.new
        if not is_approved:
            shown = unapproved_tool(self.tool, node, self.head)
        return ToolRecord(
            server=self.head.server,
            node=node,
            tool=shown,
            found=self.tool,
            is_approved=is_approved,
            info=self.head.info,
            manifest_hash=self.head.manifest_hash,
            config_fingerprint=self.head.config_fingerprint,
            launch=self.head.launch,
            withheld=self.head.unapproved or self.head.withheld.get(self.tool.name, ""),
            is_server_withheld=bool(self.head.unapproved),
        )


class Catalog:
    """The catalog of every synced server's tools, one file for each server.

    A corrupt file is moved aside (`NAME.json.corrupt-1`) and its server counts as not synced;
    `set_aside` returns the path. `renames` returns the renamed tools of a server: raw name to the name for
    its node. `apart` returns the servers whose files are in other folders, each with its folder; a file of
    the same name in `folder` belongs to another server.
    """

    def __init__(
        self,
        folder: Path,
        renames: Callable[[str], Mapping[str, str]] = lambda _server: {},
        apart: Callable[[], Mapping[str, Path]] = dict,
    ) -> None:
        self.folder = folder
        self.renames = renames
        self.apart = apart
        self._read: dict[str, tuple[tuple[int, ...], StoredFile]] = {}

    def servers(self) -> tuple[str, ...]:
        apart = self.apart()
        stored = {path.name.removesuffix(".json") for path in storage.json_files_in(self.folder)}
        synced = {name for name in stored if name not in apart}
        synced |= {name for name, folder in apart.items() if (folder / f"{name}.json").exists()}
        return tuple(sorted(filter(naming.is_server_name, synced)))

    def folder_of(self, server: str) -> Path:
        return self.apart().get(server, self.folder)

    def head(self, server: str) -> Head | None:
        """Return the head of a server's tool file in the catalog, None if it was never synced."""
        return self._of_stored(server, lambda stored: stored.head)

    def file(self, server: str) -> ToolFile | None:
        """Return a server's whole tool file in the catalog, None if it was never synced."""
        return self._of_stored(server, lambda stored: stored.whole)

    def tool_names(self, server: str, beginning: str = "") -> tuple[str, ...]:
        names = self._of_stored(server, lambda stored: stored.names(beginning)) or ()
        reader = READ_RESOURCE.name
        found = self.tool(server, reader) if reader.startswith(beginning) else None
        return (*names, reader) if found and found.tool is READ_RESOURCE else names

    def set_aside(self, server: str) -> Path | None:
        """Return the newest corrupt tool file of a server that the catalog moved aside, None without one."""
        found = self.folder_of(server).glob(f"{server}.json.corrupt-*")
        return max(found, key=lambda path: (len(path.name), path.name), default=None)

    def find(self, node_type: str) -> ToolRecord | None:
        """Look up a tool in the catalog by its node type or an alias, `mcp-{server}-{raw tool}`.

        A node type that several approved tools claim, or claimed until one was gone, belongs to none: no tool
        takes another's place.
        """
        rivals = list(self._rivals(node_type))
        for record in rivals:
            if record.node == node_type:
                return record
        if self._of_claim(node_type, rivals):  # those got a suffix
            return None
        for server in self.fitting(node_type):
            raw = node_type.removeprefix(f"{naming.PREFIX}{server}-")
            if any(each.tool.name == raw for each in self._claiming(server, raw)):
                return self.tool(server, raw)
        return None

    def claimants(self, node_type: str) -> list[ToolRecord]:
        """Return the catalog's tools that claim a node type, before collisions are resolved."""
        return self._of_claim(node_type, self._rivals(node_type))

    def fitting(self, node_type: str, servers: Iterable[str] | None = None) -> list[str]:
        """Return the catalog's servers whose name may begin a node type, longest first; all, or of these."""
        rest = node_type.removeprefix(naming.PREFIX)
        if rest == node_type:
            return []
        every = self.servers() if servers is None else servers
        return sorted((name for name in every if rest.startswith(name + "-")), key=len, reverse=True)

    def tool(self, server: str, raw: str) -> ToolRecord | None:
        """Return the catalog's record of a tool by server and raw name, or its spelling in node types."""
        fitting = [each.tool for each in self._claiming(server, raw)]
        tool = next((tool for tool in fitting if tool.name == raw), None)
        if tool is None and len(fitting) == 1 and naming.slug(raw) == raw:  # spelled as in node types
            tool = fitting[0]
        if tool is None:
            return None
        rivals = self._rivals(self._claimed(server, tool.name))
        return next((it for it in rivals if (it.server, it.found.name) == (server, tool.name)), None)

    def named(self, server: str, name: str) -> ToolRecord | None:
        """Return the catalog's record of a server's tool by raw name or as in node types, even if renamed."""
        record = self.tool(server, name)
        if record is not None:
            return record
        node_type = naming.node_name(server, name)
        record = self.find(node_type)
        return record if record and (record.server, record.node) == (server, node_type) else None

    def records(self, server: str | None = None) -> Iterator[ToolRecord]:
        contents = [content for name in self.servers() if (content := self.file(name))]
        found = [
            _Found(content, *each) for content in contents for each in (*content.synced, *_reader(content))
        ]
        gone = [(content.server, raw) for content in contents for raw in content.gone]
        for record in self._named(found, gone):
            if server in (None, record.server):
                yield record

    def resource_reader(self, server: str) -> ToolRecord | None:
        """Return the catalog's tool that reads a server's resources; None if it has none, or is not synced.

        It exists even if a tool has its name, and so its node type, or if the server lists no resources:
        results of its tools may link to some.
        """
        head = self.head(server)
        if head is None or "resources" not in head.info.capabilities:
            return None
        return _Found(head, READ_RESOURCE).record(naming.node_name(server, READ_RESOURCE.name))

    def clashes(self) -> dict[str, list[ToolRecord]]:
        claims: dict[str, list[ToolRecord]] = defaultdict(list)
        for record in self.records():
            claims[self._claimed(record.server, record.found.name)].append(record)
        return {claimed: records for claimed, records in claims.items() if len(records) > 1}

    def save(
        self,
        server: str,
        listing: Listing,
        config_fingerprint: str,
        approve: Callable[[ToolFile | None, ToolFile], ToolFile] = lambda _, found: found,
    ) -> tuple[ToolFile | None, ToolFile]:
        """Save a server's synced tools in the catalog; return its file's content before, or None, and now.

        `approve` is called with both under the lock, and marks what is not approved in the new one. If the
        file cannot be written, the previous one stays.
        """
        self.file(server)  # sets a corrupt file aside, which takes the lock itself
        with self.locked(server) as path:
            before = self.file(server)
            content = approve(before, tool_file.from_listing(server, listing, config_fingerprint, before))
            storage.write_atomic(path, tool_file.encode(content))
        return before, content

    def mark(self, server: str, change: Callable[[ToolFile], ToolFile]) -> None:
        """Change a server's file in the catalog, if it has one, such as its marks of unapproved tools."""
        if self.file(server) is None:
            return
        with self.locked(server) as path:
            before = self.file(server)
            if before is not None:
                storage.write_atomic(path, tool_file.encode(change(before)))

    @contextmanager
    def locked(self, server: str) -> Iterator[Path]:
        """Hold the catalog's lock of a server's tool file, and yield its path.

        Whoever removes a server, or stores what a sync found of it, reads and changes its config meanwhile.
        """
        path = self._path(server)
        with storage.locked(path):
            yield path

    def current(self, server: str, config_fingerprint: str) -> Head | None:
        """Return the head of a server's tool file in the catalog, None if its config changed since."""
        head = self.head(server)
        return head if head and head.config_fingerprint == config_fingerprint else None

    def fingerprint_of(self, server: str) -> str:
        head = self.head(server)
        return head.config_fingerprint if head else ""

    def _rivals(self, node_type: str) -> Iterator[ToolRecord]:
        servers = self.servers()
        known: dict[tuple[str, str], _Found] = {}
        every_gone: list[tuple[str, str]] = []

        def claiming(plain: str) -> list[tuple[str, str]]:
            found: dict[tuple[str, str], _Found] = {}
            gone: list[tuple[str, str]] = []
            for server in self.fitting(plain, servers):
                renames = self.renames(server)
                part = plain.removeprefix(f"{naming.PREFIX}{server}-")
                renamed = [raw for raw, name in renames.items() if naming.tool_part(name) == part]
                tools = [each for each in self._claiming(server, part) if each.tool.name not in renames]
                tools += [it for raw in renamed for it in self._claiming(server, raw) if it.tool.name == raw]
                head = self.head(server)
                if head:
                    found |= {it.pair: it for it in (_Found(head, *each) for each in tools)}
                    gone += [(server, raw) for raw in head.gone if self._claimed(server, raw) == plain]
            known.update(found)
            every_gone.extend(gone)
            return [*found, *gone]

        naming.rivals(node_type, claiming)
        return self._named(known.values(), every_gone)

    def _claiming(self, server: str, tool: str) -> tuple[SyncedTool, ...]:
        """Return the catalog's tools of a server whose names are spelled like `tool` in node types."""
        part = naming.tool_part(tool)
        found = self._of_stored(server, lambda stored: stored.claiming(part)) or ()
        if not found and part == READ_RESOURCE.name and (head := self.head(server)):
            return _reader(head)
        return found

    def _named(self, found: Iterable[_Found], gone: Collection[tuple[str, str]]) -> Iterator[ToolRecord]:
        """Name the catalog's tools and yield their records; others may not have the name of a `gone` one."""
        every = list(found)
        # A tool that has the name of what reads resources keeps it.
        claimed = {self._claimed(*it.pair) for it in every if it.tool is not READ_RESOURCE}
        every = [it for it in every if it.tool is not READ_RESOURCE or self._claimed(*it.pair) not in claimed]
        servers = {it.head.server for it in every}.union(server for server, _ in gone)
        renamed = {(server, raw): name for server in servers for raw, name in self.renames(server).items()}
        unapproved = {it.pair for it in every if it.tool.name in it.head.new}
        live = {(it.head.server, self._claimed(*it.pair)) for it in every}
        kept = [pair for pair in gone if (pair[0], self._claimed(*pair)) not in live]
        names = naming.node_names([*(it.pair for it in every), *kept], renamed, unapproved)
        return (it.record(names[it.pair]) for it in every)

    def _of_claim(self, node_type: str, records: Iterable[ToolRecord]) -> list[ToolRecord]:
        return [it for it in records if self._claimed(it.server, it.found.name) == node_type]

    def _claimed(self, server: str, raw: str) -> str:
        return naming.node_name(server, self.renames(server).get(raw, raw))

    def _path(self, server: str) -> Path:
        return self.folder_of(server) / f"{server}.json"

    def _of_stored(self, server: str, use: Callable[[StoredFile], _T]) -> _T | None:
        try:
            return self._used(server, use)
        except storage.CorruptFile:
            path = self._path(server)
            with storage.locked(path):
                try:
                    return self._used(server, use)  # a sync may have replaced it in the meantime
                except storage.CorruptFile:
                    storage.set_aside(path)
                    return None

    def _used(self, server: str, use: Callable[[StoredFile], _T]) -> _T | None:
        path = self._path(server)
        stamp = storage.file_stamp(path)
        if not stamp:
            return None
        known = self._read.get(server)
        if known is None or known[0] != stamp:
            content = storage.read_own(path)
            if content is None:
                return None
            known = self._read[server] = (stamp, StoredFile(path, content))
        return use(known[1])


def _reader(head: Head) -> tuple[SyncedTool, ...]:
    return (SyncedTool(READ_RESOURCE),) if head.has_resources else ()


def keep_failure(folder: Path, server: str, message: str) -> None:
    """Keep the redacted message of a failed sync in the catalog's folder, if it can be written there."""
    with suppress(storage.StoreError):
        storage.write_atomic(_failure_path(folder, server), message[:500].encode("utf-8", "replace"))


def forget_failure(folder: Path, server: str) -> None:
    """Remove from the catalog's folder what is kept of a failed sync, after one that worked."""
    with suppress(storage.StoreError):
        storage.remove(_failure_path(folder, server))


def read_failure(folder: Path, server: str) -> str:
    """Return the message in the catalog's folder about a server's failed last sync; empty if none is kept."""
    try:
        return _failure_path(folder, server).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _failure_path(folder: Path, server: str) -> Path:
    return folder / f"{server}.sync-failure"


def unapproved_tool(tool: Tool, node: str, head: Head) -> Tool:
    """Return what the catalog shows of a synced tool that is not approved yet: only a name and a size.

    Nothing else in it is from its server.
    """
    from pflow_mcp_plugin.schemas.schema_reader import declaration
    from pflow_mcp_plugin.terminal.human_units import count_text

    name = node.removeprefix(naming.node_name(head.server, "x")[:-1])
    takes = count_text(len(declaration(tool.input_schema).properties), "argument")
    description = f"{takes}; not approved yet: {approval_command(head.server, name)}"
    return Tool(name=name, description=description, task_support=tool.task_support, hash=tool.hash)


def approval_command(server: str, tool: str) -> str:
    """Return the command to approve a tool, which the catalog puts into its description until then."""
    from shlex import quote

    from pflow_mcp_plugin.terminal.looks import one_line

    end_of_options = "-- " if tool.startswith("-") else ""
    return f"pflow mcp approve {server} {end_of_options}{quote(one_line(tool))}"
