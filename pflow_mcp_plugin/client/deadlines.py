"""The deadlines of requests; the SDK has none of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs


@attrs.frozen
class Deadline:
    """A deadline: how long a request or a start may take, and which field of the config says so.

    Attributes:
        seconds: The limit.
        name: The config field that sets it.
    """

    seconds: float
    name: str


class DeadlinePassed(Exception):
    """A request exceeded a deadline.

    Attributes:
        deadline: The deadline that passed.
    """

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
        """Reset the idle deadline after a sign of life, unless the request is over or its time is."""
        if not self.over and not self._deadline.expired():
            self._deadline.reschedule(min(asyncio.get_running_loop().time() + self._idle, self._end))

    def until(self) -> float | None:
        """Return the loop's time at which a deadline ends the request, unless it is extended."""
        return self._deadline.when()


@asynccontextmanager
async def bounded(idle: Deadline, whole: Deadline) -> AsyncIterator[Bounds]:
    """Bound a request by an idle deadline, which signs of life extend, and by a total one.

    Args:
        idle: Limits the time without a sign of life.
        whole: Limits the whole request.

    Raises:
        DeadlinePassed: One of the two passed; the exception names it.
    """
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
