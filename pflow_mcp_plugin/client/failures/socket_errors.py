"""Failures on the way to a Unix socket or a named pipe."""

from __future__ import annotations

from pflow_mcp_plugin.client.exception_chain import leaves
from pflow_mcp_plugin.client.failures.evidence import Evidence, failure
from pflow_mcp_plugin.errors import McpError


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
