"""One connection: an owner task opens, serves and closes it; calls are sibling tasks.

The SDK's contexts must be exited in the task that entered them, so one task does both. Each call
is a separate task that uses the session and can be cancelled alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from enum import IntEnum, auto
from functools import partial
from pathlib import Path
from typing import Any

from mcp.shared.exceptions import MCPError

from pflow_mcp_plugin import workflow_chain
from pflow_mcp_plugin.client.deadlines import (
    Bounds,
    Deadline,
    DeadlinePassed,
    extend_start,
    start_deadline,
    with_retry_after,
)
from pflow_mcp_plugin.client.failures.explanation import Explainer, excess
from pflow_mcp_plugin.client.negotiation import negotiate
from pflow_mcp_plugin.client.request_failures import RequestFailed, in_words, leaves
from pflow_mcp_plugin.client.server_process import incomplete_folder, remove_folder, runner
from pflow_mcp_plugin.client.session import (
    Session,
    describe,
    has_resources,
    listening,
    request_page,
    request_tool,
)
from pflow_mcp_plugin.client.tool_lists import ToolPages, redacted_info, redacted_listing, redactor_of
from pflow_mcp_plugin.client.transport.line_transports import line_transport
from pflow_mcp_plugin.config.auth import signs_in
from pflow_mcp_plugin.contract import PflowError, RunStep
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.errors import ConnectionFailed, DeadlineExceeded, McpError, Phase, Where
from pflow_mcp_plugin.exchange import CallResult, Launch, Listing, ToolCall
from pflow_mcp_plugin.processes.process_group import ProcessGroup
from pflow_mcp_plugin.processes.shutdown import limit_memory, see_through
from pflow_mcp_plugin.processes.system_calls import group_memory_mb
from pflow_mcp_plugin.types import ServerInfo, plain_version

OnProgress = Callable[[float, float | None, str | None], None]

_HEADER_MISMATCH = -32020  # of protocol 2026-07-28


class _State(IntEnum):
    STARTING = auto()
    SHAKING_HANDS = auto()
    OPEN = auto()
    RETIRED = auto()
    """Takes no more calls; it is closed once those that are running have ended, or by its supervisor."""
    CLOSED = auto()


class Connection:
    """One connection to an MCP server: its owner task opens and closes it, on the loop's thread only."""

    def __init__(
        self,
        launch: Launch,
        process: ProcessGroup | None,
        warn: Callable[[str], None],
        stderr_folder: Path | None = None,
    ) -> None:
        self.info = ServerInfo()  # the server's description of itself, empty before the handshake
        self.list_changed = False  # whether the server has reported a changed tool list
        self.has_process = process is not None  # which ends when the connection is closed
        self._launch = launch
        self._server = launch.server
        self._process = process
        self._warn = warn
        self._explainer = Explainer(launch, process, stderr_folder)
        self._state = _State.STARTING
        self._session: Session | None = None
        self._notes: tuple[str, ...] = ()
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._calls = 0
        self._listing: Listing | None = None
        self._listing_expires = 0.0
        self._timings: dict[str, float] = {}

    @property
    def alive(self) -> bool:
        return self._state is _State.OPEN and not self._over

    @property
    def _over(self) -> bool:
        """Whether the server is gone, or sent something that makes the connection unusable."""
        # The transport may know it before the session, which first handles what was received.
        lines, ended = self._explainer.lines, self._session is not None and self._session.dispatcher.ended
        return ended or (lines is not None and (lines.finished or lines.seen.broken))

    @property
    def _phase(self) -> Phase:
        if self._state is _State.STARTING:
            return "start" if self.has_process else "connect"
        return "handshake" if self._state is _State.SHAKING_HANDS else "call"

    def _retire(self) -> None:
        if self._state is _State.OPEN:
            self._state = _State.RETIRED

    @property
    def unheard(self) -> bool:
        return self._explainer.lines is not None and self._explainer.lines.unheard

    @property
    def busy(self) -> bool:
        return self._calls > 0

    async def open(self) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        owner = self._owner = asyncio.create_task(self._own(ready), name=f"owner of {self._server.name}")
        try:
            await asyncio.wait({ready, owner}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # A server before its handshake needs no time to shut down cleanly.
            if self._explainer.lines is not None:
                self._explainer.lines.hung = True
            owner.cancel()
            await see_through(self._owner_ended(owner))
            if ready.done():
                ready.exception()  # retrieved, or asyncio would log it as never retrieved
            raise
        if not ready.done():  # the owner ended without a result: raise what ended it
            await owner
        ready.result()

    async def close(self) -> None:
        if self._owner is not None:
            self._stop.set()
            await self._owner_ended(self._owner)

    async def _owner_ended(self, owner: asyncio.Task[None]) -> None:
        for seconds in (10.0, 5.0):  # to close it, and then, cancelled, to end
            done, _ = await asyncio.wait({owner}, timeout=seconds)
            if done:
                return
            owner.cancel()
        if self._process is not None:
            await asyncio.to_thread(self._process.release)

    def require_locked(self, call: ToolCall) -> None:
        if call.locked_version not in (None, self.info.version):
            known = [plain_version(it or "") or "another" for it in (self.info.version, call.locked_version)]
            raise McpError(
                f"Server {self._server.name} reports version {known[0]}, but version {known[1]} is locked: "
                "nothing was sent to it",
                where=Where(server=self._server.name, tool=call.label, phase="call"),
                kind="validation",
                next_step=f"Install the locked version; if the change is wanted, run pflow mcp sync "
                f"{self._server.name}, then pflow mcp lock",
            )

    async def call(
        self,
        call: ToolCall,
        on_progress: OnProgress | None,
        chain: Callable[[], Sequence[str]] = tuple,
        step: RunStep | None = None,
    ) -> CallResult:
        """Call a tool over the connection, once; tell the step just before it is sent."""
        self.require_locked(call)
        # Only pflow itself is told which workflows have led to the call.
        above = list(chain()) if self.info.name == workflow_chain.SERVER_NAME else []
        meta: JSONObject = {workflow_chain.META_KEY: above} if above else {}
        started = time.perf_counter()
        idle = Deadline(self._server.call_timeout, "call_timeout")
        whole = Deadline(self._server.call_timeout_max, "call_timeout_max")
        with self._under_way():
            async with self._request("call", Bounds(idle, whole), call.label) as bounds:

                async def progressed(progress: float, total: float | None, message: str | None) -> None:
                    bounds.extend()
                    if on_progress is not None:
                        on_progress(progress, total, message and self._launch.redactor.piece(message))

                def replied() -> None:
                    bounds.extend()
                    bounds.answered = True

                request = partial(
                    request_tool,
                    call=call,
                    meta=meta,
                    until=bounds.until,
                    on_progress=progressed,
                    on_reply=replied,
                    step=step,
                )
                try:
                    raw = await request(self._live_session())
                except MCPError as error:
                    await self._learn_headers(error, bounds)  # raises it, if the call may have run
                    raw = await request(self._live_session())
        milliseconds = (time.perf_counter() - started) * 1000
        structured = raw.get("structuredContent")
        # In the handshake's versions, some libraries send null for results without structured content.
        is_null = structured is None and self.info.era != "modern"
        return CallResult(
            content=tuple(raw.get("content") or ()),
            structured=structured,
            has_structured="structuredContent" in raw and not is_null,
            is_error=bool(raw.get("isError")),
            meta=raw.get("_meta") or {},
            info=self.info,
            milliseconds=milliseconds,
        )

    async def _learn_headers(self, refusal: MCPError, bounds: Bounds) -> None:
        if refusal.code != _HEADER_MISMATCH or self.info.era != "modern":
            raise refusal
        # The call did not run, as some arguments must be sent as headers too (protocol 2026-07-28,
        # `x-mcp-header`). The tools' schemas say which: with them, it is sent again, once.
        try:
            await self._pages(bounds)
        except (MCPError, RequestFailed, ValueError) as unlisted:  # pydantic's errors are ValueErrors
            raise refusal from unlisted

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Count a call over the connection; one that exceeds its deadline retires it, if it has a process."""
        self._calls += 1
        try:
            yield
        except DeadlineExceeded:
            if self.has_process:
                self._retire()
            raise
        finally:
            self._calls -= 1
            if self._state is _State.RETIRED and not self._calls and self._explainer.lines is not None:
                self._explainer.lines.hung = True
                self._stop.set()

    async def list_tools(self) -> Listing:
        if self._listing is not None and time.monotonic() < self._listing_expires:
            return self._listing
        started = time.perf_counter()
        whole = Deadline(self._server.list_timeout, "list_timeout")
        async with self._request("list", Bounds(whole, whole)) as bounds:
            session = self._live_session()
            self.list_changed = False  # only later changes are news
            pages = await self._pages(bounds)
            try:  # in addition to the list of tools
                async with asyncio.timeout(min(2.0, self._server.list_timeout / 2)):
                    lists_resources = await has_resources(self._live_session())
            except TimeoutError:  # it may have some
                lists_resources = True
            except (RequestFailed, ValueError):  # pydantic's errors are ValueErrors
                lists_resources = False
        self._timings["list"] = _since(started)
        tools, doubled = pages.tools()
        listing = Listing(
            info=self.info,
            tools=tools,
            has_resources=lists_resources,
            skipped=tuple(dict.fromkeys((*session.dispatcher.skipped, *doubled))),
            notes=(*self._notes, *pages.notes),
            timings=dict(self._timings),
            memory_mb=group_memory_mb(self._process.pid) if self._process is not None else None,
        )
        # Versions before 2026-07-28 have no hint how long a list may be cached.
        seconds = pages.fresh_seconds if self.info.era == "modern" else 0.0
        self._listing_expires = time.monotonic() + seconds
        self._listing = redacted_listing(listing, redactor_of(self._launch))
        return self._listing

    def _note_changed_list(self) -> None:
        self.list_changed = True
        self._listing_expires = 0.0

    async def _pages(self, bounds: Bounds) -> ToolPages:
        async def request(cursor: str | None) -> tuple[str | None, Mapping[str, Any]]:
            return await request_page(self._live_session(), cursor, bounds.until)

        pages = ToolPages()
        await pages.collect(request)
        return pages

    async def remove_incomplete_installation(self) -> Path | None:
        lines = self._explainer.lines
        folder = incomplete_folder(self._server, lines.stderr.text) if lines is not None else None
        return folder if folder is not None and await asyncio.to_thread(remove_folder, folder) else None

    def _live_session(self) -> Session:
        if self._session is None or not self.alive:
            where = Where(server=self._server.name, phase=self._phase)
            message = f"The connection to server {self._server.name} is closed"
            raise ConnectionFailed(message, where=where, retryable=True)
        return self._session

    async def _own(self, ready: asyncio.Future[None]) -> None:
        """The owner task: open the connection, serve until `close` or the server's end, then close it."""
        whole = start_deadline(self._server)
        deadline = asyncio.timeout(whole.seconds)

        def installing() -> bool:
            lines = self._explainer.lines
            return bool(runner(self._server)) and (lines is None or lines.installing)

        extending = asyncio.create_task(extend_start(deadline, self._server, installing, self._warn))
        watching = self._watch_memory()
        try:
            async with deadline, self._connected(deadline):
                extending.cancel()
                deadline.reschedule(None)
                if self._process is not None:
                    self._process.need_no_time()
                ready.set_result(None)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - the SDK may raise anything, in exception groups
            if ready.done():
                cause = in_words(next(leaves(error)), self._launch.redactor)
                self._warn(f"lost its connection: {cause}")
                return  # the session fails the running calls; later ones see `alive` false
            phase, timed_out = self._phase, isinstance(error, TimeoutError) and deadline.expired()
            if timed_out and await extending:
                whole, phase = start_deadline(self._server, installing=True), "start"
                self._explainer.installer = runner(self._server)
            passed = whole if timed_out else None
            ready.set_exception(
                await self._explainer.explained(error, phase, passed=passed, closed=self._over)
            )
        finally:
            extending.cancel()
            if watching is not None:
                watching.cancel()
            self._state = _State.CLOSED
            if self._process is not None and self._explainer.lines is None:
                self._process.release()  # no transport was created that would end it

    def _watch_memory(self) -> asyncio.Task[None] | None:
        process, limit = self._process, self._server.memory_limit_mb
        if process is None or limit is None:
            return None

        def note(used: float) -> None:
            self._explainer.memory_mb = used
            if self.alive and not self.busy:  # no failing call reports it
                self._warn(f"was ended: {excess(used, limit)}")
            self._retire()

        return asyncio.create_task(limit_memory(process, limit, note))

    @asynccontextmanager
    async def _connected(self, deadline: asyncio.Timeout) -> AsyncIterator[None]:
        started = self._process.started if self._process is not None else time.perf_counter()
        async with self._transport() as streams:
            redactor = self._launch.redactor
            session = Session(streams, redactor, self._warn, self._note_changed_list)
            async with session:
                self._timings["start"], handshake = _since(started), time.perf_counter()
                self._state = _State.SHAKING_HANDS
                self._session = session
                negotiated = partial(
                    negotiate,
                    session,
                    self._server.protocol,
                    "handshake" if self._server.transport == "sse" else self._launch.era,
                    patience=start_deadline(self._server).seconds / 3,  # for an answer to the probe
                )
                await with_retry_after(negotiated, deadline.when)
                self._timings["handshake"] = _since(handshake)
                self.info, self._notes = redacted_info(describe(session), redactor_of(self._launch))
                session.dispatcher.version = self.info.protocol
                if (lines := self._explainer.lines) is not None:
                    lines.seen.opened()
                    self._notes += (lines.seen.first_stray,) if lines.seen.first_stray else ()
                self._state = _State.OPEN
                try:
                    async with listening(session):
                        yield
                finally:  # what the server still sends must not stop the session from closing
                    await streams[0].aclose()

    def _transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        if not self._server.is_remote:
            self._explainer.lines = line_transport(self._server, self._process, self._warn)
            return self._explainer.lines
        from pflow_mcp_plugin.client.transport.http_transports import SseTransport, StreamableHttp

        auth = None
        if signs_in(self._server.auth):
            from pflow_mcp_plugin.client.oauth.bearer_auth import BearerAuth

            auth = BearerAuth(self._launch, self._warn)
        kind = SseTransport if self._server.transport == "sse" else StreamableHttp
        self._explainer.remote = kind(self._server, auth)
        return self._explainer.remote

    @asynccontextmanager
    async def _request(self, phase: Phase, bounds: Bounds, tool: str = "") -> AsyncIterator[Bounds]:
        try:
            async with bounds:
                yield bounds
        except PflowError:  # one of ours, or raised by a step of a run
            raise
        except Exception as error:
            # A lost session fails every further request: the next one needs a new connection.
            if isinstance(error, RequestFailed) and error.exchange.session_lost:
                self._retire()
            passed = error.deadline if isinstance(error, DeadlinePassed) else None
            raise await self._explainer.explained(
                error, phase, tool=tool, passed=passed, closed=self._over, answered=bounds.answered
            ) from error


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
