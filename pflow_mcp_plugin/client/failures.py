"""What went wrong, translated into our error tree. The one place that does so.

A failure is explained from evidence: what the transport noticed, how the process ended, what the
HTTP exchange saw; the SDK's own words come last, for they name the least.
"""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.client.exchange import Exchange
from pflow_mcp_plugin.errors import (
    CallFailed,
    ConnectionFailed,
    DeadlineExceeded,
    McpError,
    Phase,
    Ran,
    ToolNotFound,
    Where,
)
from pflow_mcp_plugin.types import Server

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.messages import Observations

_TAIL_LINES = 12
_TAIL_CHARACTERS = 1500

# JSON-RPC and MCP error codes.
_CONNECTION_CLOSED = -32000
_REQUEST_TIMEOUT = -32001
_RESOURCE_NOT_FOUND = -32002
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602


@attrs.frozen(kw_only=True)
class Evidence:
    """What is known at the moment of a failure.

    Attributes:
        server: The server's config.
        phase: What was being done.
        tool: The raw tool name during a call.
        seconds: The deadline that passed, None if none did.
        deadline: Which deadline that was.
        returncode: How the process ended, None if it runs or there is none.
        stderr: The end of what the server wrote there, redacted.
        seen: What the stdio transport noticed.
        exchange: What the request saw.
        closed: Whether the connection is over.
        unset: Variables of `env` that were not set.
    """

    server: Server
    phase: Phase
    tool: str = ""
    seconds: float | None = None
    deadline: str = ""
    returncode: int | None = None
    stderr: str = ""
    seen: Observations | None = None
    exchange: Exchange = attrs.field(factory=Exchange)
    closed: bool = False
    unset: tuple[str, ...] = ()

    @property
    def where(self) -> Where:
        """Server, tool and phase."""
        return Where(server=self.server.name, tool=self.tool, phase=self.phase)

    @property
    def calling(self) -> bool:
        """Whether a call was under way."""
        return self.phase == "call"


def explain(error: BaseException, evidence: Evidence) -> McpError:
    """Return the failure in our terms; the cause is kept as `__cause__`."""
    found = (
        _from_seen(evidence)
        or _from_deadline(evidence)
        or _from_exit(evidence)
        or _from_network(evidence)
        or _from_status(evidence)
        or _from_error(error, evidence)
    )
    found.__cause__ = error
    return found


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def _failure(
    message: str,
    evidence: Evidence,
    *,
    ran: Ran = "unknown",
    retryable: bool = False,
    next_step: str = "",
    **facts: Any,
) -> McpError:
    kind = CallFailed if evidence.calling else ConnectionFailed
    if not evidence.calling or not evidence.exchange.sent:
        ran = "not ran"
    facts = {"stderr": evidence.stderr, "exit_code": evidence.returncode, **facts}
    notes = [message, *_unset_note(evidence), *_tail_note(evidence)]
    return kind(
        "\n".join(notes), where=evidence.where, ran=ran, retryable=retryable, next_step=next_step, **facts
    )


def _unset_note(evidence: Evidence) -> list[str]:
    if not evidence.unset:
        return []
    return [f"Not set and passed as empty: {', '.join(evidence.unset)}"]


def _tail_note(evidence: Evidence) -> list[str]:
    tail = evidence.stderr.strip()[-_TAIL_CHARACTERS:].splitlines()[-_TAIL_LINES:]
    return ["Its last words on stderr:", *(f"  {line}" for line in tail)] if tail else []


def _from_seen(evidence: Evidence) -> McpError | None:
    seen, name = evidence.seen, evidence.server.name
    if seen is None:
        return None
    if seen.invalid_json is not None:
        return _failure(
            f"Invalid JSON response from server {name}: {seen.invalid_json}",
            evidence,
            next_step="report it to the server's author: stdout is for messages only",
        )
    if seen.too_long is not None:
        cap = evidence.server.max_line_mb
        return _failure(
            f"Server {name} sent a message of more than {cap:g} MiB ({seen.too_long:,} bytes had come)",
            evidence,
            next_step=f"ask for less, or raise max_line_mb of server {name}",
        )
    if seen.write_timed_out:
        return _failure(
            f"Server {name} stopped reading: a message could not be written within its deadline",
            evidence,
            ran="not ran",
            next_step=f"check that server {name} is not stuck",
        )
    return None


