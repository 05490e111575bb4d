"""The deadlines of requests; the SDK has none of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

from pflow_mcp_plugin.client.exchange import Exchange


@attrs.frozen
class Deadline:
    """How long something may take.

    Attributes:
        seconds: So long.
        name: The field of the config that says so.
    """

    seconds: float
    name: str


class DeadlinePassed(Exception):
    """A request took too long.

    Attributes:
        deadline: The one that passed.
    """

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(deadline)
        self.deadline = deadline


@asynccontextmanager
async def bounded(exchange: Exchange, idle: Deadline, whole: Deadline) -> AsyncIterator[Callable[[], None]]:
    """Bound a request by its idle deadline, which the yielded function starts anew, and the whole one.

    Args:
        exchange: Told until when it may go on.
        idle: For the time without a sign of life.
        whole: For all of it.

    Raises:
        DeadlinePassed: With the one that passed.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + whole.seconds
    try:
        async with asyncio.timeout_at(min(loop.time() + idle.seconds, end)) as deadline:
            exchange.deadline = deadline
            yield lambda: deadline.reschedule(min(loop.time() + idle.seconds, end))
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise DeadlinePassed(whole if loop.time() >= end else idle) from error
