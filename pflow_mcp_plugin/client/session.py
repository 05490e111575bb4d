"""The SDK's session, with malformed tools screened out and raw answers kept.

Imported on the event loop's thread only: this is where the SDK is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
)
from mcp_types.methods import validate_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from pflow_mcp_plugin.client.exchange import current
from pflow_mcp_plugin.types import ServerInfo

# The SDK logs tracebacks of what our errors say better; without a handler Python prints them.
logging.getLogger("mcp").addHandler(logging.NullHandler())

_ANSWERS: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)


class Dispatcher(JSONRPCDispatcher):
    """Keeps each raw result in the request's `Exchange`, and screens tool lists.

    Attributes:
        skipped: `(name, reason)` of tools left out of the lists that came.
        version: The protocol version that tool lists are held to.
        ended: Whether the connection is over.
    """

    def __init__(self, read_stream: Any, write_stream: Any) -> None:
        super().__init__(read_stream, write_stream)
        self.skipped: list[tuple[str, str]] = []
        self.version = "2025-11-25"
        self.ended = False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None, **rest: Any
    ) -> dict[str, Any]:
        """Send a request; a tool list comes back without its malformed tools."""
        exchange = current.get()
        if exchange is not None:
            exchange.sent = True
        raw = await super().send_raw_request(method, params, opts, **rest)
        if method == "tools/list":
            raw = self._screen(raw)
        if exchange is not None:
            exchange.raw = raw
        return raw

    async def run(self, *args: Any, **options: Any) -> None:
        """Receive until the connection ends, and say so."""
        try:
            await super().run(*args, **options)
        finally:
            self.ended = True

    def _screen(self, raw: dict[str, Any]) -> dict[str, Any]:
        tools = raw.get("tools")
        if not isinstance(tools, list) or self._fault(raw) is None:
            return raw
        kept = []
        for tool in tools:
            fault = self._fault({**raw, "tools": [tool]})
            if fault is None:
                kept.append(tool)
            else:
                self.skipped.append((_tool_name(tool), fault))
        return {**raw, "tools": kept}

    def _fault(self, raw: Mapping[str, Any]) -> str | None:
        try:
            validate_server_result("tools/list", self.version, raw)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"] if part != "tools")
            return f"{place}: {first['msg']}"
        return None


def open_session(streams: tuple[Any, Any], client_version: str) -> tuple[ClientSession, Dispatcher]:
    """Return a session over a transport's streams, not entered yet."""
    dispatcher = Dispatcher(*streams)
    info = Implementation(name="pflow-mcp", version=client_version)
    return ClientSession(dispatcher=dispatcher, client_info=info), dispatcher


async def negotiate(session: ClientSession, dispatcher: Dispatcher, protocol: str, era: str | None) -> None:
    """Settle the protocol version.

    `server/discover` first; silence or any error but a version conflict means the handshake.

    Args:
        session: Entered.
        dispatcher: The one below it.
        protocol: `auto`, `handshake` or the version to insist on.
        era: What this server spoke last time; `handshake` saves the probe.
    """
    legacy = protocol == "handshake" or protocol in HANDSHAKE_PROTOCOL_VERSIONS
    if legacy or (protocol == "auto" and era == "handshake"):
        await _initialize(session)
    elif protocol == "auto":
        await _discover_or_initialize(session, dispatcher)
    else:
        await session.discover()
    if protocol not in ("auto", "handshake") and session.protocol_version != protocol:
        raise VersionConflict(wanted=protocol, offered=[str(session.protocol_version)])


async def _discover_or_initialize(session: ClientSession, dispatcher: Dispatcher) -> None:
    try:
        await session.discover()
    except MCPError as error:
        offered = _offered_versions(error)
        if offered and not set(offered) & {*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS}:
            raise VersionConflict(wanted=MODERN_PROTOCOL_VERSIONS[-1], offered=offered) from error
        if dispatcher.ended:
            raise
        await _initialize(session)
    except (RuntimeError, ValidationError):  # an answer to the probe that names no version we share
        await _initialize(session)


async def _initialize(session: ClientSession) -> None:
    try:
        await session.initialize()
    except RuntimeError as error:
        exchange = current.get()
        raw = exchange.raw if exchange is not None and exchange.raw is not None else {}
        raise VersionConflict(
            wanted=HANDSHAKE_PROTOCOL_VERSIONS[-1], offered=[str(raw.get("protocolVersion"))]
        ) from error


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


class InputRequired(Exception):
    """The server wants an answer from a person before it goes on."""


def _offered_versions(error: MCPError) -> list[str]:
    if error.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(error.data, dict):
        return []
    supported = error.data.get("supported")
    return [str(version) for version in supported] if isinstance(supported, list) else []


def describe(session: ClientSession) -> ServerInfo:
    """Return what the server said of itself."""
    info, capabilities = session.server_info, session.server_capabilities
    return ServerInfo(
        name=info.name if info else "",
        version=info.version if info else "",
        protocol=session.protocol_version or "",
        era="modern" if session.discover_result is not None else "handshake",
        instructions=session.instructions or "",
        capabilities=capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
        if capabilities
        else {},
    )


async def request_tool(
    session: ClientSession, name: str, arguments: Mapping[str, Any], on_progress: Any
) -> None:
    """Call a tool once; the raw result is left in the current `Exchange`.

    Raises:
        InputRequired: The server asks for input, which a run without a person cannot give.
        MCPError: A JSON-RPC error, or the connection is gone.
        pydantic.ValidationError: The answer is no tool result.
    """
    params = CallToolRequestParams(name=name, arguments=dict(arguments))
    answer = await session.send_request(
        CallToolRequest(params=params), _ANSWERS, progress_callback=on_progress
    )
    if isinstance(answer, InputRequiredResult):
        raise InputRequired


async def request_page(session: ClientSession, cursor: str | None) -> str | None:
    """Ask for one page of tools, left raw in the current `Exchange`; return the next cursor."""
    page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
    return page.next_cursor


def _tool_name(tool: object) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) else "(no name)"
