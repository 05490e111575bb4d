"""Explains failures: gathers what is known when a connection fails, and turns it into one of our errors.

The causes at the server are here too: its process, the lines it writes, its socket, its JSON-RPC errors.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from pflow_mcp_plugin.client.deadlines import Deadline
from pflow_mcp_plugin.client.failures.evidence import (
    Evidence,
    failure,
    invalid_json,
    not_message,
    plain,
    too_large,
)
from pflow_mcp_plugin.client.failures.http_failures import advice, from_network, from_status
from pflow_mcp_plugin.client.request_failures import (
    Exchange,
    NoAccessToken,
    RequestFailed,
    Undelivered,
    causes,
    in_words,
    leaves,
)
from pflow_mcp_plugin.client.server_process import runner
from pflow_mcp_plugin.config.display import command_line
from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.errors import DeadlineExceeded, McpError, Phase
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable, KeyNotPinned
from pflow_mcp_plugin.network.egress import HostRefused
from pflow_mcp_plugin.redaction import Redactor

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.negotiation import VersionConflict
    from pflow_mcp_plugin.client.transport.http_transports import HttpTransport
    from pflow_mcp_plugin.client.transport.line_transports import LineTransport
    from pflow_mcp_plugin.processes.process_group import ProcessGroup

_LAST_WORDS_SECONDS = 0.5
"""How long the explainer of a failure waits for the process to end and its stderr to be read."""
E = TypeVar("E", bound=McpError)
T = TypeVar("T")


class Explainer:
    """The explainer of one connection: gathers the evidence when it fails, and returns our error."""

    def __init__(self, launch: Launch, process: ProcessGroup | None, stderr_folder: Path | None) -> None:
        # The transport, once it exists, is one of these two.
        self.lines: LineTransport | None = None
        self.remote: HttpTransport | None = None
        self.memory_mb: float | None = None  # what it used when it was ended for exceeding its limit
        self.installer = ""  # the package runner that was still installing it when its start took too long
        self._launch = launch
        self._process = process
        self._stderr_folder = stderr_folder

    async def explained(
        self,
        error: BaseException,
        phase: Phase,
        *,
        tool: str = "",
        passed: Deadline | None = None,
        closed: bool = False,
        answered: bool = False,
    ) -> McpError:
        returncode = None
        if passed is None and self.lines is not None and self._process is not None:
            if self.lines.finished:  # a process that closed its stdout is given a moment to exit
                await self.lines.exited(_LAST_WORDS_SECONDS)
                if self._process.returncode is not None:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.lines.stderr.closed.wait(), _LAST_WORDS_SECONDS)
            returncode = self.lines.exit_code
        leaf, redactor = next(leaves(error)), self._launch.redactor
        # A deadline carries no details of the request; the status shows that the server had answered at all.
        status = self.remote.status if passed is not None and self.remote is not None else None
        known = leaf.exchange if isinstance(leaf, RequestFailed) else Exchange(status=status)
        exchange = attrs.evolve(
            known,
            headers=redactor.value(dict(known.headers)),
            body=redactor.piece(known.body),
            unsent=any(isinstance(cause, Undelivered) for cause in causes(leaf)),
            answered=answered,
            replies=self.remote.unmatched if self.remote is not None else 0,
        )
        evidence = Evidence(
            server=self._launch.server,
            phase=phase,
            tool=tool,
            passed=passed,
            installer=self.installer if passed else "",
            config_file=self._launch.config_file,
            returncode=returncode,
            memory_mb=self.memory_mb,
            stderr="" if self.lines is None else _fit(self.lines.stderr.text, redactor.piece),
            stderr_folder=self._stderr_folder,
            seen=self.lines.seen if self.lines is not None else None,
            exchange=exchange,
            closed=closed,
            blank_notes=self._launch.blank_notes,
            blank_steps=self._launch.blank_steps,
            redactor=redactor,
        )
        return explain(error, evidence)


def explain(error: BaseException, evidence: Evidence) -> McpError:
    """Translate a failure into one of our errors, redacted, with the original as `__cause__`."""
    # The order matters: a process that exits, for example, also breaks its pipes, and the SDK then reports
    # "Connection closed". The first witness is the closest to the cause.
    found = (
        from_memory(evidence)
        or from_seen(evidence)
        or _from_deadline(evidence)
        or from_exit(evidence)
        or from_socket(evidence, error)
        or from_network(evidence, error)
        or from_status(evidence)
        or from_error(error, evidence)
    )
    found.__cause__ = error
    return fit_to_show(found, evidence.redactor)


def fit_to_show(error: E, redactor: Redactor) -> E:
    """Redact an explained failure and remove terminal codes: parts of it come from the server."""
    error.message = _fit(error.message, redactor.text)
    error.args = (error.message,)
    error.details = redactor.value(error.details)
    error.suggestions = tuple(_fit(step, redactor.text) for step in error.suggestions)
    return error


def _fit(text: str, redact: Callable[[str], str]) -> str:
    """Redact an explained failure twice: a removed terminal code may have been in a secret, or split it."""
    return redact(plain(redact(text)))


def _from_deadline(evidence: Evidence) -> McpError | None:
    if evidence.passed is None:
        return None
    if evidence.exchange.unsent:
        return stopped_reading(evidence)
    name, field, late = evidence.server.name, evidence.passed.name, evidence.passed.seconds
    unmatched = evidence.seen.unmatched if evidence.seen else evidence.exchange.replies
    note = f"; {unmatched} replies matched no request" if unmatched else ""
    if evidence.installer:
        note = f": {evidence.installer} may still have been installing it"
    setting = f"{field} of server {name}"
    if evidence.config_file is not None:
        setting = f"{server_path(name)}.{field} in {evidence.config_file}"
    if not evidence.calling:
        return failure(
            f"Server {name} did not finish its {evidence.phase} within {late:g} s{note}",
            evidence,
            retryable=True,
            next_step=unreachable_step(evidence.stderr) or f"raise {setting} if it needs longer",
            seconds=late,
            status=evidence.exchange.status,
        )
    return DeadlineExceeded(
        f"Tool {evidence.tool} on server {name} did not answer within {late:g} s ({field}){note}",
        where=evidence.where,
        ran="unknown",
        next_step=f"raise {setting} if the tool needs longer",
        seconds=late,
        stderr=evidence.stderr,
    )


def run_sign_in(launch: Launch, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Explain what fails, as for a connection, while a login or another coroutine is run without one."""
    from asyncio import run

    try:
        return run(action())
    except (NoAccessToken, HostRefused, KeyNotPinned, CertificatesUnreadable) as error:
        evidence = Evidence(
            server=launch.server,
            phase="connect",
            exchange=Exchange(error=error, unsent=True),
            blank_notes=launch.blank_notes,
            blank_steps=launch.blank_steps,
            redactor=launch.redactor,
        )
        raise explain(error, evidence) from error


