"""A run is told just before each of its calls is sent, and may keep it from being sent."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from pflow_mcp_plugin.client import Pool, session
from pflow_mcp_plugin.contract import PflowError, RunStep
from pflow_mcp_plugin.exchange import Launch, ToolCall

RUN = object()


class Step(RunStep):
    """A step that notes with how many others it was told, and what the server had been sent by then."""

    def __init__(self, run: object = RUN, failure: PflowError | None = None) -> None:
        self.run = run
        self.failure = failure
        self.told: list[int] = []

    def sending(self, *others: RunStep) -> None:
        for step in (self, *others):
            assert isinstance(step, Step)
            step.told.append(len(others))
        if self.failure is not None:
            raise self.failure


def remember(pool: Pool, demo: Launch, step: Step, key: str) -> None:
    call = ToolCall(server="demo", tool="remember", arguments={"key": key, "value": 1})
    pool.call(demo, call, step=step)


def recalled(pool: Pool, demo: Launch, key: str) -> object:
    answer = pool.call(demo, ToolCall(server="demo", tool="recall", arguments={"key": key}))
    return None if answer.is_error or answer.structured is None else answer.structured["value"]


def test_a_call_whose_announcement_fails_is_not_sent(pool, demo):
    refusal = PflowError("the disk is full", ran="not ran")
    with pytest.raises(PflowError) as caught:
        remember(pool, demo, Step(failure=refusal), "b")
    assert caught.value is refusal
    assert recalled(pool, demo, "b") is None


def test_each_of_many_calls_is_announced_once_with_none_of_another_run(pool, demo):
    pool.list_tools(demo)
    steps, other = [Step() for _ in range(12)], Step(run=object())
    ready = threading.Barrier(13)

    def call(number: int, step: Step) -> None:
        ready.wait(30)
        remember(pool, demo, step, str(number))

    with ThreadPoolExecutor(13) as threads:
        list(threads.map(call, range(13), [*steps, other]))
    assert [len(step.told) for step in steps] == [1] * 12
    assert other.told == [0]  # of another run


def told_of(waiting: int, under_way: int) -> list[list[int]]:
    """Announce one of so many calls of a run, and the others that wait three turns of the loop later."""

    async def announced() -> list[list[int]]:
        steps = [Step(RUN) for _ in range(waiting)]
        with ExitStack() as calls:
            first, *others = [calls.enter_context(session._under_way(step)) for step in steps]
            for _ in range(under_way - waiting):
                calls.enter_context(session._under_way(Step(RUN)))
            await asyncio.wait_for(asyncio.gather(first(), *map(later, others)), 60)
        assert session._calls_of == {}
        return [step.told for step in steps]

    async def later(told: Callable[[], Awaitable[None]]) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        await told()

    return asyncio.run(announced())


def test_one_of_many_calls_waits_for_the_others(monkeypatch):
    monkeypatch.setattr(session, "_MOMENT", 3600)
    assert told_of(session._MANY, session._MANY) == [[session._MANY - 1]] * session._MANY
    assert told_of(2, session._MANY - 1) == [[0], [0]]  # they are not many


def test_one_of_many_calls_waits_no_longer_than_a_moment():
    assert told_of(1, session._MANY) == [[0]]
