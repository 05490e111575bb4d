"""The deadlines of requests and starts, which the SDK lacks, and the pause that a busy server asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

import attrs

from pflow_mcp_plugin.client.request_failures import RequestFailed
from pflow_mcp_plugin.types import Server

START_SECONDS = 30.0
INSTALL_SECONDS = 300.0
"""How long a package runner may take to install and start a server, unless the config sets a limit."""
_INSTALL_POLL_SECONDS = 0.2
T = TypeVar("T")


@attrs.frozen
class Deadline:
    """A deadline: how long a request or a start may take, and which field of the config says so."""

    seconds: float
    name: str


class DeadlinePassed(Exception):
    """A request exceeded a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(deadline)
        self.deadline = deadline


class Bounds:
    """The two deadlines of a running request: an idle one, and one for the whole request.

    Args:
        deadline: The timeout that ends the request.
        idle: Seconds allowed without a sign of life.
        end: The loop's time at which the request ends at the latest.

    Attributes:
        over: Whether the request has ended.
    """

    def __init__(self, deadline: asyncio.Timeout, idle: float, end: float) -> None:
        self._deadline = deadline
        self._idle = idle
        self._end = end
        self.over = False

    def extend(self) -> None:
        """Reset the idle deadline after a sign of life, unless the request has ended or timed out."""
        if not self.over and not self._deadline.expired():
            self._deadline.reschedule(min(asyncio.get_running_loop().time() + self._idle, self._end))

    def until(self) -> float | None:
        """Return the loop's time at which a deadline ends the request, unless it is extended."""
        return self._deadline.when()


@asynccontextmanager
async def bounded(idle: Deadline, whole: Deadline) -> AsyncIterator[Bounds]:
    """Bound a request by an idle deadline, which signs of life extend, and by a total one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + whole.seconds
    try:
        async with asyncio.timeout_at(min(loop.time() + idle.seconds, end)) as deadline:
            bounds = Bounds(deadline, idle.seconds, end)
            try:
                yield bounds
            finally:
                bounds.over = True
    except TimeoutError as error:
        if not deadline.expired():  # another timeout, inside the request
            raise
        raise DeadlinePassed(whole if loop.time() >= end else idle) from error


def start_deadline(server: Server) -> Deadline:
    """Return the deadline of a start; it is extended while a package runner installs the server."""
    seconds = server.startup_timeout
    return Deadline(START_SECONDS if seconds is None else seconds, "startup_timeout")


def longest_start(server: Server) -> Deadline:
    """Return the deadline of a start that includes an installation."""
    seconds = server.startup_timeout
    return Deadline(INSTALL_SECONDS if seconds is None else seconds, "startup_timeout")


async def extend_start(
    deadline: asyncio.Timeout,
    installing: Callable[[], bool],
    warn: Callable[[], None],
    *,
    is_fixed: bool = False,
) -> bool:
    """Extend a start deadline while a package runner is still installing the server."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    warned = False
    while not deadline.expired():
        if not installing():
            return False
        now = loop.time()
        if not is_fixed:
            deadline.reschedule(min(now + START_SECONDS, began + INSTALL_SECONDS))
        if not warned and now > began + START_SECONDS:
            warned = True
            warn()
        await asyncio.sleep(_INSTALL_POLL_SECONDS)
    return True


async def with_retry_after(request: Callable[[], Awaitable[T]], until: Callable[[], float | None]) -> T:
    """Send a request; if the answer is 429 with a `Retry-After`, wait and send it once more.

    A server that answers 429 (RFC 6585, section 4) has not started the request: repeating it is safe.
    """
    try:
        return await request()
    except RequestFailed as refusal:
        seconds = _pause(refusal, until())
        if seconds is None:
            raise
    await asyncio.sleep(seconds)
    return await request()


def _pause(refusal: RequestFailed, end: float | None) -> float | None:
    if refusal.exchange.status != HTTPStatus.TOO_MANY_REQUESTS:
        return None
    seconds = retry_after(refusal.exchange.headers.get("retry-after", ""))
    if seconds is None or end is None or asyncio.get_running_loop().time() + seconds >= end:
        return None
    return seconds


def retry_after(text: str) -> float | None:
    """Return the seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3), None if it is invalid."""
    if text.strip().isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # the zone `-0000`: UTC of unknown origin
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
