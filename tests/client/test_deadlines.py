"""Which deadline ends a request or a start."""

import asyncio

import pytest

from pflow_mcp_plugin.client.deadlines import (
    Bounds,
    Deadline,
    DeadlinePassed,
    start_deadline,
)
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
