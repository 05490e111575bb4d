"""JSON-RPC errors of servers, exceptions of the SDK, and violations of the protocol."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pflow_mcp_plugin.client.failures.evidence import Evidence, failure, not_message
from pflow_mcp_plugin.client.request_failures import Undelivered, in_words, leaves
from pflow_mcp_plugin.errors import McpError, Where

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.negotiation import VersionConflict

_SHOWN = 200
"""Characters of a violation of the JSON-RPC protocol that go into a message."""

# Error codes of JSON-RPC 2.0 (section 5.1), of MCP, and, for the first two, of its SDKs.
_CONNECTION_CLOSED = -32000
_REQUEST_TIMEOUT = -32001
_RESOURCE_NOT_FOUND = -32002
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_PARSE_ERROR = -32700
_CLOSED = "Connection closed"
"""The message of the SDK's JSON-RPC error if it notices the end before the transport does."""
_UNPARSED = "Failed to parse "
"""How our own JSON-RPC error for an unreadable answer begins; a server's error reads differently."""
_NO_WORDS = "no reason given"
_VERSION_REFUSED = -32022
_MOST_VERSIONS = 20
_NEVER_BEGUN = {_METHOD_NOT_FOUND, _INVALID_PARAMS, -32020, -32021, _VERSION_REFUSED}
"""JSON-RPC codes of a request that did not run; the last three refuse headers, capabilities, version."""
_UNKNOWN_TOOL = {_METHOD_NOT_FOUND, _INVALID_PARAMS}
"""JSON-RPC codes for an unknown tool; with any other, the tool may have run and not found something."""


def from_error(error: BaseException, evidence: Evidence) -> McpError:
    """Explain a JSON-RPC error, a violation of the protocol, or whatever else the SDK raised."""
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

    from pflow_mcp_plugin.client.negotiation import VersionConflict, version_conflict
    from pflow_mcp_plugin.client.session import InputRequired

    leaf = next(leaves(error))
    name = evidence.server.name
    if isinstance(leaf, MCPError) and leaf.code == _VERSION_REFUSED:
        requested = leaf.data.get("requested") if isinstance(leaf.data, dict) else None
        leaf = version_conflict(leaf, str(requested or evidence.server.protocol)) or leaf
    if isinstance(leaf, VersionConflict):
        return _version_refused(leaf, evidence)
    if isinstance(leaf, InputRequired):
        return failure(
            f"Tool {evidence.tool} on server {name} asks for {leaf.wanted}, which a run cannot provide",
            evidence,
            next_step="pass it as an argument, if the tool accepts that",
        )
    if isinstance(leaf, Undelivered):
        return failure(
            f"The arguments of tool {evidence.tool} on server {name} cannot be written as JSON: "
            f"{evidence.words(str(leaf), _SHOWN)}",
            evidence,
            next_step="pass JSON values: strings, numbers, lists and objects",
        )
    if isinstance(leaf, ValidationError):
        return _not_protocol(leaf, evidence)
    if isinstance(leaf, MCPError):
        return _from_rpc(leaf, evidence)
    return failure(
        f"Unexpected error with server {name}: {in_words(leaf, evidence.redactor)}",
        evidence,
        next_step=f"look at the log of server {name}; report this to the authors of pflow-mcp",
    )


def _version_refused(conflict: VersionConflict, evidence: Evidence) -> McpError:
    name, server = evidence.server.name, evidence.server
    offered = evidence.words(", ".join(conflict.offered), _SHOWN)
    offers = f"offers {offered}" if offered else "does not say which it supports"
    wanted = evidence.words(conflict.wanted, _SHOWN)
    return failure(
        f"MCP protocol version not supported: server {name} {offers}, pflow requires {wanted}",
        evidence,
        ran="not ran",
        next_step=_other_version(conflict.offered, server.protocol, name),
        offered=evidence.redactor.value(conflict.offered[:_MOST_VERSIONS]),
        wanted=wanted,
    )


def _other_version(offered: list[str], protocol: str, name: str) -> str:
    """Return the next step for a version that the server does not support."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    if protocol != "auto":
        return f'set protocol = "auto" for server {name}, or upgrade the server'
    common = [each for each in (*MODERN_PROTOCOL_VERSIONS, *HANDSHAKE_PROTOCOL_VERSIONS) if each in offered]
    if common:
        return f'set protocol = "{max(common)}" for server {name}'
    return f"upgrade the server, or set protocol of server {name}"


def _not_protocol(error: Any, evidence: Evidence) -> McpError:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    fault = evidence.words(f"{place}: {first['msg']}", _SHOWN)
    return failure(
        f"Server {evidence.server.name} returned an invalid result: {fault}",
        evidence,
        ran="ran",  # the tool has returned, whatever the server made of its result
        next_step="report it to the server's author",
    )


def _from_rpc(error: Any, evidence: Evidence) -> McpError:
    code, text, name = error.code, evidence.words(error.message) or _NO_WORDS, evidence.server.name
    # The SDK reports a closed connection by a code that servers may use too (JSON-RPC 2.0, section 5.1).
    if code == _CONNECTION_CLOSED and (evidence.closed or text == _CLOSED):
        step = "look at its log; check what it had done before you run this again"
        unsent = evidence.exchange.unsent
        return failure(
            f"Server {name} closed the connection", evidence, retryable=unsent, next_step=step, code=code
        )
    if code == _PARSE_ERROR and text.startswith(_UNPARSED):
        return not_message(evidence)
    if evidence.calling and code in _UNKNOWN_TOOL and says_tool_is_gone(text, evidence.tool):
        return tool_gone(evidence.where, code=code)
    redacted = evidence.redactor.value(error.data)
    data = json.dumps(redacted, ensure_ascii=False)  # of which only the beginning is kept if it is long
    known = {_METHOD_NOT_FOUND: "Method not found", _INVALID_PARAMS: "Invalid params"}.get(code)
    place = f"{evidence.tool} on server {name}" if evidence.tool else f"server {name}"
    failed = failure(
        f"{known}: {place}: {text}" if known else f"Server {name} answered with error {code}: {text}",
        evidence,
        ran="not ran" if code in _NEVER_BEGUN else "unknown",
        next_step=f"check the arguments: {evidence.where.info_command} shows its parameters"
        if code == _INVALID_PARAMS and evidence.tool
        else f"look up the code in the documentation of server {name}, and check its log",
        code=code,
        data=redacted if evidence.words(data) == data else evidence.words(data),
    )
    failed.action = {_RESOURCE_NOT_FOUND: "resource_missing", _REQUEST_TIMEOUT: "timeout"}.get(code, "error")
    return failed


def says_tool_is_gone(text: str, tool: str) -> bool:
    """Return whether the message of a JSON-RPC error begins by saying that the tool is unknown."""
    # Only the beginning: a tool that did run may quote such words from elsewhere.
    name = rf"\W{{0,3}}{re.escape(tool)}(?!\w)"
    said = rf"(unknown tool{name}|tool not found{name}|tool{name}\W{{0,3}}not found)"
    return re.match(rf"\W{{0,3}}(MCP error -\d+\W{{1,3}})?{said}", text, re.IGNORECASE) is not None


def tool_gone(where: Where, **facts: Any) -> McpError:
    """Return the failure for a JSON-RPC error which says that the tool no longer exists."""
    return McpError(
        f"Tool {where.tool} not found on server {where.server}",
        where=where,
        next_step=f"run: pflow mcp sync {where.server}",
        **facts,
        kind="not_found",
        action="resource_missing",
    )
