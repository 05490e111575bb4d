"""Failures of a server's process, of the lines it writes, and on the way to its socket."""

from __future__ import annotations

import re
import signal

from pflow_mcp_plugin.client.failures.evidence import Evidence, failure, invalid_json
from pflow_mcp_plugin.client.request_failures import leaves
from pflow_mcp_plugin.client.server_process import runner
from pflow_mcp_plugin.config.display import command_line
from pflow_mcp_plugin.errors import DeadlineExceeded, McpError

_MIB = 1 << 20
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
    """Return the next step if a server could not reach a host while it started, empty if it says no such."""
    found = _UNREACHABLE.search(stderr)
    if found is None:
        return ""
    words = found[0] if found[0].isupper() else found[0].lower()
    return f"it could not reach a host ({words}): check its address in the stderr, the network and the proxy"


def from_seen(evidence: Evidence) -> McpError | None:
    """Explain the failure of a server's process by what the transport noticed in its lines."""
    seen, name = evidence.seen, evidence.server.name
    if seen is None:
        return None
    if seen.invalid_json is not None:
        return invalid_json(seen.invalid_json, evidence, seen.fault)
    if seen.too_long is not None:
        cap = evidence.server.max_line_mb
        return failure(
            f"Server {name} sent a message of more than {cap:g} MiB "
            f"({seen.too_long:,} bytes received so far)",
            evidence,
            next_step=f"ask for less, or raise max_line_mb of server {name}",
            limit_bytes=int(cap * _MIB),
            size_bytes=seen.too_long,
        )
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
    """Return by how much a server's processes exceed its memory limit, as part of a sentence."""
    return f"its processes used {used:,.1f} MiB of memory, more than its memory_limit_mb of {limit:.10g}"


def stopped_reading(evidence: Evidence) -> McpError:
    """Explain the failure of a process that did not read a message from its stdin in time."""
    name = evidence.server.name
    message = f"Server {name} stopped reading: a message could not be written within its deadline"
    step = f"check whether server {name} hangs; call_timeout is how long it may refuse to read"
    if evidence.reached or not evidence.calling:
        return failure(message, evidence, next_step=step)
    return DeadlineExceeded(message, where=evidence.where, next_step=step, stderr=evidence.stderr)


def from_exit(evidence: Evidence) -> McpError | None:
    """Explain a failure by the exit of the server's process."""
    if evidence.returncode is None:
        return None
    name, how = evidence.server.name, ended(evidence.returncode)
    if not evidence.calling and evidence.phase != "list":
        return failure(
            f"Server {name} {how} before the handshake",
            evidence,
            next_step=_after_early_exit(evidence),
        )
    middle = " in the middle of a message" if evidence.seen is not None and evidence.seen.unfinished else ""
    return failure(
        f"MCP server process terminated unexpectedly: {name} {how}{middle}",
        evidence,
        retryable=evidence.exchange.unsent,
        next_step="look at its stderr; check what it had done before you run this again",
    )


def _after_early_exit(evidence: Evidence) -> str:
    if _NEEDS_OLDER_SDK.search(evidence.stderr):
        how = "install mcp<2 beside it"
        if runner(evidence.server) == "uvx":
            how = "put --with=mcp<2 before the package in its args"
        return f"it was written for version 1 of the MCP SDK: {how}"
    if step := unreachable_step(evidence.stderr):
        return step
    return f"run its command by itself to see why: {command_line(evidence.server)}"


def ended(returncode: int) -> str:
    """Return how a server's process exited, e.g. `exited 3` or `was killed by SIGKILL`."""
    if returncode >= 0:
        return f"exited {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


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
    return failure(
        f"Server {server.name}: {text}",
        evidence,
        retryable=isinstance(leaf, ConnectionRefusedError),
        next_step=step,
    )
