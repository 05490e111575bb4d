"""What passes between us and a server: a launch, a listing, a call and its result.

These values cross between the rooms of the MCP side, and to plugins of this plugin. Commands that
talk to no server do without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import attrs

from pflow_mcp_plugin.types import Server, ServerInfo, Tool


@attrs.frozen(kw_only=True)
class Blanks:
    """Variables for which a server is given an empty text.

    Attributes:
        unset: Those that are not set.
        empty: Those that are set to nothing.
    """

    unset: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say of them when the server fails."""
        said = (("Not set and passed as empty", self.unset), ("Set to nothing and passed so", self.empty))
        return tuple(f"{what}: {', '.join(names)}" for what, names in said if names)

    @property
    def steps(self) -> tuple[str, ...]:
        """What to do about them."""
        return tuple(f"if it needs {name}: {setting(name)}" for name in (*self.unset, *self.empty))


def setting(variable: str) -> str:
    """Return the command that keeps a value for a variable without showing it to a shell's history."""
    return f"pflow settings set {variable} -"


@attrs.frozen(kw_only=True)
class Launch:
    """A server with every `${VAR}` expanded: ready to be started or reached.

    Attributes:
        server: The config with expanded values.
        fingerprint: Hash of the config as written, before expansion; tells whether a sync is due.
        secrets: Expanded values that must never be shown.
        unset: Variables of `env` that were not set and became the empty string.
        empty: Those that were set to the empty string.
        era: What the last connection with this config spoke: `modern`, `handshake`, or None if unknown.
    """

    server: Server
    fingerprint: str = ""
    secrets: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    era: Literal["modern", "handshake"] | None = None

    @property
    def blanks(self) -> Blanks:
        """The variables of `env` that have no value."""
        return Blanks(unset=self.unset, empty=self.empty)

    @cached_property
    def key(self) -> str:
        """Tells apart what may not share a connection: a hash of the whole expanded config."""
        import json
        from hashlib import sha256

        config = json.dumps(attrs.asdict(self.server), sort_keys=True, default=str)
        return sha256(config.encode("utf-8", "surrogatepass")).hexdigest()


@attrs.frozen(kw_only=True)
class Listing:
    """The answer to one whole tools/list.

    Attributes:
        info: Who answered.
        tools: The tools that are well formed, in the server's order.
        skipped: `(name, reason)` of those that are not.
        notes: What else was noticed, e.g. that a page cursor repeated.
        timings: Milliseconds of each phase: `start`, `handshake`, `list`.
        memory_mb: Resident memory of the server's process group in MiB, None where unknown.
    """

    info: ServerInfo
    tools: tuple[Tool, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    timings: Mapping[str, float] = attrs.field(factory=dict)
    memory_mb: float | None = None


@attrs.frozen(kw_only=True)
class ToolCall:
    """A call about to be made; what the call hooks are given.

    Attributes:
        server: The server's name.
        tool: The raw tool name.
        arguments: What is sent; JSON values.
        node_id: The workflow node that calls, empty outside a run.
        run_id: The run, empty outside one.
    """

    server: str
    tool: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    node_id: str = ""
    run_id: str = ""


@attrs.frozen(kw_only=True)
class CallResult:
    """What a tool answered.

    Attributes:
        content: Content blocks as in the protocol (`{"type": "text", "text": ...}`), camelCase keys.
        structured: The structured content; any JSON value.
        has_structured: Whether there was structured content (None is a value too).
        is_error: Whether the tool reports a failure.
        meta: The result's `_meta`.
        info: Who answered.
        milliseconds: From sending to the answer.
    """

    content: tuple[Mapping[str, Any], ...] = ()
    structured: Any = None
    has_structured: bool = False
    is_error: bool = False
    meta: Mapping[str, Any] = attrs.field(factory=dict)
    info: ServerInfo = attrs.field(factory=ServerInfo)
    milliseconds: float = 0.0
