"""The negotiation of the protocol version, which also decides the era."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus

import attrs
from mcp.client.session import DISCOVER_TIMEOUT_SECONDS
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from pflow_mcp_plugin.client.request_failures import NoAccessToken, RequestFailed
from pflow_mcp_plugin.client.session import Session
from pflow_mcp_plugin.contract.problems import PortableError

_HANDSHAKE_REFUSED = (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST)
"""Error codes with which servers that negotiate by `server/discover` only answer `initialize`."""
_UNKNOWN_THERE = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""HTTP statuses with which such servers answer `initialize`, if not with JSON-RPC."""
_VERSION_REFUSED = (UNSUPPORTED_PROTOCOL_VERSION, INVALID_PARAMS)
"""Error codes for an unsupported version: that of protocol 2026-07-28, and that of earlier versions."""
_REFUSES_VERSION = re.compile(
    r"(unsupported|not supported|incompatible|unknown)\W.{0,20}\bprotocol[ _]?version"
    r"|\bprotocol[ _]?version\b.{0,40}\b(unsupported|not supported|incompatible)",
    re.IGNORECASE,
)
"""How HTTP servers that use a general error code say that they do not support a version."""
_VERSION = re.compile(r"\b\d{4}-\d\d-\d\d\b")


async def negotiate(
    session: Session, protocol: str, era: str | None, *, patience: float = DISCOVER_TIMEOUT_SECONDS
) -> None:
    """Negotiate the protocol version, and with it the era.

    `server/discover` first; after silence or any error except a version conflict, the handshake
    (protocol 2026-07-28, "Versioning").
    """
    if protocol != "auto":
        await _insist(session, protocol)
    elif era == "handshake":
        await _shake_hands_or_discover(session)
    else:
        await _discover_or_initialize(session, patience)


async def _insist(session: Session, protocol: str) -> None:
    version = HANDSHAKE_PROTOCOL_VERSIONS[-1] if protocol == "handshake" else protocol
    try:
        await (
            _shake_hands(session, version) if version in HANDSHAKE_PROTOCOL_VERSIONS else session.discover()
        )
    except (MCPError, RequestFailed, RuntimeError, ValidationError) as refusal:
        if session.dispatcher.ended or _is_unsent(refusal):
            raise
        await _refuse_with_versions(session, version, refusal)
        raise
    if protocol not in ("handshake", session.protocol_version):
        raise VersionConflict(wanted=protocol, offered=[str(session.protocol_version)])


async def _refuse_with_versions(session: Session, wanted: str, refusal: Exception) -> None:
    """Raise `VersionConflict` if the server refused the version, and find out which ones it speaks."""
    if isinstance(refusal, MCPError):
        conflict = version_conflict(refusal, wanted)
        if conflict is not None:
            raise conflict from refusal
    try:
        if wanted not in HANDSHAKE_PROTOCOL_VERSIONS:
            await _shake_hands(session)
        elif _is_handshake_refused(refusal):
            await session.discover()
        else:
            return
    except VersionConflict as other:
        raise VersionConflict(wanted=wanted, offered=other.offered) from refusal
    except (MCPError, RequestFailed, RuntimeError, ValidationError):
        return
    raise VersionConflict(wanted=wanted, offered=[str(session.protocol_version)]) from refusal


async def _discover_or_initialize(session: Session, patience: float) -> None:
    try:
        async with asyncio.timeout(min(patience, DISCOVER_TIMEOUT_SECONDS)):
            await session.discover()
    except TimeoutError:
        try:
            await _shake_hands(session)
        except VersionConflict as conflict:
            if not set(conflict.offered) & {*MODERN_PROTOCOL_VERSIONS}:
                raise
            await session.discover()  # it knows no handshake, and was only slow to start
    except MCPError as error:
        offered = _offered_versions(error)
        if offered and not set(offered) & {*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS}:
            raise VersionConflict(wanted=MODERN_PROTOCOL_VERSIONS[-1], offered=offered) from error
        if session.dispatcher.ended:  # it exited on the probe, and must be started again for the handshake
            raise
        await _shake_hands(session)
    except RequestFailed as failure:
        if _is_unsent(failure) or failure.exchange.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise  # after a 429, the caller waits and starts over
        await _shake_hands(session)
    except (RuntimeError, ValidationError):  # an answer to the probe without a version in common
        await _shake_hands(session)


async def _shake_hands_or_discover(session: Session) -> None:
    try:
        await _shake_hands(session)
    except (MCPError, RequestFailed, VersionConflict) as refusal:
        if not (isinstance(refusal, VersionConflict) or _is_handshake_refused(refusal)):
            raise
        try:
            await session.discover()
        except (MCPError, RequestFailed, RuntimeError, ValidationError) as error:
            raise refusal from error


def _is_unsent(failure: Exception) -> bool:
    return isinstance(failure, RequestFailed) and isinstance(failure.exchange.error, NoAccessToken)


def _is_handshake_refused(refusal: Exception) -> bool:
    if isinstance(refusal, RequestFailed):
        return refusal.exchange.status in _UNKNOWN_THERE
    return isinstance(refusal, MCPError) and refusal.code in _HANDSHAKE_REFUSED


async def _shake_hands(session: Session, offer: str = HANDSHAKE_PROTOCOL_VERSIONS[-1]) -> None:
    try:
        await session.shake_hands(offer)
    except RuntimeError as error:
        raise VersionConflict(wanted=offer, offered=[str(error)]) from error
    except MCPError as error:
        conflict = version_conflict(error, offer)
        if conflict is not None:
            raise conflict from error
        raise


@attrs.define(slots=False, kw_only=True)
class VersionConflict(PortableError):
    """The negotiation failed: both sides have no protocol version in common."""

    wanted: str
    offered: list[str]  # the server's versions, empty if it names none


def version_conflict(error: MCPError, wanted: str) -> VersionConflict | None:
    """Return the version conflict that a server's error reports, None if it reports something else."""
    offered = _offered_versions(error)
    refuses = error.code == UNSUPPORTED_PROTOCOL_VERSION or _REFUSES_VERSION.search(error.message)
    if not (offered or refuses):
        return None
    return VersionConflict(wanted=wanted, offered=[each for each in offered if each != wanted] or offered)


def _offered_versions(error: MCPError) -> list[str]:
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    if error.code in _VERSION_REFUSED and isinstance(supported, list):
        return [str(version) for version in supported]
    return _VERSION.findall(error.message) if _REFUSES_VERSION.search(error.message) else []
