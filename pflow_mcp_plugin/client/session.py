"""A session of requests and answers with one server, the SDK's; malformed tools are screened out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, cast

import attrs
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitResult,
    ErrorData,
    Implementation,
    InitializedNotification,
    InitializeRequest,
    InitializeRequestParams,
    InitializeResult,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    JSONRPCNotification,
    ListResourcesRequest,
    ListResourceTemplatesRequest,
    ListRootsRequest,
    ListRootsResult,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    ToolListChangedNotification,
)
from mcp_types.methods import validate_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError, WrapValidator

from pflow_mcp_plugin.client.deadlines import with_retry_after
from pflow_mcp_plugin.client.request_failures import RequestFailed, Undelivered
from pflow_mcp_plugin.client.sdk_internals import OpenSession, ScreeningDispatcher
from pflow_mcp_plugin.contract import RunStep
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.exchange import ToolCall
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.types import ServerInfo

# The SDK logs tracebacks of failures that our errors explain. Without a handler, `logging` prints them.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_PFLOW = Implementation(name="pflow-mcp", version=version("pflow-mcp"))
_LONGEST_NAME = 256
"""Characters of a tool's name in a session; the protocol recommends 128 (2025-11-25, "Tool Names")."""

_MANY = 8
"""With this many calls of a run under way, one waits for others, so that the run is told of them together."""
_MOMENT = 0.005
"""How long it waits, in seconds: less than pflow needs to make so many calls."""


def _with_raw(raw: Any, validate: Callable[[Any], Any]) -> tuple[Any, Any]:
    return validate(raw), raw


# Results are pairs: as the SDK reads them, and raw, with the fields that the SDK does not know.
_ANSWERS: TypeAdapter[Any] = TypeAdapter(
    Annotated[CallToolResult | InputRequiredResult, WrapValidator(_with_raw)]
)
_RESOURCES: TypeAdapter[Any] = TypeAdapter(
    Annotated[ReadResourceResult | InputRequiredResult, WrapValidator(_with_raw)]
)
_OBJECTS: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_PAGES: TypeAdapter[Any] = TypeAdapter(Annotated[ListToolsResult, WrapValidator(_with_raw)])


class Dispatcher(ScreeningDispatcher):
    """What sends the requests of a session: takes malformed tools out of the answers, and records the end."""

    def __init__(self, read_stream: Any, write_stream: Any) -> None:
        super().__init__(read_stream, write_stream)
        self.skipped: list[tuple[str, str]] = []  # names of the removed tools, and reasons
        self.version = "2025-11-25"  # the protocol version that tool lists are validated against
        self.ended = False  # whether the connection is over

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None, **rest: Any
    ) -> dict[str, Any]:
        try:
            answer = await super().send_raw_request(method, params, opts, **rest)
        except RequestFailed as failure:
            if method != "subscriptions/listen":
                raise
            # A task of the SDK waits for this request; an error it does not know would end the session.
            raise MCPError(CONNECTION_CLOSED, str(failure)) from failure
        raw = dict(answer)
        answer.clear()  # the SDK keeps its last message until the next one: free a large one
        return self._screen(raw) if method == "tools/list" else raw

    async def run(self, *args: Any, **options: Any) -> None:
        try:
            await super().run(*args, **options)
        finally:
            self.ended = True

    def accepts(self, notification: JSONRPCNotification) -> bool:
        if notification.method != "notifications/progress":
            return True
        progress = notification.params or {}
        try:
            for number in (progress.get("progress"), progress.get("total")):
                if isinstance(number, int):
                    float(number)  # if it is too large, the SDK's session would end
        except OverflowError:
            return False
        return True

    def _screen(self, raw: dict[str, Any]) -> dict[str, Any]:
        tools = raw.get("tools")
        if not isinstance(tools, list):
            return raw
        is_modern = self.version in MODERN_PROTOCOL_VERSIONS
        if is_modern:  # defaults take the place of missing and invalid cache hints
            milliseconds, scope = raw.get("ttlMs"), raw.get("cacheScope")
            usable = type(milliseconds) is int and milliseconds >= 0
            raw["ttlMs"] = milliseconds if usable else 0
            raw["cacheScope"] = scope if scope in ("private", "public") else "private"
        broken = self._fault(raw) is not None  # tools are only validated one by one if the list is invalid
        kept = []
        for tool in tools:
            fault = self._fault({**raw, "tools": [tool]}) if broken else None
            if fault is None and len(tool["name"]) > _LONGEST_NAME:
                fault = f"its name has {len(tool['name']):,} characters"
            if fault is None and is_modern:  # 2026-07-28 requires tools with an invalid `x-mcp-header` to go
                fault = find_invalid_x_mcp_header(tool["inputSchema"])
            if fault is None:
                kept.append(tool)
                continue
            name = tool.get("name") if isinstance(tool, Mapping) else None
            shown = name[:_LONGEST_NAME] if isinstance(name, str) else "(no name)"
            self.skipped.append((shown, fault))
        return {**raw, "tools": kept}

    def _fault(self, raw: JSONObject) -> str | None:
        try:
            validate_server_result("tools/list", self.version, raw)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"] if part != "tools")
            return f"{place}: {first['msg']}"
        return None


