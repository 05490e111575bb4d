"""The deadlines of requests and starts, which the SDK lacks, and the pause that a busy server asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar

import attrs

from pflow_mcp_plugin.client.request_failures import RequestFailed
from pflow_mcp_plugin.network.http_headers import retry_after
from pflow_mcp_plugin.types import Server

START_SECONDS = 30.0
INSTALL_SECONDS = 300.0
"""How long a package runner may take to install and start a server, unless the config sets a limit."""
T = TypeVar("T")


@attrs.frozen
class Deadline:
    """The deadline of a request or a start: how long it may take, and which field of the config says so."""

    seconds: float
    name: str


@attrs.define(slots=False)
class DeadlinePassed(Exception):
    """A deadline has passed: the exception of the request or start that it limited."""

    deadline: Deadline


class Bounds:
    """The two deadlines of a request: an idle one, which signs of life extend, and one for all of it."""

    def __init__(self, idle: Deadline, whole: Deadline) -> None:
        self.answered = False  # whether the server has answered an earlier round of the request
        self._idle = idle
        self._whole = whole
        now = asyncio.get_running_loop().time()
        self._end = now + whole.seconds
        self._timeout = asyncio.timeout_at(min(now + idle.seconds, self._end))

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as late:
            is_end = asyncio.get_running_loop().time() >= self._end
            raise DeadlinePassed(self._whole if is_end else self._idle) from late

    def extend(self) -> None:
        """Reset the idle deadline after a sign of life, unless the request has ended or timed out."""
        with suppress(RuntimeError):
            now = asyncio.get_running_loop().time()
            self._timeout.reschedule(min(now + self._idle.seconds, self._end))

    def until(self) -> float | None:
        return self._timeout.when()


def start_deadline(server: Server, *, installing: bool = False) -> Deadline:
    """Return the deadline of a start; it is longer if a package runner installs the server first."""
    usual = INSTALL_SECONDS if installing else START_SECONDS
    return Deadline(usual if server.startup_timeout is None else server.startup_timeout, "startup_timeout")


async def extend_start(
    deadline: asyncio.Timeout, server: Server, installing: Callable[[], bool], warn: Callable[[str], None]
) -> bool:
    """Extend the deadline of a start while a package runner installs the server; return whether it does."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    warned = False
    while not deadline.expired():
        if not installing():
            return False
        now = loop.time()
        if server.startup_timeout is None:
            deadline.reschedule(min(now + START_SECONDS, began + INSTALL_SECONDS))
        if not warned and now > began + START_SECONDS:
            warned = True
            limit = f"{start_deadline(server, installing=True).seconds:g} s"
            warn(
                f"is not running yet: {server.command} may still be installing it, "
                f"for at most {limit} (startup_timeout sets another limit)"
            )
        await asyncio.sleep(0.2)
    return True


async def with_retry_after(
    request: Callable[[], Awaitable[T]],
    until: Callable[[], float | None],
    before: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """Repeat a request after the pause that a busy server asks for (429), if that ends before its deadline.

    A server that answers 429 (RFC 6585, section 4) has not started the request: repeating it is safe.
    `before` is awaited each time.
    """
    try:
        if before is not None:
            await before()
        return await request()
    except RequestFailed as refusal:
        seconds, end = retry_after(refusal.exchange.headers.get("retry-after", "")), until()
        if refusal.exchange.status != HTTPStatus.TOO_MANY_REQUESTS or seconds is None or end is None:
            raise
        if asyncio.get_running_loop().time() + seconds >= end:
            raise
    await asyncio.sleep(seconds)
    if before is not None:
        await before()
    return await request()