_NEEDS_OLDER_SDK = re.compile(
    r"No module named 'mcp\.server\.|cannot import name '\w+' from 'mcp[.']|"
    r"'Server' object has no attribute '(?:list|call|get|read)_"
)
"""What servers written for version 1 of the Python SDK say when they are started with version 2."""

_UNREACHABLE = re.compile(
    r"\b(?:ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH)\b|"
    r"getaddrinfo (?:failed|error)|name resolution|name or service not known|nodename nor servname|"
    r"could not resolve host|no such host|failed to lookup address|connection refused|"
    r"network is unreachable|no route to host",
    re.IGNORECASE,
)
"""What programs write to stderr that cannot reach a host: error codes of Node, words of the C library."""


def unreachable_step(stderr: str) -> str:
    """Return the next step if the stderr says that the server could not reach a host, otherwise `""`."""
    found = _UNREACHABLE.search(stderr)
    if found is None:
        return ""
    words = found[0] if found[0].isupper() else found[0].lower()
    return f"it could not reach a host ({words}): check its address in the stderr, the network and the proxy"


def from_seen(evidence: Evidence) -> McpError | None:
    """Explain a failure by what the transport noticed in the server's lines."""
    seen = evidence.seen
    if seen is None:
        return None
    if seen.invalid_json is not None:
        return invalid_json(seen.invalid_json, evidence, seen.fault)
    if seen.is_echo and not evidence.calling:
        message = f"Server {evidence.server.name} sends back what it is sent: it is not an MCP server"
        step = f"check its command: {command_line(evidence.server)}"
        return failure(message, evidence, next_step=step)
    if seen.too_long is not None:
        return too_large("a message", seen.too_long, evidence)
    return stopped_reading(evidence) if seen.write_timed_out else None


