"""The notifications a pflow server sends its clients: the progress of a call, and that a list has changed."""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, Self

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from pflow_mcp_plugin.contract import Library, PflowError, Progress

Changed = Literal["tools", "resources", "prompts"]

_EVENTS: dict[Changed, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "resources": ResourcesListChanged,
    "prompts": PromptsListChanged,
}


class _Listening(ListenHandler):
    """The SDK's subscriptions, to lists alone, which also know how many clients have subscribed."""

    clients = 0

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        lists = params.notifications.model_copy(update={"resource_subscriptions": None})
        self.clients += 1
        try:
            return await super().__call__(ctx, params.model_copy(update={"notifications": lists}))
        finally:
            self.clients -= 1


class ListChanges:
    """The clients to notify when lists change: open connections with a handshake, and subscribers."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.listen = _Listening(self._bus)
        """Answers `subscriptions/listen`, the subscriptions of revision 2026-07-28."""

    def seen(self, context: ServerRequestContext[Any, Any]) -> None:
        """Notify the client of this request of later changes, if a handshake opened its connection."""
        if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            # Each request has a session of its own; the connection stays.
            self._connections.add(context.session._connection)  # noqa: SLF001

    @property
    def has_audience(self) -> bool:
        return bool(self._connections or self.listen.clients)

    async def announce(self, changed: Changed) -> None:
        """Notify every client that a list has changed; must be called in the server's event loop."""
        await self._bus.publish(_EVENTS[changed]())
        for connection in list(self._connections):
            await connection.notify(f"notifications/{changed}/list_changed", None)


INTERVAL = 1.0
"""Seconds between two checks of the library."""


@asynccontextmanager
async def watched(
    library: Library | None, changes: ListChanges, lists: Sequence[Changed]
) -> AsyncIterator[None]:
    """Notify clients of each change of the saved workflows, for as long as the `async with` block runs.

    `lists` are those that change with the library. Nothing is read while no client would be notified.
    """
    if library is None:
        yield
        return
    task = asyncio.create_task(_watch(library, changes, lists), name="watching the library")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _watch(library: Library, changes: ListChanges, lists: Sequence[Changed]) -> None:
    # Not updated while nobody listens: a new client is notified once too often rather than not at all.
    known = _fingerprint(library, "")
    while True:
        await asyncio.sleep(INTERVAL)
        if not changes.has_audience:
            continue
        now = _fingerprint(library, known)
        if now != known:
            known = now
            for each in lists:
                await changes.announce(each)


def _fingerprint(library: Library, otherwise: str) -> str:
    with suppress(PflowError, OSError):  # the folder cannot be read at the moment
        return library.fingerprint()
    return otherwise


_WITHIN = 0.1
"""The share of the remaining way to the next whole step that each report within a step adds."""


class ProgressSender:
    """Sends a client the progress of its call; the SDK drops it unless the client asked for it.

    If the client is slower than the run, it receives only the latest. The number always grows, as the
    protocol demands: each report within a step adds a little.
    """

    def __init__(self, context: ServerRequestContext[Any, Any], redact: Callable[[str], str]) -> None:
        self._session = context.session
        self._redact = redact
        self._loop = asyncio.get_running_loop()
        self._latest: Progress | None = None
        self._sending: asyncio.Task[None] | None = None
        self._sent = -1.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None and self._latest is not None:
            self._begin()
        if self._sending is not None:
            if error is not None:
                self._sending.cancel()
            await asyncio.wait([self._sending])

    def report(self, progress: Progress) -> None:
        """Notify the client of a call's progress; may be called from any thread."""
        waiting, self._latest = self._latest is not None, progress
        if not waiting:
            with suppress(RuntimeError):  # the loop is closed: nothing waits for the progress
                self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        while (progress := self._latest) is not None:
            self._latest = None
            done = progress.done
            if done <= self._sent:
                done = self._sent + (math.floor(self._sent) + 1 - self._sent) * _WITHIN
            if done > self._sent:  # there may be no further float before the next step
                self._sent = done
                message = self._redact(progress.message) if progress.message else None
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client is gone
                    await self._session.report_progress(done, progress.total, message)
