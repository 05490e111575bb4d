"""The node source with the tools of every configured server, as they were last synced."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.catalog.tool_file import Head
from pflow_mcp_plugin.config.field_checks import nearest
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import UNKNOWN, Entry, NodeUse, PflowError, Problem, Settings, Sketch
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.registration.tool_entry import SOURCE, entry, sketch
from pflow_mcp_plugin.schemas.quick_check import plainly_fits
from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.types import Server, ToolRecord

if TYPE_CHECKING:
    from pflow_mcp_plugin.trust.tool_use import ToolUse


class ToolSource:
    """The node source of all tools: the results of the last syncs, filtered by the config.

    Without `settings`, the values of variables that decide what is started are not known: a change of them
    withholds no entry.
    """

    def __init__(self, catalog: Catalog, store: ServerStore, settings: Settings | None = None) -> None:
        self._settings = settings
        self._store = store
        self._catalog = catalog
        self._used: dict[tuple[str, str], tuple[Head | None, ToolRecord | None]] = {}
        self._judges: dict[tuple[str, ...], ToolUse] = {}

    def get(self, node_type: str) -> Entry | None:
        """Return the entry of a tool's node type, or of an alias `mcp-{server}-{raw tool}`."""
        return self._entry(self._catalog.find(node_type))

    def of_tool(self, server: str, tool: str) -> Entry | None:
        return self._entry(self._catalog.named(server, tool))

    def entries(self) -> Iterator[Entry]:
        for record, server in self._live():
            yield entry(record, server, self._variables(record, server))

    def sketches(self) -> Iterator[Sketch]:
        yield from (sketch(record) for record, _ in self._live())

    def records(self, server: str | None = None) -> Iterator[ToolRecord]:
        yield from (record for record, _ in self._live(server))

    def tool_names(self, server: str, beginning: str = "") -> list[str]:
        """Return the source's names of a server's tools with this prefix; new ones as in node types."""
        config, head = self._usable(server), self._catalog.head(server)
        if config is None or head is None:
            return []
        names = [name for name in self._catalog.tool_names(server, beginning) if name not in head.new]
        new = {naming.tool_part(name): name for name in sorted(head.new) if config.tools.allows(name)}
        return [
            *(name for name in names if config.tools.allows(name)),
            *(part for part in new if part.startswith(beginning)),
        ]

    def missing(self, node_type: str) -> Problem | None:
        if not node_type.startswith(naming.PREFIX):
            return None
        found = naming.parse_node_type(node_type, self._store.names())
        if found is None:
            return self._not_configured(node_type)
        server, tool = found
        if unusable := self._unusable(server):
            return unusable
        claimants = self._catalog.claimants(node_type)
        if len(claimants) > 1:  # it then belongs to none of them
            message = f"Several tools claim the name {node_type}, so each got a suffix"
            named = " or ".join(f"{it.node} ({it.tool.name} of {it.server})" for it in claimants)
            return _problem(message, f"Name the one you mean: {named}")
        if claimants and claimants[0].node != node_type:
            it = claimants[0]
            message = f"Two tools claimed the name {node_type}, and one of them no longer exists"
            return _problem(message, f"If you mean {it.tool.name} of {it.server}, name it {it.node}")
        problem = self._lacking(server, self._catalog.find(node_type))
        near = None if problem else self._nearest(server, tool)
        return problem or self._no_tool(server, tool, near.node if near else "")

    def missing_tool(self, server: str, tool: str) -> Problem:
        problem = self._unusable(server) or self._lacking(server, self._catalog.named(server, tool))
        if problem:
            return problem
        from shlex import quote

        near = self._nearest(server, tool)
        return self._no_tool(server, tool, f"pflow mcp call {server} {quote(near.tool.name)}" if near else "")

    def lacking(self, text: str) -> Iterator[Problem]:
        """Yield a problem for each server that a search of this source names and that was never synced."""
        wanted = text.lower().strip()
        words = {*re.findall(r"[a-z0-9]+", wanted)}
        for name in self._store.names():
            is_meant = words.issuperset(name.split("-")) or (len(wanted) > 2 and wanted in name)
            if is_meant and not self._unusable(name) and (problem := self.unsynced(name)):
                yield problem

    def unsynced(self, server: str) -> Problem | None:
        if self._catalog.head(server) is not None:
            return None
        corrupt = self._catalog.set_aside(server)
        why = f"; its tool file was corrupt and is kept as {corrupt}" if corrupt else ""
        return _problem(f"Server {server} is not synced{why}", f"Run: pflow mcp sync {server}")

    def clashes(self, servers: Collection[str]) -> Iterator[Problem]:
        """Yield a warning for each type in this source that several tools claim, one of these servers'."""
        for claimed, records in self._catalog.clashes().items():
            if not any(record.server in servers for record in records):
                continue
            tools = ", ".join(f"{record.tool.name} of {record.server} ({record.node})" for record in records)
            message = f"Several tools claim the name {claimed}, so each got a suffix: {tools}"
            step = f"To choose the names yourself, set `rename` in {self._store.path}"
            yield _problem(message, step, severity="warning")

    def unmet(self, uses: Iterable[NodeUse]) -> Iterator[Problem]:
        """Yield an error for each server of this source's nodes whose program is missing; starts none."""
        from pflow_mcp_plugin.config.server_schema import advise

        found = filter(None, map(self._catalog.find, dict.fromkeys(use.entry.node for use in uses)))
        for name in dict.fromkeys(record.server for record in found):
            server = self._usable(name)
            if server is None:
                continue
            synced = self._catalog.current(name, self._store.fingerprint(name))
            if problem := advise(server, synced.program if synced else ""):
                yield attrs.evolve(problem, severity="error")

    def check_use(self, use: NodeUse) -> Iterator[Problem]:
        """Yield what is wrong with a workflow's use of a tool from this source: what its call would refuse.

        If the tool changed since it was approved, what the change affects. The host reports required params
        that are missing, and unknown ones.
        """
        key = use.entry.node, use.entry.fingerprint
        # A tool is looked up once while its tool file, which says what is approved, stays as it is.
        head = self._catalog.head(use.entry.family)
        if key not in self._used or self._used[key][0] is not head:
            self._used[key] = head, self._catalog.find(use.entry.node)
        record = self._used[key][1]
        if record is None:
            return
        fields = use.entry.interface.fields
        given = {key: value for key, value in use.params.items() if key in fields or use.entry.interface.open}
        supplied = fields.keys() if use.supplied is None else use.supplied & fields.keys()
        made = {use.entry.idempotency_argument: UNKNOWN} if use.entry.idempotency_argument else {}
        arguments = {**made, **dict.fromkeys(supplied, UNKNOWN), **given}
        reported = {it.key for it in use.entry.interface.params if it.needs_value and it.key not in arguments}
        # A run's servers start after this, so what is slow to import is loaded only if something is wrong.
        if not record.has_changed and plainly_fits(record.found.input_schema, arguments):
            return
        from pflow_mcp_plugin.trust.tool_use import ToolUse

        versions = record.node, record.found.hash, record.tool.hash
        if versions not in self._judges:
            where = Where(server=record.server, tool=record.tool.name, phase="arguments", node=record.node)
            self._judges[versions] = ToolUse(record, where)
        judge = self._judges[versions]
        try:
            found = list(judge.problems(arguments, use.reads, reported))
        except McpError as error:
            found = [_problem(error.message, "; ".join(error.suggestions), kind="validation")]
        yield from found
        if judge.notice and not found:
            yield _problem(judge.notice, "", severity="warning", kind="validation")

    def upgrade(self, node: JSONObject) -> JSONObject | None:
        """Return a node of this source in its older form (`mcp_wrapper`) with its current type."""
        metadata = node.get("mcp_metadata")
        if node.get("type") != "mcp_wrapper" or not isinstance(metadata, Mapping):
            return None
        node_type = self._old_type(str(node.get("id", "")), metadata)
        return None if node_type is None else {**node, "type": node_type}

    def _live(self, server: str | None = None) -> Iterator[tuple[ToolRecord, Server]]:
        configs: dict[str, Server | None] = {}
        for record in self._catalog.records(server):
            if record.server not in configs:
                configs[record.server] = self._usable(record.server)
            config = configs[record.server]
            if server is None and record.server in self._store.lent:  # no list or index outlives its call
                continue
            # A long name that nobody approved may be a text.
            is_listed = record.is_approved or len(record.node) <= 64
            if config is not None and is_listed and config.tools.allows(record.found.name):
                yield record, config

    def _entry(self, record: ToolRecord | None) -> Entry | None:
        server = self._usable(record.server) if record else None
        if not (record and server and server.tools.allows(record.found.name)):
            return None
        lasting = record.server not in self._store.lent
        return entry(record, server, self._variables(record, server), lasting=lasting)

    def _variables(self, record: ToolRecord, server: Server) -> dict[str, str] | None:
        """Return a server's variables if its tools in this source are approved for certain values of any."""
        if self._settings is None or not (record.launch and record.launch.get("variables")):
            return None
        from pflow_mcp_plugin.config.expansion import VariableLookup, launch_variables

        try:
            return launch_variables(server, VariableLookup(self._settings))
        except PflowError:  # the run reports why the settings cannot be read
            return None

    def _usable(self, name: str) -> Server | None:
        try:
            server = self._store.get(name)
        except (CorruptFile, StoreError):
            raise
        except PflowError:
            return None
        return None if server.disabled else server

    def _not_configured(self, node_type: str) -> Problem:
        rest = node_type.removeprefix(naming.PREFIX)
        synced = next(iter(self._catalog.fitting(node_type)), "")
        near = "" if synced else _nearest_server(rest, self._store.names())
        words = rest.split("-")
        length = near.count("-") + 1
        name = synced or "-".join(words[:length])
        meant = "-".join((naming.PREFIX + near, *words[length:]))
        step = f"Did you mean {meant}?" if near else f"Run: pflow mcp add {name} ..."
        beginnings = ("-".join(words[:count]) for count in range(len(words) - 1, 0, -1))
        offer = self._store.project.offer(beginnings) if self._store.project else None
        return _problem(f"Server {offer[0] if offer else name} not configured", offer[1] if offer else step)

    def _unusable(self, server: str) -> Problem | None:
        try:
            config = self._store.get(server)
        except PflowError as error:
            return _problem(str(error), "; ".join(error.suggestions), kind=error.kind)
        if not config.disabled:
            return None
        return _problem(f"Server {server} is disabled", self._store.enabling_step(server))

    def _lacking(self, server: str, record: ToolRecord | None) -> Problem | None:
        unsynced = self.unsynced(server)
        if unsynced or record is None:
            return unsynced
        message = f"Tool {record.tool.name} of server {record.server} is excluded by the config"
        file = self._store.file_of(record.server)
        return _problem(message, f"Change `tools` of [mcpServers.{record.server}] in {file}")

    def _nearest(self, server: str, tool: str) -> ToolRecord | None:
        typed, prefix = naming.tool_part(tool), f"{naming.PREFIX}{server}-"
        parts: dict[str, ToolRecord] = {}
        for record in self.records(server):
            parts[record.node.removeprefix(prefix)] = parts[naming.tool_part(record.tool.name)] = record
        longer = (part for part in parts if part.startswith(f"{typed}-"))
        return parts.get(nearest(typed, parts) or next(longer, ""))

    def _no_tool(self, server: str, tool: str, near: str) -> Problem:
        head = self._catalog.head(server)
        raw, when = head.missed(tool) if head else (tool, "")
        step = f"Did you mean {near}?" if near else f"See its tools: pflow mcp tools {server}"
        return _problem(f"Tool {raw} not found on server {server}{when}", step)

    def _old_type(self, node_id: str, metadata: JSONObject) -> str | None:
        server_id, tool = str(metadata.get("server_id", "")), metadata.get("tool_name")
        names = self._store.names()
        parsed = naming.parse_node_type(node_id, names)
        # An old `server_id` may be `github-server` for the server `github`.
        candidates = (server_id, parsed[0] if parsed else "", re.sub(r"[-_]server$", "", server_id))
        server = next((name for name in candidates if name in names), None)
        if server is None and node_id.startswith(naming.PREFIX):
            return node_id
        if server is None:  # resolving its node type reports that its server is not configured
            is_named = naming.is_server_name(server_id) and isinstance(tool, str)
            return naming.node_name(server_id, str(tool)) if is_named else None
        if not isinstance(tool, str):
            return node_id if naming.parse_node_type(node_id, (server,)) else None
        record = self._catalog.tool(server, tool)
        return record.node if record else naming.node_name(server, tool)


def _nearest_server(rest: str, names: Iterable[str]) -> str:
    words = rest.split("-")
    known = list(names)
    for length in range(len(words), 0, -1):
        near = nearest("-".join(words[:length]), known, 0.75)
        if near and near.count("-") + 1 == length:
            return near
    return ""


def _problem(message: str, suggestion: str, **others: Any) -> Problem:
    return Problem(
        **{"kind": "not_found", "source": SOURCE, **others}, message=message, suggestion=suggestion
    )