def from_memory(evidence: Evidence) -> McpError | None:
    """Explain a failure by the memory limit, at which the server's processes were ended."""
    name, used, limit = evidence.server.name, evidence.memory_mb, evidence.server.memory_limit_mb
    if used is None or limit is None:
        return None
    return failure(
        f"Server {name} was ended: {excess(used, limit)}",
        evidence,
        retryable=evidence.calling and evidence.exchange.unsent,
        next_step=f"ask it for less, or raise memory_limit_mb of server {name} in mcp-servers.toml",
        exit_code=None,  # it was not the server that exited
        memory_mb=round(used, 1),
        memory_limit_mb=limit,
    )


def excess(used: float, limit: float) -> str:
    """Return the explanation that a server's processes exceeded its memory limit, and by how much."""
    return f"its processes used {used:,.1f} MiB of memory, more than its memory_limit_mb of {limit:.10g}"


def stopped_reading(evidence: Evidence) -> McpError:
    """Explain that the server did not read a message in time."""
    name = evidence.server.name
    message = f"Server {name} stopped reading: a message could not be written within its deadline"
    step = f"check whether server {name} hangs; call_timeout is how long it may refuse to read"
    if evidence.reached or not evidence.calling:
        return failure(message, evidence, next_step=step)
    return DeadlineExceeded(message, where=evidence.where, next_step=step, stderr=evidence.stderr)


def from_exit(evidence: Evidence) -> McpError | None:
    """Explain a failure by the exit of the server's process."""
    code = evidence.returncode
    if code is None:
        return None
    name, how = evidence.server.name, f"exited {code}"
    if code < 0:
        known = {each.value: each.name for each in signal.Signals}
        how = f"was killed by {known.get(-code, f'signal {-code}')}"
    if not evidence.calling and evidence.phase != "list":
        step = unreachable_step(evidence.stderr)
        if _NEEDS_OLDER_SDK.search(evidence.stderr):
            how_to = "install mcp<2 beside it"
            if runner(evidence.server) == "uvx":
                how_to = "put --with=mcp<2 before the package in its args"
            step = f"it was written for version 1 of the MCP SDK: {how_to}"
        step = step or f"run its command by itself to see why: {command_line(evidence.server)}"
        return failure(f"Server {name} {how} before the handshake", evidence, next_step=step)
    middle = " in the middle of a message" if evidence.seen is not None and evidence.seen.unfinished else ""
    return failure(
        f"MCP server process terminated unexpectedly: {name} {how}{middle}",
        evidence,
        retryable=evidence.exchange.unsent,
        next_step="look at its stderr; check what it had done before you run this again",
    )


def from_socket(evidence: Evidence, error: BaseException) -> McpError | None:
    """Explain why a Unix socket or a named pipe could not be connected to."""
    leaf = next(leaves(error))
    opening = evidence.phase in ("start", "connect")
    if evidence.server.transport not in ("uds", "pipe") or not opening or not isinstance(leaf, OSError):
        return None
    server = evidence.server
    start = "check that it runs" if server.command else "start it, or set command so that pflow starts it"
    text, step = {
        FileNotFoundError: (f"socket not found: {server.path}", f"check its path; {start}"),
        ConnectionRefusedError: (f"nothing listens on the socket at {server.path}", start),
        PermissionError: (f"permission denied: {server.path}", "check the permissions of the socket"),
    }.get(type(leaf), (f"no connection to {server.path}: {leaf.strerror or leaf}", "check its path"))
    retryable = isinstance(leaf, ConnectionRefusedError)
    return failure(f"Server {server.name}: {text}", evidence, retryable=retryable, next_step=step)


_SHOWN = 200
"""Characters of a violation of the JSON-RPC protocol that go into a message."""

# Error codes of JSON-RPC 2.0 (section 5.1), of MCP, and, for the first two, of its SDKs.
_CONNECTION_CLOSED = -32000
_REQUEST_TIMEOUT = -32001
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_PARSE_ERROR = -32700
_VERSION_REFUSED = -32022
_NEVER_BEGUN = {_METHOD_NOT_FOUND, _INVALID_PARAMS, -32020, -32021, _VERSION_REFUSED}
"""JSON-RPC codes of a request that did not run; the last three refuse headers, capabilities, version."""


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
        message = f"Tool {evidence.tool} on server {name} asks for {leaf.wanted}, which a run cannot provide"
        return failure(message, evidence, next_step="pass it as an argument, if the tool accepts that")
    if isinstance(leaf, Undelivered):
        return failure(
            f"The arguments of tool {evidence.tool} on server {name} cannot be written as JSON: "
            f"{evidence.words(str(leaf), _SHOWN)}",
            evidence,
            next_step="pass JSON values: strings, numbers, lists and objects",
        )
    if isinstance(leaf, ValidationError):
        faults = leaf.errors()
        # A content block has faults for each possible type; a fault of `type` itself rules that type out.
        others = {fault["loc"][:-1] for fault in faults if fault["type"] == "literal_error"}
        first = next((it for it in faults if it["loc"][:-1] not in others), faults[0])
        place = ".".join(str(part) for part in first["loc"])
        fault = evidence.words(f"{place}: {first['msg']}", _SHOWN)
        message = f"Server {name} returned an invalid result: {fault}"
        return failure(message, evidence, next_step="report it to the server's author")
    if isinstance(leaf, MCPError):
        return _from_rpc(leaf, evidence)
    return failure(
        f"Unexpected error with server {name}: {in_words(leaf, evidence.redactor)}",
        evidence,
        next_step=f"look at the log of server {name}; report this to the authors of pflow-mcp",
    )


