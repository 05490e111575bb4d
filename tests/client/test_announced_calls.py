"""A run is told just before each of its calls is sent, and may keep it from being sent."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pflow_mcp_plugin.client import Pool
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


def test_a_call_whose_announcement_fails_is_not_sent(pool: Pool, demo: Launch) -> None:
    refusal = PflowError("the disk is full", ran="not ran")
    with pytest.raises(PflowError) as caught:
        remember(pool, demo, Step(failure=refusal), "b")
    assert caught.value is refusal
    assert recalled(pool, demo, "b") is None


def test_each_of_many_calls_is_announced_once_with_none_of_another_run(pool: Pool, demo: Launch) -> None:
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
