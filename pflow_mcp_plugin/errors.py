"""The tree of errors of the MCP side, from `McpError` down.

Every error names the server, the tool where there is one, the phase in which it happened, its
cause, whether the call ran, whether it may be sent again, and the next step. There are few
classes: errors differ in their fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pflow_mcp_plugin.contract import Kind, PflowError, Problem, Ran
from pflow_mcp_plugin.contract.problems import STATUS_ACTIONS

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSON

Phase = Literal["config", "start", "connect", "handshake", "list", "arguments", "call", "result", "close"]

_CODE_ACTIONS: Mapping[object, str] = {-32001: "timeout", -32002: "resource_missing"}
"""JSON-RPC codes: a request that timed out (in MCP's SDKs), and a resource that does not exist (in MCP)."""


class Where(NamedTuple):
    """Where an `McpError` happened: server, tool and phase.

    Attributes:
        server: The server's configured name.
        tool: The raw tool name, empty when no call was made.
        phase: What was being done.
        node: The node type of the tool, empty if unknown.
    """

    server: str = ""
    tool: str = ""
    phase: Phase = "call"
    node: str = ""

    @property
    def info_command(self) -> str:
        """The command that errors about wrong arguments suggest: it shows the tool's parameters."""
        from shlex import quote

        return f"pflow mcp info {quote(self.node or f'mcp-{self.server}-{self.tool}')}"


class McpError(PflowError):
    """The base of the error tree: a failure on the way to a server, in it, or on the way back.

    Args:
        message: What happened. Tests pin its beginning where the specification does.
        where: Server, tool and phase.
        kind: The error type in the JSON envelope.
        action: The action that the node returns; empty for that of the status or code in `facts`.
        ran: Whether the call reached its tool.
        retryable: Whether sending the same call again may succeed and does no harm.
        retry_after: Seconds to wait before a retry, as the server asks.
        next_step: What the user should do.
        problems: The findings of the check that failed, if one did.
        facts: JSON values for the envelope: exit code, stderr tail, status, code...
    """

    def __init__(  # noqa: PLR0913 - one argument for each field, by keyword
        self,
        message: str,
        *,
        where: Where,
        kind: Kind = "execution",
        action: str = "",
        ran: Ran = "not ran",
        retryable: bool = False,
        retry_after: float | None = None,
        next_step: str = "",
        problems: tuple[Problem, ...] = (),
        **facts: JSON,
    ) -> None:
        named = {"server": where.server, "tool": where.tool, "phase": where.phase}
        details: dict[str, object] = {key: value for key, value in named.items() if value}
        details |= {key: value for key, value in facts.items() if value is not None and value != ""}
        steps = (next_step,) if next_step else ()
        super().__init__(
            message,
            kind=kind,
            details=details,
            suggestions=steps,
            problems=problems,
            action=action
            or STATUS_ACTIONS.get(facts.get("status"))
            or _CODE_ACTIONS.get(facts.get("code"))
            or "error",
            ran=ran,
            retryable=retryable,
            retry_after=retry_after,
        )
        self.where = where


class ConnectionFailed(McpError):
    """The branch of the error tree for a server that could not be started, reached or understood."""

    def __init__(self, message: str, **given: Any) -> None:
        super().__init__(message, kind="connection", **given)


class CallFailed(McpError):
    """The branch of the error tree for a call that returned no result, or could not be made."""

    def __str__(self) -> str:
        """Return the message of this error, whose first line names tool and server in any case."""
        first, *rest = super().__str__().split("\n")
        named = (("tool", self.where.tool), ("server", self.where.server))
        missing = " on ".join(
            f"{what} {name}"
            for what, name in named
            if name and not re.search(rf"(?<![\w-]){what} {re.escape(name)}(?![\w-])", first, re.IGNORECASE)
        )
        return "\n".join([f"{first} ({missing})" if missing else first, *rest])


class DeadlineExceeded(CallFailed):
    """The branch of the error tree for a call that was cancelled at a deadline, which the message names."""

    def __init__(self, message: str, **given: Any) -> None:
        super().__init__(message, action="timeout", **given)


class CallRefused(CallFailed):
    """The error for a vetoed call: the `McpError` to raise from `pflow_mcp_prepare_call`."""
