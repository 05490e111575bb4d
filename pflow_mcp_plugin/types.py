"""Values passed between the rooms of the MCP side: a server's config, its tools, presets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

if TYPE_CHECKING:
    from pflow_mcp_plugin.server_preset import PresetInput, ServerPreset

__all__ = [
    "PresetInput",
    "Server",
    "ServerInfo",
    "ServerPreset",
    "Tool",
    "ToolFilter",
    "ToolRecord",
    "Transport",
]

Transport = Literal["stdio", "http", "sse", "uds", "pipe"]


@attrs.frozen(kw_only=True)
class ToolFilter:
    """Globs over raw tool names; an empty `allow` allows all, `deny` wins."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Server:
    """A configured server, checked, with defaults filled in.

    Times are in seconds. Values may hold `${VAR}` references until they are expanded.

    Attributes:
        name: `[a-z0-9-]+`.
        transport: How it is reached.
        command: Program of a stdio server (also starts uds and pipe servers).
        args: Its arguments.
        env: Variables it gets in addition to the few that every server gets.
        cwd: Its working folder; None is the folder pflow runs in.
        path: Socket or pipe path, for uds and pipe.
        url: Endpoint, for http and sse.
        headers: HTTP headers, for http and sse.
        auth: The `auth` table as configured.
        timeout: One HTTP exchange; for a call, a `call_timeout` above its default takes precedence.
        sse_timeout: Silence allowed on an event stream.
        insecure: Whether plain http to a host that is not loopback is allowed.
        startup_timeout: From start to the end of the handshake. None is 30, and 300 while a package runner
            such as npx installs the server.
        list_timeout: One tools/list with all its pages.
        call_timeout: Silence allowed during a call; progress resets it.
        call_timeout_max: A call in total.
        protocol: `auto`, `handshake` or a protocol version.
        tools: Which tools become nodes.
        rename: Raw tool name to the name its node gets.
        trust_readonly: Whether `readOnlyHint` is believed.
        trust_idempotent: Whether `idempotentHint` is believed.
        disabled: Kept in the config, not used.
        max_line_mb: Cap on one message, in MiB.
        inline_limit_kb: A larger result goes to a file, in KiB.
        preset: The preset that it was added from.
    """

    name: str
    transport: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict)
    cwd: str | None = None
    path: str = ""
    url: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    auth: Mapping[str, Any] = attrs.field(factory=dict)
    timeout: float = 30.0
    sse_timeout: float = 300.0
    insecure: bool = False
    startup_timeout: float | None = None
    list_timeout: float = 5.0
    call_timeout: float = 30.0
    call_timeout_max: float = 600.0
    protocol: str = "auto"
    tools: ToolFilter = attrs.field(factory=ToolFilter)
    rename: Mapping[str, str] = attrs.field(factory=dict)
    trust_readonly: bool = False
    trust_idempotent: bool = False
    disabled: bool = False
    max_line_mb: float = 256
    inline_limit_kb: float = 256
    preset: str = ""


@attrs.frozen(kw_only=True)
class Tool:
    """A tool as its server described it.

    Attributes:
        name: The raw name.
        description: As the server sent it.
        input_schema: JSON Schema of the arguments, unchanged.
        output_schema: JSON Schema of the structured result, unchanged; None if the tool declares none.
        annotations: The server's hints (`readOnlyHint`, ...), which may be wrong.
        title: A name for people.
        meta: The tool's `_meta`.
        hash: `sha256:...` over name, description and both schemas.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = attrs.field(factory=dict)
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = attrs.field(factory=dict)
    title: str = ""
    meta: Mapping[str, Any] = attrs.field(factory=dict)
    hash: str = ""


@attrs.frozen(kw_only=True)
class ServerInfo:
    """A connected server's description of itself.

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
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ToolRecord:
    """A tool of the last sync, with the data needed to call it.

    Attributes:
        server: The server's name.
        node: The node type it is registered as.
        tool: The tool itself.
        info: The server's description of itself at the last sync.
        manifest_hash: Hash of all tools of that sync.
    """

    server: str
    node: str
    tool: Tool
    info: ServerInfo = attrs.field(factory=ServerInfo)
    manifest_hash: str = ""


def __getattr__(name: str) -> Any:
    """Return a class of `server_preset`, which is loaded only where presets are asked for."""
    if name not in ("PresetInput", "ServerPreset"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pflow_mcp_plugin import server_preset

    return getattr(server_preset, name)
