"""Calls from Python, without a workflow."""

import asyncio
import contextlib
import json
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from programs import script_server, until

from pflow_mcp_plugin.calls import call, call_async, session
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.nodes import class_for

FAULTY = Path(__file__).parent / "faults" / "stdio_server.py"

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]


@pytest.fixture
def configured(pflow):
    """Add a server and sync it."""

    def configured(server, table):
        assert pflow("mcp", "add", json.dumps({server: table}), "--sync").exit_code == 0

    return configured


@pytest.fixture
def counting(configured, tmp_path):
    """Add a server that notes each of its starts; return the file."""
    starts = tmp_path / "starts"
    configured("counting", script_server(FAULTY, "Doubles", env={"LOG": str(starts)}))
    starts.unlink()
    return starts


def _starts(file):
    return file.read_text(encoding="utf-8").split().count("start")


def test_a_call_returns_the_result_of_the_tool(counting):
    assert call("counting", "double", number=21) == 42
    assert _starts(counting) == 1


def test_a_call_that_fails_raises_the_error_of_the_tool_which_names_tool_and_server_once(counting):
    with pytest.raises(PflowError) as raised:
        call("counting", "double", number=-1)
    assert raised.value.ran == "ran"
    assert str(raised.value) == f"{raised.value.message} (server counting)"
    assert raised.value.message.startswith("Error executing tool double")


@pytest.mark.parametrize("way", [call, lambda *named, **given: asyncio.run(call_async(*named, **given))])
def test_a_traceback_shows_the_next_steps_of_an_error(counting, way):
    with pytest.raises(McpError, match=r"Server countin not configured in .*mcp-servers\.toml") as raised:
        way("countin", "double", number=1)
    assert "".join(traceback.format_exception(raised.value)).endswith("\n  -> Did you mean counting?\n")


def test_arguments_are_checked_before_a_server_starts(counting):
    with pytest.raises(McpError, match="do not fit its input schema"):
        call("counting", "double", number="x")
    assert not counting.exists()


@pytest.mark.parametrize(("server", "tool"), [(None, "double"), ("counting", 5)])
def test_what_is_no_name_is_an_error_too(counting, server, tool):
    with pytest.raises(PflowError, match=r"must be a string, not (NoneType|int)"):
        call(server, tool, number=1)


def test_an_unknown_tool_is_an_error_that_names_it(counting):
    with pytest.raises(McpError, match="treble"):
        call("counting", "treble", number=1)


def test_one_session_serves_every_thread_of_the_program(counting):
    """A thread that was not there when the session was opened uses its connection, by every way to call."""
    made = class_for("mcp-counting-double")

    def by_node(number):
        shared = {}
        made(number=number).run(shared)
        return shared["result"]

    with session() as tools, ThreadPoolExecutor(8) as threads:
        ways = (
            lambda number: tools.call("counting", "double", number=number),
            lambda number: call("counting", "double", number=number),
            by_node,
        )
        found = [list(threads.map(way, range(40))) for way in ways]
    assert found == [[2 * number for number in range(40)]] * 3
    assert _starts(counting) == 1


def test_a_thread_with_a_session_of_its_own_uses_that(counting):
    def alone():
        with session():
            return [call("counting", "double", number=number) for number in range(3)]

    with session() as tools, ThreadPoolExecutor(2) as threads:
        assert tools.call("counting", "double", number=1) == 2
        assert [future.result() for future in [threads.submit(alone) for _ in range(2)]] == [[0, 2, 4]] * 2
    assert _starts(counting) == 3


def _in_thread(work):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


def test_the_sessions_of_other_threads_are_not_used_by_the_main_thread_and_not_guessed_by_others(counting):
    with contextlib.ExitStack() as closing:
        first, second = (closing.enter_context(contextlib.closing(session())) for _ in range(2))
        _in_thread(first.__enter__)
        assert first.call("counting", "double", number=1) == 2
        assert _in_thread(lambda: call("counting", "double", number=2)) == 4
        assert _starts(counting) == 1
        assert call("counting", "double", number=3) == 6
        assert _starts(counting) == 2
        _in_thread(second.__enter__)
        with pytest.raises(McpError, match="Several sessions are open"):
            _in_thread(lambda: call("counting", "double", number=4))
    assert _starts(counting) == 2


