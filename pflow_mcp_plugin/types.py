"""Types that the rooms of the MCP side share: a server's config, its tools and description, and presets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import attrs

from pflow_mcp_plugin.contract import NetworkRules
from pflow_mcp_plugin.contract.validators import ByFields

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSONObject
    from pflow_mcp_plugin.server_preset import PresetInput, ServerPreset

__all__ = [
    "Method",
    "NetworkRules",
    "PresetInput",
    "Server",
    "ServerInfo",
    "ServerPreset",
    "Tool",
    "ToolFilter",
    "ToolRecord",
    "Transport",
]

_VERSION = r"v?\d[\d.]{0,19}([-+.]?[a-z]{1,5}[\d.]{0,9}){0,2}"
"""Numbers, and short words such as `rc` and `beta`: too short to hold a sentence."""

Transport = Literal["stdio", "http", "sse", "uds", "pipe"]
Method = Literal["tools/call", "resources/read"]


class ToolFilter(NamedTuple):
    """The type of a `Server`'s filter of tools: globs over raw names. An empty `allow` allows all.

    Attributes:
        allow: Tools that match one of these become nodes.
        deny: Except those that match one of these.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def allows(self, tool: str) -> bool:
        """Whether a `ToolFilter` lets its `Server` offer a tool, by the raw name."""
        allowed = not self.allow or any(fnmatchcase(tool, glob) for glob in self.allow)
        return allowed and not any(fnmatchcase(tool, glob) for glob in self.deny)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Server(ByFields):
    """A configured server, the type that all rooms share: checked, with defaults filled in.

    Times are in seconds. Values may hold `${VAR}` references until they are expanded.

    Attributes:
        name: `[a-z0-9-]+`.
        transport: How it is reached.
        command: Program of a stdio server (also starts uds and pipe servers).
        args: Its arguments.
        env: Variables passed to it in addition to the few that every server receives.
        cwd: Its working folder; None is the folder pflow runs in.
        path: Socket or pipe path, for uds and pipe.
        url: Endpoint, for http and sse.
        headers: HTTP headers, for http and sse.
        auth: The `auth` table as configured.
        timeout: One HTTP exchange; for a call, a `call_timeout` above its default takes precedence.
        sse_timeout: Silence allowed on an event stream.
        insecure: Whether plain http to a host that is not loopback is allowed.
        tls_pins: SHA-256 hashes of public keys in base64, of which the server must have one; or the path of a
            file with one on each line.
        ca_bundle: File or folder of the only CAs that are trusted, empty for those of the system.
        client_cert: The file with the client's certificate and key, or a file for each.
        network: Which hosts and addresses it may be reached at.
        startup_timeout: From start to the end of the handshake. None is 30, and 300 while a package runner
            such as npx installs the server.
        list_timeout: One tools/list with all its pages.
        call_timeout: Silence allowed during a call; progress resets it.
        call_timeout_max: A call in total.
        protocol: `auto`, `handshake` or a protocol version.
        tools: Which tools become nodes.
        rename: Raw tool name to the name for its node.
        idempotency_argument: Raw tool name to the argument for a key: calls with the same key are done once.
        verify: Raw tool name to the table of a recipe, which finds out whether a call of the tool happened.
        trust_readonly: Whether `readOnlyHint` is believed.
        trust_idempotent: Whether `idempotentHint` is believed.
        trust: With `pin`, a tool that changed may run only once the change is approved; `auto` approves all.
        memory_limit_mb: What its processes may use together, in MiB; None for no limit.
        disabled: Kept in the config, not used.
        max_line_mb: Cap on one message, in MiB.
        inline_limit_kb: A longer text in a result is also written to a file, in KiB; it is shortened where
            it is shown, never as a value.
        preset: The preset that it was added from.
    """

    name: str
    transport: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = attrs.field(default=(), repr=False)
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    cwd: str | None = None
    path: str = ""
    url: str = attrs.field(default="", repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    auth: JSONObject = attrs.field(factory=dict, repr=False)
    timeout: float = 30.0
    sse_timeout: float = 300.0
    insecure: bool = False
    tls_pins: tuple[str, ...] | str = ()
    ca_bundle: str = ""
    client_cert: tuple[str, ...] = ()
    network: NetworkRules = attrs.field(factory=NetworkRules)
    startup_timeout: float | None = None
    list_timeout: float = 5.0
    call_timeout: float = 30.0
    call_timeout_max: float = 600.0
    protocol: str = "auto"
    tools: ToolFilter = attrs.field(factory=ToolFilter)
    rename: Mapping[str, str] = attrs.field(factory=dict)
    idempotency_argument: Mapping[str, str] = attrs.field(factory=dict)
    verify: Mapping[str, Any] = attrs.field(factory=dict)
    trust_readonly: bool = False
    trust_idempotent: bool = False
    trust: Literal["pin", "auto"] = "pin"
    memory_limit_mb: float | None = None
    disabled: bool = False
    max_line_mb: float = 256
    inline_limit_kb: float = 256
    preset: str = ""

    @property
    def owner(self) -> str:
        """What messages in all rooms call a `Server`: `server files`."""
        return f"server {self.name}"

    @property
    def is_remote(self) -> bool:
        """Whether the transport of this `Server` is `http` or `sse`."""
        return self.transport in ("http", "sse")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Tool(ByFields):
    """A tool as its server described it, the type that all rooms share.

    Attributes:
        name: The raw name.
        description: As the server sent it.
        input_schema: JSON Schema of the arguments, unchanged.
        output_schema: JSON Schema of the structured result, unchanged; None if the tool declares none.
        annotations: The server's hints (`readOnlyHint`, ...), which may be wrong.
        title: A name for people.
        meta: The tool's `_meta`.
        task_support: Whether it runs as a task (`execution.taskSupport`): `required`, `optional`, `forbidden`
            or empty.
        method: The method of the protocol that calls it; `resources/read` for what reads resources.
        hash: `sha256:...` over all of it except `meta`; see `catalog.json_values`.
    """

    name: str
    description: str = ""
    input_schema: JSONObject = attrs.field(factory=dict)
    output_schema: JSONObject | None = None
    annotations: JSONObject = attrs.field(factory=dict)
    title: str = ""
    meta: JSONObject = attrs.field(factory=dict)
    task_support: str = ""
    method: Method = "tools/call"
    hash: str = ""


def plain_version(version: str) -> str:
    """Return the version of a `ServerInfo` if it looks like one, else empty: models read it unapproved."""
    return version if re.fullmatch(_VERSION, version) else ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerInfo(ByFields):
    """What a connected server says about itself, the type that all rooms share.

    Attributes:
        name: Its own name, empty if it sends none.
        version: Its own version.
        protocol: The negotiated protocol version, e.g. `2025-11-25`.
        era: `modern` (stateless) or `handshake`.
        instructions: Its instructions for agents.
        capabilities: As sent.
    """

    name: str = ""
    version: str = ""
    protocol: str = ""
    era: Literal["modern", "handshake"] = "handshake"
    instructions: str = ""
    capabilities: JSONObject = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolRecord(ByFields):
    """The type that the rooms share for a synced tool: all versions of it, and what a call of it needs.

    Attributes:
        server: The server's name.
        node: The node type it is registered as.
        tool: What may be shown of it: the version that was approved. Of one that nobody approved, the name in
            its node type and the number of its arguments.
        found: The tool as its last sync found it, which is what a call meets.
        is_approved: Whether a version of it was approved.
        info: The server's description of itself at the last sync.
        manifest_hash: Hash of all tools of that sync.
        config_fingerprint: Fingerprint of the server's config at that sync.
        launch: Identity of the launch at that sync; None if an older version made it.
        withheld: Why the tool, or its server, may not be used before it is approved; empty if it may.
        is_server_withheld: Whether that concerns all tools of its server.
    """

    server: str
    node: str
    tool: Tool
    found: Tool = attrs.Factory(lambda self: self.tool, takes_self=True)
    is_approved: bool = True
    info: ServerInfo = attrs.field(factory=ServerInfo)
    manifest_hash: str = ""
    config_fingerprint: str = ""
    launch: JSONObject | None = None
    withheld: str = ""
    is_server_withheld: bool = False

    @property
    def has_changed(self) -> bool:
        """Whether the server's `Tool` in this `ToolRecord` differs from the approved one."""
        return self.is_approved and self.found is not self.tool


def __getattr__(name: str) -> Any:
    """Return a shared type for presets, whose module is loaded only where presets are asked for."""
    if name not in ("PresetInput", "ServerPreset"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pflow_mcp_plugin import server_preset

    return getattr(server_preset, name)