class Session(OpenSession):
    """The session with one server: declines its questions and reports changes of its tool list.

    It declines as the protocol provides, and the call goes on. Servers ask in requests, and in results
    (`input_required`).
    """

    def __init__(
        self,
        streams: tuple[Any, Any],
        redactor: Redactor,
        warn: Callable[[str], None],
        on_list_changed: Callable[[], None],
    ) -> None:
        self.dispatcher = Dispatcher(*streams)
        self.dispatcher.redact = redactor.text
        super().__init__(
            dispatcher=self.dispatcher,
            client_info=_PFLOW,
            message_handler=self._on_message,
        )
        self._redactor = redactor
        self._warn = warn
        self._warned = False
        self._on_list_changed = on_list_changed

    async def shake_hands(self, offer: str) -> None:
        request = InitializeRequest(
            params=InitializeRequestParams(
                protocol_version=offer,
                capabilities=self.capabilities(offer),
                client_info=_PFLOW,
            )
        )
        answer = await self.send_request(request, InitializeResult)
        if answer.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise RuntimeError(answer.protocol_version)
        self.adopt(answer)
        await self.send_notification(InitializedNotification())

    async def dispatch_input_request(
        self, ctx: ClientRequestContext | None, request: InputRequest
    ) -> InputResponse | ErrorData:
        """Decline a server's question, or return an error where the protocol has no other way to refuse."""
        if isinstance(request, ElicitRequest):
            # Servers are not told that there is elicitation, and some ask all the same.
            self._decline(f"input: {self._redactor.shortened(request.params.message, 4000)!r}")
            return ElicitResult(action="decline")
        if isinstance(request, ListRootsRequest):
            return ListRootsResult(roots=[])
        self._decline("the use of a language model")
        # The code is that of protocol 2025-11-25, "Sampling", "Error Handling".
        return ErrorData(code=-1, message="Sampling is declined: this client has no language model")

    def _decline(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"asks for {what}; declined, because nobody can answer")

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._on_list_changed()


@attrs.define(slots=False)
class InputRequired(Exception):
    """A session's call cannot go on: the server requires input that is not available."""

    wanted: str


def describe(session: Session) -> ServerInfo:
    """Return how the server of a session describes itself; the session must be entered."""
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


@asynccontextmanager
async def listening(session: Session) -> AsyncIterator[None]:
    """Keep a session subscribed to what a modern server announces; others send notifications unasked.

    Nothing waits for the subscription: a server that does not support it is left alone.
    """
    capabilities = session.server_capabilities
    tools = capabilities.tools if capabilities is not None else None
    if session.discover_result is None or tools is None or not tools.list_changed:
        yield
        return

    async def listening_on() -> None:
        with suppress(MCPError, SubscriptionLost):
            async with listen(session, tools_list_changed=True) as subscription:
                async for _ in subscription:
                    continue  # `Session` handles each change like any notification

    task = asyncio.create_task(listening_on(), name="listening for changed tools")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def request_tool(  # noqa: PLR0913 - what a call is told and asked
    session: Session,
    call: ToolCall,
    meta: JSONObject,
    *,
    until: Callable[[], float | None],
    on_progress: Any = None,
    on_reply: Callable[[], None] = lambda: None,
    step: RunStep | None = None,
) -> Mapping[str, Any]:
    """Call a tool in a session, once, and return the raw result; of a resource, its contents as blocks.

    A server may answer that it needs input first (protocol 2026-07-28, `input_required`). It receives
    the answers and its own state back, until it returns a result. `step` is told each time before a request
    is sent.
    """
    request = _request(call, meta)
    answers = _ANSWERS if call.method == "tools/call" else _RESOURCES
    with _under_way(step) as before:
        for number in range(100):
            send: Any = partial(session.send_request, request, answers, progress_callback=on_progress)
            answer, raw = await with_retry_after(send, until, before)
            if not isinstance(answer, InputRequiredResult):
                if answers is _ANSWERS:
                    return cast("Mapping[str, Any]", raw)
                blocks = [{"type": "resource", "resource": contents} for contents in raw["contents"]]
                return {"content": blocks, "_meta": raw.get("_meta") or {}}
            on_reply()
            responses: dict[str, InputResponse] = {}
            for key, question in (answer.input_requests or {}).items():
                response = await session.dispatch_input_request(None, question)
                if isinstance(response, ErrorData):
                    raise InputRequired("the use of a language model")
                responses[key] = response
            if not responses:  # it sent its state only, which asks for another call a little later
                await asyncio.sleep(min(0.05 * 2**number, 1.0))
            update = {"input_responses": responses or None, "request_state": answer.request_state}
            request = request.model_copy(update={"params": request.params.model_copy(update=update)})
    raise InputRequired("input again and again")


