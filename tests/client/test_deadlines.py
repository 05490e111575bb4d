"""Which deadline ends a request, and when a request is repeated."""

from __future__ import annotations

import asyncio
import math

import pytest

from pflow_mcp_plugin.client.deadlines import (
    Bounds,
    Deadline,
    DeadlinePassed,
    start_deadline,
    with_retry_after,
)
from pflow_mcp_plugin.client.request_failures import Exchange, RequestFailed
from pflow_mcp_plugin.types import Server


@pytest.mark.parametrize(("idle", "whole", "named"), [(0, 60, "idle"), (60, 0, "whole"), (0, 0, "whole")])
def test_the_deadline_that_passed_is_named(idle, whole, named):
    async def run() -> None:
        async with Bounds(Deadline(idle, "idle"), Deadline(whole, "whole")):
            await asyncio.sleep(60)

    with pytest.raises(DeadlinePassed) as passed:
        asyncio.run(run())
    assert passed.value.deadline.name == named


def test_a_sign_of_life_extends_the_idle_deadline_up_to_the_whole_one():
    async def run() -> tuple[float, float, float]:
        bounds = Bounds(Deadline(50, "idle"), Deadline(60, "whole"))
        now = asyncio.get_running_loop().time()
        async with bounds:
            first = bounds.until() or 0
            await asyncio.sleep(0.001)
            bounds.extend()
            second = bounds.until() or 0
        bounds.extend()  # after its end: has no effect
        assert bounds.until() == second
        return first - now, second - first, bounds.answered

    first, later, answered = asyncio.run(run())
    assert first == pytest.approx(50, abs=1)
    assert 0 < later < 1
    assert answered is False


@pytest.mark.parametrize(
    ("configured", "installing", "seconds"),
    [(None, False, 30), (None, True, 300), (7, False, 7), (7, True, 7), (0, True, 0)],
)
def test_a_start_may_take_as_long_as_is_configured_or_usual(configured, installing, seconds):
    server = Server(name="odd", command="npx", startup_timeout=configured)
    assert start_deadline(server, installing=installing) == Deadline(seconds, "startup_timeout")


@pytest.mark.parametrize(
    ("status", "after", "until", "sent"),
    [
        (429, "0", math.inf, 2),
        (429, "9", 5, 1),
        (429, "", math.inf, 1),
        (429, "0", None, 1),
        (503, "0", math.inf, 1),
    ],
)
def test_only_a_request_that_came_too_soon_is_sent_again_once(status, after, until, sent):
    requests = []

    async def request() -> None:
        requests.append(1)
        raise RequestFailed(Exchange(status=status, headers={"retry-after": after}))

    async def run() -> None:
        end = None if until is None else asyncio.get_running_loop().time() + until
        await with_retry_after(request, lambda: end)

    with pytest.raises(RequestFailed):
        asyncio.run(run())
    assert len(requests) == sent