def _from_deadline(evidence: Evidence) -> McpError | None:
    if evidence.seconds is None:
        return None
    name, seconds = evidence.server.name, f"{evidence.seconds:g} s"
    unmatched = evidence.seen.unmatched if evidence.seen else 0
    note = f"; {unmatched} replies came that nobody asked for" if unmatched else ""
    if not evidence.calling:
        return _failure(
            f"Server {name} did not finish its {evidence.phase} within {seconds}{note}",
            evidence,
            retryable=True,
            next_step=f"raise {evidence.deadline} of server {name} if it needs longer",
            seconds=evidence.seconds,
        )
    return DeadlineExceeded(
        f"Tool {evidence.tool} on server {name} gave no answer within {seconds} ({evidence.deadline}){note}",
        where=evidence.where,
        ran="unknown" if evidence.exchange.sent else "not ran",
        next_step=f"raise {evidence.deadline} of server {name} if the tool needs longer",
        seconds=evidence.seconds,
        stderr=evidence.stderr,
    )


def _from_exit(evidence: Evidence) -> McpError | None:
    if evidence.returncode is None:
        return None
    name, how = evidence.server.name, ended(evidence.returncode)
    if not evidence.calling and evidence.phase != "list":
        return _failure(
            f"Server {name} {how} before the handshake",
            evidence,
            next_step=f"run its command by itself to see why: {evidence.server.command}",
        )
    middle = " in mid-message" if evidence.seen is not None and evidence.seen.unfinished else ""
    return _failure(
        f"MCP server process terminated unexpectedly: {name} {how}{middle}",
        evidence,
        next_step="look at its last words; check what it had done before you run this again",
    )


def ended(returncode: int) -> str:
    """Say how a process ended, e.g. `exited 3` or `was ended by SIGKILL`."""
    if returncode >= 0:
        return f"exited {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"


def _from_network(evidence: Evidence) -> McpError | None:
    error = evidence.exchange.error
    if error is None:
        return None
    url, name = evidence.server.url, evidence.server.name
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        step = "check the host name in its url, and the network"
        return _failure(
            f"Server {name}: the host of {url} was not found", evidence, ran="not ran", next_step=step
        )
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        step = "check that the server runs, and the port in its url"
        return _failure(
            f"Server {name}: connection refused by {url}",
            evidence,
            ran="not ran",
            retryable=True,
            next_step=step,
        )
    verification = next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if verification is not None:
        return _bad_certificate(verification, evidence)
    connecting = type(error).__name__.startswith("Connect")
    return _failure(
        f"Server {name}: the exchange with {url} broke off: {type(error).__name__} {error}".rstrip(),
        evidence,
        ran="not ran" if connecting else "unknown",
        retryable=connecting,
        next_step="check the network and the server's own log",
    )


def _bad_certificate(error: ssl.SSLCertVerificationError, evidence: Evidence) -> McpError:
    return _failure(
        f"Server {evidence.server.name}: its certificate is not accepted: {error.verify_message}",
        evidence,
        ran="not ran",
        next_step="mend the certificate, or name its CA in SSL_CERT_FILE",
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield from leaves(error)
        error = error.__cause__ or error.__context__


def _from_status(evidence: Evidence) -> McpError | None:
    status = evidence.exchange.status
    if status is None or status < HTTPStatus.BAD_REQUEST or evidence.exchange.raw is not None:
        return None
    text, step = _status_text(status, evidence)
    failure = _failure(
        f"Server {evidence.server.name}: {text}",
        evidence,
        ran="unknown" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "not ran",
        retryable=status == HTTPStatus.TOO_MANY_REQUESTS,
        next_step=step,
        status=status,
        retry_after=evidence.exchange.headers.get("retry-after"),
        body=evidence.exchange.body,
    )
    failure.action = _STATUS_ACTIONS.get(status, "error")
    return failure


_STATUS_ACTIONS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "auth_failed",
    HTTPStatus.FORBIDDEN: "auth_failed",
    HTTPStatus.NOT_FOUND: "resource_missing",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limited",
    HTTPStatus.REQUEST_TIMEOUT: "timeout",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout",
}