@attrs.define(eq=False, repr=False)
class _Calls:
    under_way: int = 0
    waiting: list[tuple[RunStep, asyncio.Future[None]]] = attrs.field(factory=list)
    telling: asyncio.TimerHandle | None = None


_calls_of: dict[int, _Calls] = {}
"""The calls of each run that has some under way; used on the loop's thread only."""


@contextmanager
def _under_way(step: RunStep | None) -> Iterator[Callable[[], Awaitable[None]] | None]:
    if step is None:
        yield None
        return
    run = id(step.run)
    calls = _calls_of.setdefault(run, _Calls())
    calls.under_way += 1
    try:
        yield partial(_announced, step, calls)
    finally:
        calls.under_way -= 1
        if not calls.under_way:
            del _calls_of[run]


async def _announced(step: RunStep, calls: _Calls) -> None:
    # The run may record on the disk what it is told, and wait for that; calls sent in one turn of the loop
    # share the wait. If there are many, a call waits for more, unless all wait already.
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()
    calls.waiting.append((step, told))
    may_grow = _MANY <= calls.under_way != len(calls.waiting)
    if calls.telling is not None and not may_grow:
        calls.telling.cancel()
        calls.telling = None
    if calls.telling is None:
        calls.telling = loop.call_later(_MOMENT if may_grow else 0, _tell_run, calls)
    await told


def _tell_run(calls: _Calls) -> None:
    waiting = [(step, told) for step, told in calls.waiting if not told.cancelled()]
    calls.waiting, calls.telling = [], None
    if not waiting:
        return
    first, *others = (step for step, _ in waiting)
    try:
        first.sending(*others)
    except Exception as error:  # noqa: BLE001 - any host's code; each call fails with it
        for _, told in waiting:
            told.set_exception(error)
    else:
        for _, told in waiting:
            told.set_result(None)


def _request(call: ToolCall, meta: JSONObject) -> CallToolRequest | ReadResourceRequest:
    extra: Any = {"_meta": dict(meta)} if meta else {}
    try:
        request: CallToolRequest | ReadResourceRequest
        if call.method == "resources/read":
            uri: Any = call.arguments.get("uri")
            request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri, **extra))
        else:
            params = CallToolRequestParams(name=call.tool, arguments=dict(call.arguments), **extra)
            request = CallToolRequest(params=params)
        request.model_dump_json()  # checked here: later, it could not be distinguished from an invalid answer
    except (ValueError, RecursionError) as error:
        raise Undelivered(f"{error} ({type(error).__name__})") from error
    return request


async def has_resources(session: Session) -> bool:
    """Ask over a session whether its server lists resources or URI templates, by one request for each."""
    capabilities = session.server_capabilities
    if capabilities is None or capabilities.resources is None:
        return False
    requests: tuple[tuple[Any, str], ...] = (
        (ListResourcesRequest(params=PaginatedRequestParams()), "resources"),
        (ListResourceTemplatesRequest(params=PaginatedRequestParams()), "resourceTemplates"),
    )
    for request, key in requests:
        with suppress(MCPError):  # many servers have one of the two methods
            if (await session.send_request(request, _OBJECTS)).get(key):
                return True
    return False


async def request_page(
    session: Session, cursor: str | None, until: Callable[[], float | None]
) -> tuple[str | None, Mapping[str, Any]]:
    """Send one `tools/list` over the SDK's session, which absorbs it; return the next cursor and raw page."""
    request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
    page, raw = await with_retry_after(lambda: session.send_request(request, _PAGES), until)
    session.absorb(page, complete=cursor is None and page.next_cursor is None)
    return page.next_cursor, raw