def _version_refused(conflict: VersionConflict, evidence: Evidence) -> McpError:
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    name, server = evidence.server.name, evidence.server
    offered = evidence.words(", ".join(conflict.offered), _SHOWN)
    offers = f"offers {offered}" if offered else "does not say which it supports"
    wanted = evidence.words(conflict.wanted, _SHOWN)
    known = (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)
    common = {*known} & {*conflict.offered}
    step = f"upgrade the server: pflow accepts {', '.join(known)}"
    if server.protocol != "auto":
        step = f'set protocol = "auto" for server {name}, or {step}'
    elif common:
        step = f'set protocol = "{max(common)}" for server {name}'
    return failure(
        f"MCP protocol version not supported: server {name} {offers}, pflow requires {wanted}",
        evidence,
        ran="not ran",
        next_step=step,
        offered=evidence.redactor.value(conflict.offered[:20]),
        wanted=wanted,
    )


def _from_rpc(error: Any, evidence: Evidence) -> McpError:
    code, text, name = error.code, evidence.words(error.message) or "no reason given", evidence.server.name
    # The SDK reports a closed connection by a code that servers may use too (JSON-RPC 2.0, section 5.1), and
    # by this message if it notices the end before the transport does.
    if code == _CONNECTION_CLOSED and (evidence.closed or text == "Connection closed"):
        step = "look at its log; check what it had done before you run this again"
        unsent = evidence.exchange.unsent
        return failure(
            f"Server {name} closed the connection", evidence, retryable=unsent, next_step=step, code=code
        )
    # So begins our own error for an unreadable answer; a server's reads differently.
    if code == _PARSE_ERROR and text.startswith("Failed to parse "):
        return not_message(evidence)
    # With any other code, the tool may have run and not found something.
    is_unknown = evidence.calling and code in (_METHOD_NOT_FOUND, _INVALID_PARAMS)
    if is_unknown and says_tool_is_gone(text, evidence.tool):
        return McpError(
            f"Tool {evidence.tool} not found on server {name}",
            where=evidence.where,
            next_step=f"run: pflow mcp sync {name}",
            kind="not_found",
            action="resource_missing",
            code=code,
        )
    step = f"look up the code in the documentation of server {name}, and check its log"
    if code == _INVALID_PARAMS and evidence.tool:
        step = f"check the arguments: {evidence.where.info_command} shows its parameters"
    elif code == _REQUEST_TIMEOUT:
        step = advice("timeout", evidence.server)
    redacted = evidence.redactor.value(error.data)
    data = json.dumps(redacted, ensure_ascii=False)  # only the beginning of a long one is kept
    known = {_METHOD_NOT_FOUND: "Method not found", _INVALID_PARAMS: "Invalid params"}.get(code)
    place = f"{evidence.tool} on server {name}" if evidence.tool else f"server {name}"
    return failure(
        f"{known}: {place}: {text}" if known else f"Server {name} answered with error {code}: {text}",
        evidence,
        ran="not ran" if code in _NEVER_BEGUN else "unknown",
        next_step=step,
        code=code,
        server_data=redacted if evidence.words(data) == data else evidence.words(data),
    )


def says_tool_is_gone(text: str, tool: str) -> bool:
    """Whether a server's JSON-RPC error explains a failure in words: that the tool is unknown."""
    # Only the beginning: a tool that did run may quote such words from elsewhere.
    name = rf"\W{{0,3}}{re.escape(tool)}(?!\w)"
    said = rf"(unknown tool{name}|tool not found{name}|tool{name}\W{{0,3}}not found)"
    return re.match(rf"\W{{0,3}}(MCP error -\d+\W{{1,3}})?{said}", text, re.IGNORECASE) is not None
