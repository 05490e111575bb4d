"""Servers that outlive a run: shared by the runs of one caller of `pflow mcp serve`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.client.pool import Pool, watched_calls
from pflow_mcp_plugin.client.supervisor import OnStart, closed
from pflow_mcp_plugin.exchange import CallResult, Launch, Listing, ToolCall

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pflow_mcp_plugin.client.connection import OnProgress
    from pflow_mcp_plugin.contract import RunStep

IDLE_SECONDS = 600.0
"""How long a server that no run uses is kept."""
MOST_IDLE = 16
"""The most servers that are kept although no run uses them; beyond that, the one idle longest is ended."""


class KeptServers:
    """The servers that are kept for one caller, whose runs share them; safe to use from any thread.

    A server is ended when no run has used it for some time, when its config has changed or a sync found other
    tools, when there are too many, and by `close`. `open_pool` opens the pool, given functions as its `warn`
    and `on_start`.
    """

    def __init__(
        self, open_pool: Callable[[Callable[[str], None], OnStart], Pool], idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._open_pool = open_pool
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._shares: list[Share] = []
        self._idle: dict[str, tuple[float, Launch]] = {}  # since when, by key; those idle longest first
        self._timer: threading.Timer | None = None
        self._learned: set[str] = set()
        self._closed = False

    @contextmanager
    def share(
        self,
        warn: Callable[[str], None],
        on_start: OnStart,
        add_secrets: Callable[[Iterable[str]], object] = lambda _: None,
    ) -> Iterator[Share]:
        """Yield a run's share of the kept servers; `add_secrets` is called with new secrets."""
        with self._lock:
            if self._pool is None:
                self._pool = self._open_pool(self._warn, self._on_start)
            share = Share(
                pool=self._pool, take=self._take, warn=warn, on_start=on_start, add_secrets=add_secrets
            )
            self._shares.append(share)
            add_secrets(frozenset(self._learned))
        try:
            yield share
        finally:
            with self._lock:
                self._shares.remove(share)
                in_use = {key for each in self._shares for key in each.used}
                for key, launch in share.used.items():
                    if key not in in_use:
                        self._idle[key] = (time.monotonic(), launch)
                for _, launch in list(self._idle.values())[:-MOST_IDLE]:
                    self._end(launch, share.pool)
                self._watch()
                pool = self._without_pool()
            if pool is not None:
                pool.close()

    def close(self) -> None:
        """End the kept servers as soon as no run uses any; a later share starts its own."""
        with self._lock:
            self._closed = True
            pool = self._without_pool()
        if pool is not None:
            pool.close()

    def _without_pool(self) -> Pool | None:
        if self._shares or not self._closed:
            return None
        if self._timer is not None:
            self._timer.cancel()
        pool, self._pool, self._timer = self._pool, None, None
        self._idle.clear()
        return pool

    def _take(self, share: Share, launch: Launch) -> Launch:
        with self._lock:
            if launch.key not in share.used:
                _, former = self._idle.pop(launch.key, (0.0, None))
                if former and former.synced not in ("", launch.synced):  # it may have the tools from before
                    share.pool.end(former)
                elif former:
                    share.pool.renew(launch)
                # Made once: its key, a hash of the whole config, is computed once for each object.
                share.used[launch.key] = attrs.evolve(launch, report=self._learn)
                for _, other in list(self._idle.values()):
                    if other.server.name == launch.server.name:  # its config has changed since
                        self._end(other, share.pool)
            return share.used[launch.key]

    def _end(self, launch: Launch, pool: Pool) -> None:
        del self._idle[launch.key]
        pool.end(launch)

    def _watch(self) -> None:
        """Look again when the kept server that has been idle longest may be ended."""
        if self._idle and self._timer is None:
            since, _ = next(iter(self._idle.values()))
            self._timer = threading.Timer(since + self._idle_seconds - time.monotonic(), self._end_idle)
            self._timer.daemon = True
            self._timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            self._timer = None
            if self._pool is None:
                return
            for since, launch in list(self._idle.values()):
                if time.monotonic() - since >= self._idle_seconds:
                    self._end(launch, self._pool)
            self._watch()

    def _warn(self, text: str) -> None:
        for share in list(self._shares):
            share.warn(text)

    def _on_start(self, server: str) -> Callable[[str], object]:
        waiting = [
            share.on_start(server)
            for share in list(self._shares)
            if any(launch.server.name == server for launch in list(share.used.values()))
        ]

        def ended(error: str) -> None:
            for end in waiting:
                end(error)

        return ended

    def _learn(self, secrets: Iterable[str]) -> None:
        new = frozenset(secrets)
        with self._lock:
            self._learned |= new
            shares = list(self._shares)
        for share in shares:
            share.add_secrets(new)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Share:
    """A run's share of kept servers; used as a `Pool` is, and cancels its own calls only."""

    pool: Pool
    warn: Callable[[str], None]
    on_start: OnStart
    add_secrets: Callable[[Iterable[str]], object]
    used: dict[str, Launch] = attrs.field(factory=dict)
    _take: Callable[[Share, Launch], Launch]
    _calls: set[Future[Any]] = attrs.field(factory=set)
    _cancelled: threading.Event = attrs.field(factory=threading.Event)

    def prepare(self, launch: Launch) -> None:
        self.pool.prepare(self._take(self, launch))

    def call(
        self,
        launch: Launch,
        call: ToolCall,
        on_progress: OnProgress | None = None,
        *,
        safe_to_repeat: bool = False,
        chain: Callable[[], Sequence[str]] = tuple,
        step: RunStep | None = None,
    ) -> CallResult:
        if self._cancelled.is_set():
            raise closed(launch)
        known = self._take(self, launch)
        with watched_calls(self._note):
            return self.pool.call(
                known, call, on_progress, safe_to_repeat=safe_to_repeat, chain=chain, step=step
            )

    def list_tools(self, launch: Launch) -> Listing:
        return self.pool.list_tools(self._take(self, launch))

    def changed_lists(self) -> list[Launch]:
        return [launch for launch in self.pool.changed_lists() if launch.key in self.used]

    def cancel(self) -> None:
        self._cancelled.set()
        for future in tuple(self._calls):
            future.cancel()

    def _note(self, call: Future[Any]) -> None:
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        if self._cancelled.is_set():  # just before
            call.cancel()
