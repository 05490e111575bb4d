"""What is exchanged with a server: a launch, a list of tools, a call and its result.

They are passed between the rooms of the MCP side, and to plugins of this plugin. Commands that
talk to no server do not load this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.validators import each, is_a, items
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.types import Method, Server, ServerInfo, Tool


def setting(variable: str) -> str:
    """For a variable that a `Launch` lacks: return the command to set it, unseen by shell history."""
    return f"pflow settings set {variable} -"


def _report_to_nobody(secrets: Iterable[str]) -> None:
    """Drop the secrets that a `Launch` reports and nobody asks for; unlike a lambda, it can be pickled."""


@attrs.frozen(kw_only=True)
class Launch:
    """A launch, the beginning of an exchange with a server: its config with every `${VAR}` expanded.

    Attributes:
        server: The config with expanded values.
        fingerprint: Hash of the config as written, before expansion; if it changes, a sync is due.
        secrets: Expanded values that must be redacted.
        unset: Variables of `env` that were not set and became the empty string.
        empty: Those that were set to the empty string.
        era: Protocol era of the last connection with this config: `modern`, `handshake`, or None if unknown.
        sign_in_folder: Where sign-ins are kept; None for the usual folder.
        config_file: The file with the server's config, for messages; None if there is none.
        program: Where the last sync found the program of its command, tried if `PATH` has none.
        synced: The hash of the tools that the last sync with this config found; empty without one.
        variables: The variables that decide what is started or reached, with their values; those that only
            bring a secret are left out.
        report: Called with secrets that are learned during the exchange, such as a new access token.
        redactor: Redacts `secrets`, and those that are learned.
    """

    server: Server
    fingerprint: str = ""
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)
    unset: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    era: Literal["modern", "handshake"] | None = None
    sign_in_folder: Path | None = None
    config_file: Path | None = None
    program: str = ""
    synced: str = ""
    variables: Mapping[str, str] = attrs.field(factory=dict)
    report: Callable[[Iterable[str]], object] = attrs.field(default=_report_to_nobody, eq=False, repr=False)
    redactor: Redactor = attrs.field(factory=Redactor, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.redactor.add(self.secrets)  # `attrs.evolve` passes that of another launch

    def learn(self, secrets: Iterable[str]) -> None:
        """Redact secrets learned since the launch from all that is shown of the exchange with this server."""
        values = tuple(filter(None, secrets))
        self.redactor.add(values)
        self.report(values)

    @property
    def blank_notes(self) -> tuple[str, ...]:
        said = (("Not set and passed as empty", self.unset), ("Set to the empty string", self.empty))
        return tuple(f"{what}: {', '.join(names)}" for what, names in said if names)

    @property
    def blank_steps(self) -> tuple[str, ...]:
        return tuple(f"if it needs {name}: {setting(name)}" for name in (*self.unset, *self.empty))

    @cached_property
    def key(self) -> str:
        """The hash of a `Launch` with its expanded config: those with equal ones share a connection."""
        import json
        from hashlib import sha256

        config = json.dumps(attrs.asdict(self.server), sort_keys=True, default=str)
        return sha256(config.encode("utf-8", "surrogatepass")).hexdigest()


@attrs.frozen(kw_only=True)
class Listing:
    """The exchange of a tool list: a server's answer to one whole `tools/list`.

    Attributes:
        info: The server that answered.
        tools: The valid tools, in the server's order.
        skipped: `(name, reason)` of the invalid ones.
        has_resources: Whether it lists resources that can be read, or templates of their URIs.
        notes: Other findings, e.g. that a page cursor repeated.
        timings: Milliseconds of each phase: `start`, `handshake`, `list`.
        memory_mb: Resident memory of the server's process group in MiB, None if unknown.
    """

    info: ServerInfo
    tools: tuple[Tool, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    has_resources: bool = False
    notes: tuple[str, ...] = ()
    timings: Mapping[str, float] = attrs.field(factory=dict)
    memory_mb: float | None = None


@attrs.frozen(kw_only=True)
class ToolCall:
    """The request of an exchange: a tool call about to be made, as hooks receive it.

    Attributes:
        server: The server's name.
        tool: The raw tool name.
        label: What errors, spans and traces call the tool: its name, or, if nobody approved the tool, that in
            its node type.
        arguments: The arguments to send; JSON values.
        method: `tools/call`, or `resources/read`: then `arguments` has the `uri` of a resource, and `tool` is
            `read-resource`.
        node_id: The calling workflow node, empty outside a run.
        run_id: The run, empty outside a run.
        locked_version: What the server must report as its version for the call to be sent; None for any.
    """

    server: str
    tool: str
    label: str = attrs.Factory(lambda self: self.tool, takes_self=True)
    arguments: JSONObject = attrs.field(factory=dict, validator=is_a(Mapping))
    method: Method = "tools/call"
    node_id: str = ""
    run_id: str = ""
    locked_version: str | None = None


@attrs.frozen(kw_only=True)
class CallResult:
    """The answer of an exchange: the result of a tool call, as hooks return it.

    Attributes:
        content: Content blocks as in the protocol (`{"type": "text", "text": ...}`), camelCase keys.
        structured: The structured content; any JSON value.
        has_structured: Whether there was structured content: say so only if it is None.
        is_error: Whether the tool reports a failure.
        meta: The result's `_meta`.
        info: The server that answered.
        milliseconds: From the request to the answer.
    """

    content: tuple[JSONObject, ...] = attrs.field(default=(), converter=items, validator=each(Mapping))
    structured: JSON = None
    has_structured: bool = False
    is_error: bool = False
    meta: JSONObject = attrs.field(factory=dict)
    info: ServerInfo = attrs.field(factory=ServerInfo)
    milliseconds: float = 0.0

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "has_structured", self.has_structured or self.structured is not None)
