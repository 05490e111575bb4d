"""The tool file of one server: its content, its JSON form, and reading only the requested part of it.

A large server has thousands of tools, and a lookup needs one of them. So the one JSON object is laid out
with its first line ending where the list of tools begins, and each tool on a line of its own. `index` maps
the last part of a node type to the offsets of its tools, in bytes after the first line; `size` is the length
of all these lines. A plain JSON reader can ignore both. A file written by hand, or by an older version, has
no valid index and is decoded as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.contract.validators import ByFields
from pflow_mcp_plugin.storage.files import refuse_newer
from pflow_mcp_plugin.storage.json_and_toml import as_string, as_strings, as_table
from pflow_mcp_plugin.types import ServerInfo, Tool

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
    from pflow_mcp_plugin.exchange import Listing


SCHEMA_VERSION = 1

TOOLS = b'"tools": [\n'
"""The end of the first line of a tool file; each of the next lines is a tool."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Head(ByFields):
    """The content of a server's tool file without its tools: how and when it was synced."""

    server: str
    synced_at: str = ""  # ISO 8601 in UTC
    config_fingerprint: str = ""
    info: ServerInfo = attrs.field(factory=ServerInfo)
    manifest_hash: str = ""
    # Tools of earlier syncs that no longer exist: raw name to the time of the sync that missed them.
    gone: Mapping[str, str] = attrs.field(factory=dict)
    has_resources: bool = False  # it lists resources that can be read
    launch: JSONObject | None = None  # its identity at the sync; None in a file of an older version
    program: str = ""  # where the sync found the program of a bare command; empty if it did not look
    new: frozenset[str] = frozenset()  # the tools that nobody approved, by raw name
    # Why a tool, by raw name, or (`unapproved`) any tool of the server must be approved before it is used.
    withheld: Mapping[str, str] = attrs.field(factory=dict)
    unapproved: str = ""

    def missed(self, tool: str) -> tuple[str, str]:
        """Return a tool's raw name and, in words, since which sync this file lists it as gone; else empty."""
        raw = next((name for name in self.gone if tool in (name, naming.slug(name))), None)
        if raw is None:
            return tool, ""
        return raw, f": it no longer existed when the server was synced at {self.gone[raw]}"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolFile(Head):
    """The content of a server's tool file: the results of its last sync."""

    tools: tuple[Tool, ...] = ()
    approved: Mapping[str, Tool] = attrs.field(factory=dict)  # of the tools that differ from it, by raw name

    @property
    def synced(self) -> tuple[SyncedTool, ...]:
        return tuple(SyncedTool(tool, self.approved.get(tool.name)) for tool in self.tools)


class SyncedTool(NamedTuple):
    """A tool in a tool file: as last synced, and the version that was approved."""

    tool: Tool
    approved: Tool | None = None  # if it is the same, or nobody approved the tool


def from_listing(server: str, listing: Listing, fingerprint: str, before: ToolFile | None) -> ToolFile:
    """Make the content of a server's tool file from the tools it listed; in it, everything is approved.

    Tools of the previous content that are no longer listed become `gone`.
    """
    from datetime import UTC, datetime

    from pflow_mcp_plugin.catalog.json_values import manifest_hash, tool_hash

    now = datetime.now(UTC).isoformat(timespec="seconds")
    tools = tuple(attrs.evolve(tool, hash=tool_hash(tool)) for tool in listing.tools)
    there = {tool.name for tool in tools}
    gone: dict[str, str] = {}
    if before:
        # Errors name a tool that is gone; one that nobody approved is named as in its node type.
        names = (
            naming.tool_part(tool.name) if tool.name in before.new else tool.name for tool in before.tools
        )
        gone = {**before.gone, **dict.fromkeys(names, now)}
    return ToolFile(
        server=server,
        synced_at=now,
        config_fingerprint=fingerprint,
        info=listing.info,
        tools=tools,
        manifest_hash=manifest_hash(tools),
        has_resources=listing.has_resources,
        gone={name: when for name, when in gone.items() if name not in there},
    )


