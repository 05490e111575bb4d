"""What other threads submit to the background loop."""

import asyncio
import threading
from concurrent.futures import CancelledError
from contextvars import Context

import pytest

from pflow_mcp_plugin.client.background_loop import LoopThread, awaited


@pytest.fixture
def loop():
    loop = LoopThread()
    yield loop
    loop.stop()


@pytest.fixture
def wakes(loop, monkeypatch):
    """How often the loop was woken."""
    times = []
    wake = loop.loop.call_soon_threadsafe
    monkeypatch.setattr(loop.loop, "call_soon_threadsafe", lambda *call: (times.append(1), wake(*call)))
    return times


async def value(number):
    return number


async def failing():
    raise ValueError("no")


async def endless(begun, ended):
    begun.set()
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


def test_many_coroutines_wake_the_loop_once_and_each_ends_as_its_own_does(loop, wakes):
    busy = threading.Event()
    loop.loop.call_soon_threadsafe(busy.wait)
    wakes.clear()
    results = [loop.submit(value(number), Context()) for number in range(100)]
    failed = loop.submit(failing(), Context())
    busy.set()
    assert [awaited(result) for result in results] == list(range(100))
    with pytest.raises(ValueError, match="no"):
        awaited(failed)
    assert len(wakes) == 1
    assert awaited(loop.submit(value(7), Context())) == 7


def test_a_coroutine_that_nobody_waits_for_any_more_is_cancelled(loop):
    begun, ended = threading.Event(), threading.Event()
    future = loop.submit(endless(begun, ended), Context())
    assert begun.wait(30)
    future.cancel()
    assert ended.wait(30)
    with pytest.raises(CancelledError):
        awaited(future)


def test_a_ctrl_c_while_the_loop_is_woken_takes_back_one_coroutine_and_no_later_one(loop, monkeypatch):
    begun = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(loop.loop, "call_soon_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.submit(endless(begun, begun), Context())
    assert awaited(loop.submit(value(2), Context()), 30) == 2
    assert not begun.is_set()


def interrupted(*_):
    raise KeyboardInterrupt
