"""What blocks in a thread gives its result, and keeps neither a loop nor the program from ending."""

import asyncio
import threading

import pytest

from pflow_mcp_plugin.daemon_threads import in_daemon_thread


def test_what_a_function_returns_or_raises_arrives():
    assert asyncio.run(in_daemon_thread(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_daemon_thread(divmod, 7, 0))


def test_a_loop_that_ends_does_not_wait_for_it():
    begun, go_on = threading.Event(), threading.Event()
    threads = []

    def blocks():
        threads.append(threading.current_thread())
        begun.set()
        go_on.wait(30)

    async def cancelled():
        task = asyncio.create_task(in_daemon_thread(blocks))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()

    asyncio.run(cancelled())
    (thread,) = threads
    try:
        assert thread.is_alive()
        assert thread.daemon
    finally:
        go_on.set()
        thread.join(30)
