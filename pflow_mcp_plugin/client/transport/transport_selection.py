"""Selects the transport for a server's config: a context manager that yields a session's streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pflow_mcp_plugin.types import Server

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.process.spawning import ServerProcess
    from pflow_mcp_plugin.client.transport.http_requests import RequestAuth
    from pflow_mcp_plugin.client.transport.sockets import SocketTransport
    from pflow_mcp_plugin.client.transport.sse import SseTransport
    from pflow_mcp_plugin.client.transport.stdio import StdioTransport
    from pflow_mcp_plugin.client.transport.streamable_http import StreamableHttp


def is_remote(server: Server) -> bool:
    """Whether a server's config selects an HTTP transport; all other transports use lines."""
    return server.transport in ("http", "sse")


def over_http(server: Server, auth: RequestAuth | None) -> StreamableHttp | SseTransport:
    """Select the transport of a server reached over HTTP: streamable HTTP or SSE.

    Args:
        server: The server, with expanded values.
        auth: Puts access tokens on its requests; None if its headers are all that it needs.
    """
    from pflow_mcp_plugin.client.transport.sse import SseTransport
    from pflow_mcp_plugin.client.transport.streamable_http import StreamableHttp

    return SseTransport(server, auth) if server.transport == "sse" else StreamableHttp(server, auth)


def over_lines(
    server: Server, process: ServerProcess | None, warn: Callable[[str], None]
) -> StdioTransport | SocketTransport:
    """Select the transport of a server that uses lines: stdio or a socket.

    The transport ends the server's process together with the connection.

    Args:
        server: The server, with expanded values.
        process: Its process; None for a socket server that runs already.
        warn: Called with each warning for the user.
    """
    from pflow_mcp_plugin.client.process.package_runners import runner
    from pflow_mcp_plugin.client.transport.sockets import SocketTransport
    from pflow_mcp_plugin.client.transport.stdio import StdioTransport

    if server.transport != "stdio":
        return SocketTransport(server, process, warn)
    assert process is not None  # noqa: S101 - the pool spawned it
    return StdioTransport(
        process,
        line_cap=server.max_line_mb,
        write_seconds=server.call_timeout,
        warn=warn,
        installs=bool(runner(server)),
    )