def test_a_session_may_be_closed_by_another_thread_than_opened_it_and_then_makes_no_call(counting):
    opened = session()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(opened.__enter__).result()
    assert opened.call("counting", "double", number=1) == 2
    opened.__exit__(None, None, None)
    with pytest.raises(McpError, match="The session is closed"):
        opened.call("counting", "double", number=1)
    with pytest.raises(McpError, match="The session is closed"):
        opened.runtime()
    assert _starts(counting) == 1


def test_calls_work_inside_a_running_event_loop_and_need_no_session(counting):
    async def both():
        return call("counting", "double", number=1), await call_async("counting", "double", number=2)

    async def main():
        with session():
            return await both()

    assert asyncio.run(main()) == (2, 4)
    assert _starts(counting) == 1
    assert asyncio.run(both()) == (2, 4)


def test_asynchronous_calls_without_a_session_have_a_server_each(counting):
    async def main():
        calls = [call_async("counting", "double", number=number) for number in range(3)]
        return await asyncio.gather(*calls)

    assert asyncio.run(main()) == [0, 2, 4]
    assert _starts(counting) == 3


def test_many_asynchronous_calls_run_at_once_over_one_connection(counting):
    async def main():
        async with session() as tools:
            calls = [tools.call_async("counting", "double", number=number) for number in range(200)]
            return await asyncio.gather(*calls)

    assert asyncio.run(main()) == [2 * number for number in range(200)]
    assert _starts(counting) == 1


def test_cancelling_the_task_cancels_the_call(configured, tmp_path):
    log = tmp_path / "log"
    configured("odd", script_server(FAULTY, "Hangs", env={"LOG": str(log)}))

    async def noted(line):
        await asyncio.to_thread(until, lambda: line in log.read_text(encoding="utf-8"))

    async def main():
        async with session() as tools:
            task = asyncio.create_task(tools.call_async("odd", "act", value=1))
            await noted("call 1")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await noted("cancelled")

    asyncio.run(asyncio.wait_for(main(), 30))


_PROGRAM = """
import multiprocessing
import threading

from pflow_mcp_plugin.calls import call, session
from pflow_mcp_plugin.contract import PflowError

def doubled(number):
    return call("counting", "double", number=number)

def doubled_by(tools, number):
    return tools.call("counting", "double", number=number)

def beside_a_calling_thread(context):
    stop = threading.Event()
    def always():
        while not stop.is_set():
            doubled(1)
    caller = threading.Thread(target=always)
    caller.start()
    try:
        with context.Pool(1) as pool:
            return pool.apply(doubled, (3,))
    finally:
        stop.set()
        caller.join()

if __name__ == "__main__":
    context = multiprocessing.get_context("METHOD")
    with session() as tools, context.Pool(2) as pool:
        print(tools.call("counting", "double", number=1))
        print(pool.map(doubled, range(4), chunksize=2))
        print(pool.starmap(doubled_by, [(tools, number) for number in range(4)]))
        try:
            pool.apply(doubled, (-1,))
        except PflowError as error:
            print(f"{type(error).__name__} of {error.where.tool}: {error} ({error.action}, {error.ran})")
        print(beside_a_calling_thread(context))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_make_calls_of_their_own(counting, python, tmp_path, method):
    """Those that are forked while a session is open cannot use its connections, and do not hang on them."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.replace("METHOD", method), encoding="utf-8")
    done = python(program, timeout=120)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        *("2", "[0, 2, 4, 6]", "[0, 2, 4, 6]"),
        "CallFailed of double: Error executing tool double (server counting) (error, ran)",
        "6",
    ]