def encode(content: ToolFile) -> bytes:
    """Return the content of a tool file as JSON."""
    # ASCII without line breaks: each tool is one line, and lengths in characters are lengths in bytes.
    lines: list[bytes] = []
    index: dict[str, list[int]] = {}
    begin = 0
    for tool, approved in content.synced:
        data = tool_to_json(tool)
        line = {**data, "approved": tool_to_json(approved)} if approved else data
        lines.append(json.dumps(line).encode("ascii"))
        index.setdefault(naming.tool_part(tool.name), []).append(begin)
        begin += len(lines[-1]) + len(b",\n")
    body = b",\n".join(lines) + b"\n]}\n"
    head: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        **attrs.asdict(content, filter=lambda field, _: field.name not in ("tools", "approved")),
        "new": sorted(content.new),
        "index": index,
        "size": len(body),
    }
    return json.dumps(head).encode("ascii").removesuffix(b"}") + b", " + TOOLS + body


def decode(path: Path, content: bytes) -> ToolFile:
    """Return the content of a tool file from its JSON."""
    data: Mapping[str, Any] = storage.decode_json(path, content)
    refuse_newer(path, data.get("schema_version"), SCHEMA_VERSION, "tools")
    try:
        synced = [synced_from_json(item) for item in data["tools"]]
        return ToolFile(
            **_head_fields(data),
            tools=tuple(each.tool for each in synced),
            approved={each.tool.name: each.approved for each in synced if each.approved},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise storage.CorruptFile(path, f"not a tool file: {error!r}") from error


def _head_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    launch = data.get("launch")
    return {
        "server": as_string(data["server"]),
        "synced_at": as_string(data["synced_at"]),
        "config_fingerprint": as_string(data["config_fingerprint"]),
        "info": _info_from_json(data["info"]),
        "manifest_hash": as_string(data["manifest_hash"]),
        "gone": as_strings(data["gone"]),
        "has_resources": data.get("has_resources", False) is True,
        "launch": None if launch is None else as_table(launch),
        "program": as_string(data.get("program", "")),
        # An older version kept no approved text beside that of a withheld tool: nothing of it is shown.
        "new": frozenset(as_string(name) for name in data.get("new", data.get("withheld", ()))),
        "withheld": as_strings(data.get("withheld", {})),
        "unapproved": as_string(data.get("unapproved", "")),
    }


def tool_to_json(tool: Tool) -> dict[str, JSON]:
    """Return the JSON form of a tool, as it stands on the tool's line in a tool file."""
    data: dict[str, JSON] = {"name": tool.name, "inputSchema": tool.input_schema, "hash": tool.hash}
    if tool.output_schema is not None:
        data["outputSchema"] = tool.output_schema
    optional: dict[str, JSON] = {
        "title": tool.title,
        "description": tool.description,
        "annotations": tool.annotations,
        "_meta": tool.meta,
        "taskSupport": tool.task_support,
    }
    return data | {key: value for key, value in optional.items() if value}


def synced_from_json(data: JSONObject) -> SyncedTool:
    """Return a tool with its approved version from its line in a tool file; raises like `tool_from_json`."""
    approved = data.get("approved")
    return SyncedTool(tool_from_json(data), None if approved is None else tool_from_json(as_table(approved)))


def tool_from_json(data: JSONObject) -> Tool:
    """Return a tool from its JSON, as in a tool file; raises KeyError, TypeError... if malformed."""
    output = data.get("outputSchema")
    return Tool(
        name=as_string(data["name"]),
        title=as_string(data.get("title", "")),
        description=as_string(data.get("description", "")),
        input_schema=as_table(data["inputSchema"]),
        output_schema=None if output is None else as_table(output),
        annotations=as_table(data.get("annotations", {})),
        meta=as_table(data.get("_meta", {})),
        task_support=as_string(data.get("taskSupport", "")),
        hash=as_string(data["hash"]),
    )


def _info_from_json(data: Mapping[str, Any]) -> ServerInfo:
    era = data["era"]
    if era not in ("modern", "handshake"):
        message = f"era {era!r}"
        raise ValueError(message)
    return ServerInfo(
        name=as_string(data["name"]),
        version=as_string(data["version"]),
        protocol=as_string(data["protocol"]),
        era=era,
        instructions=as_string(data["instructions"]),
        capabilities=as_table(data["capabilities"]),
    )


_MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


class StoredFile:
    """A stored tool file, which decodes only the part that is requested."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._content = content
        self._body = content.find(b"\n") + 1
        self._index: Mapping[str, Any] | None = None
        self._head: Head | None = None
        self._whole: ToolFile | None = None
        first = self._content[: self._body]
        if not first.endswith(TOOLS):
            return
        try:
            data = json.loads(first + b"]}")
            # Another size means that tools were edited by hand, and the offsets may be wrong.
            fits = data["size"] == len(self._content) - self._body
            if fits and data["schema_version"] == SCHEMA_VERSION and data["server"] == self._path.stem:
                self._head, self._index = Head(**_head_fields(data)), dict(data["index"])
        except _MISSHAPEN:
            return

    @property
    def head(self) -> Head:
        """The content of the tool file without the tools, decoded from the first line if that is valid.

        Raises `CorruptFile`, or `StoreError` if a newer pflow wrote it.
        """
        return self._head or self.whole

    @property
    def whole(self) -> ToolFile:
        """The whole content of the tool file, decoded once; raises the errors of `head`."""
        if self._whole is None:
            decoded = decode(self._path, self._content)
            if decoded.server != self._path.stem:
                raise storage.CorruptFile(self._path, f"contains the tools of server {decoded.server}")
            self._whole = decoded
        return self._whole

    def names(self, beginning: str) -> tuple[str, ...]:
        """Return the raw names of the tools in this file with this prefix; raises the errors of `head`."""
        if self._index is None:
            return tuple(tool.name for tool in self.whole.tools if tool.name.startswith(beginning))
        typed = re.escape(json.dumps(beginning)[1:-1].encode("ascii"))
        # The name stands at the beginning of a tool's line; see `encode`.
        found = re.findall(rb'\n\{"name": ("%b(?:[^"\\]|\\.)*")' % typed, self._content)
        return tuple(json.loads(name) for name in found)

    def claiming(self, part: str) -> tuple[SyncedTool, ...]:
        """Decode only the stored tools whose part of a node type is `part`; raises the errors of `head`."""
        if self._index is not None:
            try:
                tools: list[SyncedTool] = []
                for offset in self._index.get(part, ()):
                    begin = self._body + offset
                    line = self._content[begin : self._content.index(b"\n", begin)]
                    tools.append(synced_from_json(json.loads(line.removesuffix(b","))))
                if all(naming.tool_part(each.tool.name) == part for each in tools):
                    return tuple(tools)
                self._index = None  # the index is wrong
            except _MISSHAPEN:  # edited by hand; the tools may still be valid
                self._index = None
        return tuple(each for each in self.whole.synced if naming.tool_part(each.tool.name) == part)


READ_RESOURCE = Tool(
    name="read-resource",
    title="Read a resource",
    description="Read a resource of the server by its URI, such as one that the result of a tool links to",
    input_schema={
        "type": "object",
        "properties": {
            "uri": {"type": "string", "minLength": 1, "description": "The URI of the resource"},
        },
        "required": ["uri"],
        "additionalProperties": False,
    },
    annotations={"readOnlyHint": True},  # resources are data that a server exposes to be read
    method="resources/read",
)
"""What is called like a tool to read a resource; no server lists it, and it needs no approval."""
