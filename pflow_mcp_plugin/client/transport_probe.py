"""Whether a server that could not be reached over one HTTP transport speaks the other.

Imported on the event loop's thread only, as `connection` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Literal

import attrs

from pflow_mcp_plugin.client.connection import Connection
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.errors import ConnectionFailed, McpError
from pflow_mcp_plugin.exchange import Launch

HttpTransport = Literal["http", "sse"]

_SECONDS = 5.0
"""How long the handshake that probes the other transport may take."""
_OTHER: Mapping[str, HttpTransport] = {"http": "sse", "sse": "http"}
_NAMES = {"http": "streamable HTTP", "sse": "HTTP with server-sent events"}
_SAYS_NOTHING = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    HTTPStatus.TOO_MANY_REQUESTS,
}
"""Statuses that a server may return over either transport, so that probing the other is pointless."""


async def recognized(launch: Launch, error: ConnectionFailed) -> ConnectionFailed:
    """Return why a server could not be reached, which may be that it speaks the other HTTP transport.

    That is proved by a handshake over the other transport, with the same URL and credentials.

    Args:
        launch: The server, with `type` as configured.
        error: The failure over the configured transport.

    Returns:
        A failure whose fact `speaks` is the `type` to set, or `error` itself.
    """
    kind = _OTHER.get(launch.server.transport)
    if kind is None or not _may_be_another(error) or not await _speaks(kind, launch):
        return error
    server = launch.server
    url = launch.redactor.text(display.url(server.url, widely=True))
    failure = ConnectionFailed(
        f"Server {server.name} at {url} speaks {_NAMES[kind]}, "
        f"but its type is {server.transport} ({_NAMES[server.transport]})",
        where=error.where,
        next_step=f'set type = "{kind}" for server {server.name}',
        speaks=kind,
        status=error.facts.get("status"),
    )
    failure.__cause__ = error
    return failure


def _may_be_another(error: ConnectionFailed) -> bool:
    """Whether something answered, and not with a refusal that either transport may return."""
    status = error.facts.get("status")
    if not isinstance(status, int) or status in _SAYS_NOTHING:
        return False
    return status // 100 in (2, 4) or status == HTTPStatus.NOT_IMPLEMENTED


async def _speaks(kind: HttpTransport, launch: Launch) -> bool:
    server = launch.server
    other = attrs.evolve(
        server,
        transport=kind,
        protocol="auto",
        startup_timeout=min(_SECONDS, server.startup_timeout or _SECONDS),
    )
    connection = Connection(attrs.evolve(launch, server=other, era=None), None, lambda _: None)
    try:
        await connection.open()
    except McpError:
        return False
    finally:
        await connection.close()
    return True
