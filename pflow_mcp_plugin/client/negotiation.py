"""Which version of the protocol a connection speaks, and so which era.

Imported on the event loop's thread only, as `session` is.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from mcp.client.session import DISCOVER_TIMEOUT_SECONDS
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from pflow_mcp_plugin.client.exchange import RequestFailed
from pflow_mcp_plugin.client.session import Dispatcher, Session

_ERAS = ("auto", "handshake")
"""Settings of `protocol` that name no version."""
_HANDSHAKE_REFUSED = (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST)
"""Answers to `initialize` of a server that does not know it."""
_UNKNOWN_THERE = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""The same over HTTP, from one that does not even say so in JSON-RPC."""


async def negotiate(
    session: Session,
    dispatcher: Dispatcher,
    protocol: str,
    era: str | None,
    *,
    patience: float = DISCOVER_TIMEOUT_SECONDS,
) -> None:
    """Settle the protocol version.

    `server/discover` first; silence or any error but a version conflict means the handshake.

    Args:
        session: Entered.
        dispatcher: The one below it.
        protocol: `auto`, `handshake` or the version to insist on.
        era: What this server spoke last time; `handshake` saves the probe, unless it is refused.
        patience: Seconds that a silent server has to answer the probe; 10 at most.
    """
    legacy = protocol == "handshake" or protocol in HANDSHAKE_PROTOCOL_VERSIONS
    if legacy:
        await _shake_hands(session, HANDSHAKE_PROTOCOL_VERSIONS[-1] if protocol in _ERAS else protocol)
    elif protocol == "auto" and era == "handshake":
        await _shake_hands_or_discover(session)
    elif protocol == "auto":
        await _discover_or_initialize(session, dispatcher, patience)
    else:
        await session.discover()
    if protocol not in _ERAS and session.protocol_version != protocol:
        raise VersionConflict(wanted=protocol, offered=[str(session.protocol_version)])


async def _discover_or_initialize(session: Session, dispatcher: Dispatcher, patience: float) -> None:
    try:
        async with asyncio.timeout(min(patience, DISCOVER_TIMEOUT_SECONDS)):
            await session.discover()
    except TimeoutError:
        await _shake_hands_after_silence(session)
    except MCPError as error:
        offered = _offered_versions(error)
        if offered and not set(offered) & {*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS}:
            raise VersionConflict(wanted=MODERN_PROTOCOL_VERSIONS[-1], offered=offered) from error
        if dispatcher.ended:
            raise
        await _shake_hands(session)
    except RequestFailed as failure:
        if failure.exchange.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise
        await _shake_hands(session)
    except (RuntimeError, ValidationError):  # an answer to the probe that names no version we share
        await _shake_hands(session)


async def _shake_hands_after_silence(session: Session) -> None:
    """Shake hands; a modern server that only starts slowly met the probe first, and says so."""
    try:
        await _shake_hands(session)
    except MCPError as error:
        if not set(_offered_versions(error)) & {*MODERN_PROTOCOL_VERSIONS}:
            raise
        await session.discover()


async def _shake_hands_or_discover(session: Session) -> None:
    """Shake hands, as last time; a server that has given that up since says so, and is discovered."""
    try:
        await _shake_hands(session)
    except (MCPError, RequestFailed, VersionConflict) as refusal:
        if isinstance(refusal, MCPError) and refusal.code not in _HANDSHAKE_REFUSED:
            raise
        if isinstance(refusal, RequestFailed) and refusal.exchange.status not in _UNKNOWN_THERE:
            raise
        try:
            await session.discover()
        except (MCPError, RequestFailed, RuntimeError, ValidationError) as error:
            raise refusal from error


async def _shake_hands(session: Session, offer: str = HANDSHAKE_PROTOCOL_VERSIONS[-1]) -> None:
    try:
        await session.shake_hands(offer)
    except RuntimeError as error:
        raise VersionConflict(wanted=offer, offered=[str(error)]) from error


class VersionConflict(Exception):
    """Both sides have no protocol version in common.

    Attributes:
        wanted: Our version.
        offered: The server's.
    """

    def __init__(self, *, wanted: str, offered: list[str]) -> None:
        super().__init__(wanted, offered)
        self.wanted = wanted
        self.offered = offered


def _offered_versions(error: MCPError) -> list[str]:
    if error.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(error.data, dict):
        return []
    supported = error.data.get("supported")
    return [str(version) for version in supported] if isinstance(supported, list) else []