def _status_text(status: int, evidence: Evidence) -> tuple[str, str]:
    url, name = evidence.server.url, evidence.server.name
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        what = "not logged in" if status == HTTPStatus.UNAUTHORIZED else "access denied"
        return (
            f"{what} at {url} (HTTP {status})",
            f"check auth and headers of server {name}, and the token behind them",
        )
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return f"no MCP endpoint at {url} (HTTP {status})", "check the path of its url; it often ends in /mcp"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        after = evidence.exchange.headers.get("retry-after")
        return (
            f"too many requests (HTTP {status})",
            f"try again after {after} s" if after else "try again later",
        )
    snippet = evidence.exchange.body.strip()[:200]
    return f"HTTP {status} from {url}" + (f": {snippet}" if snippet else ""), "look at the server's own log"


def _from_error(error: BaseException, evidence: Evidence) -> McpError:
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

    from pflow_mcp_plugin.client.session import InputRequired, VersionConflict

    leaf = next(leaves(error))
    name = evidence.server.name
    if isinstance(leaf, VersionConflict):
        offered = ", ".join(leaf.offered)
        return _failure(
            f"MCP protocol version not supported: server {name} offers {offered}, pflow wants {leaf.wanted}",
            evidence,
            next_step=f"bring the server up to date, or set protocol of server {name}",
        )
    if isinstance(leaf, InputRequired):
        return _failure(
            f"Tool {evidence.tool} on server {name} asks a person for input, which a run cannot give",
            evidence,
            next_step="pass what it asks for as an argument, if the tool takes it",
        )
    if isinstance(leaf, ValidationError):
        return _not_protocol(leaf, evidence)
    if isinstance(leaf, MCPError):
        return _from_rpc(leaf, evidence)
    return _failure(f"Server {name}: {type(leaf).__name__}: {leaf}", evidence)


def _not_protocol(error: Any, evidence: Evidence) -> McpError:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return _failure(
        f"Server {evidence.server.name} gave what is no result of the protocol: {place}: {first['msg']}",
        evidence,
        ran="ran",
        next_step="report it to the server's author",
    )


def _from_rpc(error: Any, evidence: Evidence) -> McpError:
    code, text, name = error.code, error.message, evidence.server.name
    if code == _CONNECTION_CLOSED and evidence.closed:
        step = "look at its log; check what it had done before you run this again"
        return _failure(f"Server {name} closed the connection", evidence, next_step=step, code=code)
    if evidence.calling and says_tool_is_gone(text, evidence.tool):
        return tool_gone(evidence.where, code=code)
    known = {_METHOD_NOT_FOUND: "Method not found", _INVALID_PARAMS: "Invalid params"}.get(code)
    place = f"{evidence.tool} on server {name}" if evidence.tool else f"server {name}"
    failure = _failure(
        f"{known}: {place}: {text}" if known else f"Server {name} answered with error {code}: {text}",
        evidence,
        ran="not ran" if known else "unknown",
        next_step="check the arguments: pflow mcp info shows what the tool takes"
        if code == _INVALID_PARAMS
        else "",
        code=code,
        data=error.data,
    )
    failure.action = {_RESOURCE_NOT_FOUND: "resource_missing", _REQUEST_TIMEOUT: "timeout"}.get(code, "error")
    return failure


def says_tool_is_gone(text: str, tool: str) -> bool:
    """Whether a server's words mean that it has no such tool."""
    words = text.lower()
    return tool.lower() in words and ("unknown tool" in words or ("tool" in words and "not found" in words))


def tool_gone(where: Where, **facts: Any) -> ToolNotFound:
    """Return the failure of a call to a tool that its server no longer has."""
    return ToolNotFound(
        f"Tool {where.tool} not found on server {where.server}",
        where=where,
        next_step=f"run: pflow mcp sync {where.server}",
        **facts,
    )
