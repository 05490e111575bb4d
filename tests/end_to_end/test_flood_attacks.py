"""Attacks by servers that never stop sending: a call ends at its deadline all the same, and so does the run.

`tests/data/threat_rows.py` says which tests play which row.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from anyio import create_task_group
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest
from programs import script_server, until

from pflow_mcp_plugin.client import Pool, session
from pflow_mcp_plugin.client.transport.messages import MessageQueue, MessageSink
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

pytestmark = pytest.mark.usefixtures("no_leftovers")
FLOODING = Path(__file__).parents[1] / "data/flooding_server.py"
CALL = 0.3
CLOSE = 9.0
"""Seconds that a call has, and that a run may take to end after it: 0.6 for a hint, 2 until SIGKILL, the rest
for a busy machine. It is less than the client's own last resort, which nothing here is to need."""
FLOODS = [
    *(("stdio", kind) for kind in ("progress", "letters", "changes", "strays", "pings", "questions")),
    ("uds", "progress"),  # read by what reads stdio
    *(("http", kind) for kind in ("progress", "blanks", "answers", "errors")),
    ("sse", "progress"),  # read as the events over HTTP are
]


@pytest.fixture
def flooding(tmp_path):
    """Return a function that makes a server which floods; those over HTTP are ended afterwards."""
    started = []

    def make(transport, kind, place="tools/call", **limits):
        arguments = [str(FLOODING), transport, kind, place]
        options = {"name": "odd", "transport": transport, "protocol": "handshake", **limits}
        if transport in ("stdio", "uds"):
            path = str(tmp_path / "socket") if transport == "uds" else ""
            return Server(command=sys.executable, args=(*arguments, path), path=path, **options)
        command = [sys.executable, *arguments]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.append(program)
        port = int(program.stdout.readline())
        return Server(url=f"http://127.0.0.1:{port}/mcp", **options)

    yield make
    for program in started:
        program.kill()
        program.communicate()


def act(pool, server):
    return pool.call(Launch(server=server), ToolCall(server=server.name, tool="act", arguments={}))


@pytest.mark.parametrize(("transport", "kind"), FLOODS)
def test_row_56_a_flood_during_a_call_keeps_neither_it_nor_the_run_from_ending(flooding, transport, kind):
    server = flooding(transport, kind, call_timeout=CALL, call_timeout_max=CALL, startup_timeout=30)
    with Pool(lambda _: None) as pool:
        pool.info(Launch(server=server))
        began = time.monotonic()
        with pytest.raises(McpError):
            act(pool, server)
        assert time.monotonic() - began < CALL + CLOSE
        began = time.monotonic()
    assert time.monotonic() - began < CLOSE


def test_row_56_a_queue_that_is_never_empty_can_be_left():
    async def main():
        async with asyncio.timeout(10), create_task_group() as group:
            queue, loop = MessageQueue(), asyncio.get_running_loop()

            async def receive():
                async for _ in queue:
                    continue

            def put():
                if not queue.ended:
                    queue.put(None)
                    loop.call_soon(put)

            group.start_soon(receive)
            put()
            await asyncio.sleep(0.01)
            group.cancel_scope.cancel()
        queue.end()

    asyncio.run(main())


def test_row_56_of_many_requests_only_a_few_are_answered_at_once():
    begun = []

    async def never(*arguments):
        begun.append(arguments)
        await asyncio.Event().wait()

    async def main():
        queue = MessageQueue()
        for number in range(1000):
            queue.put(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method="ping")))
        async with asyncio.timeout(20), create_task_group() as group:
            group.start_soon(session.Dispatcher(queue, MessageSink(never)).run, never, never)
            for _ in range(3000):
                await asyncio.sleep(0)
            group.cancel_scope.cancel()

    asyncio.run(main())
    assert 0 < len(begun) < 100


@pytest.mark.parametrize(
    ("place", "kind"), [("initialize", "letters"), ("notifications/initialized", "progress")]
)
def test_row_56_a_flood_beside_the_answers_does_not_keep_a_connection_from_closing(flooding, place, kind):
    server = flooding("stdio", kind, place, call_timeout=CALL, call_timeout_max=CALL, startup_timeout=1)
    pool = Pool(lambda _: None)
    with contextlib.suppress(McpError):  # it may be answered in time, between the lines of the flood
        act(pool, server)
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < CLOSE


def test_row_56_the_neighbours_of_a_server_that_floods_work_on(flooding):
    flood = flooding("stdio", "progress", call_timeout=60, call_timeout_max=60, startup_timeout=30)
    honest = Server(name="honest", command=sys.executable, args=(str(FLOODING), "stdio", "progress", "none"))
    with ThreadPoolExecutor() as threads:
        with Pool(lambda _: None) as pool:
            act(pool, honest)
            pool.info(Launch(server=flood))
            flooded = threads.submit(act, pool, flood)
            for _ in range(3):
                assert act(pool, honest).content[0]["text"] == "done"
            assert not flooded.done()
        assert isinstance(flooded.exception(), McpError)


def test_row_56_a_run_ends_soon_after_the_hard_limit_of_its_call(configured, pflow, workflow):
    limits = {"call_timeout": 600, "call_timeout_max": 1}
    configured("odd", script_server(FLOODING, "stdio", "progress", **limits))
    began = time.monotonic()
    ran = pflow("run", workflow(("a", "mcp-odd-act", {})))
    assert time.monotonic() - began < 20
    assert ran.exit_code == 4
    assert "did not answer within 1 s (call_timeout_max)" in ran.stderr


def test_row_56_ctrl_c_ends_a_run_during_a_flood(configured, started, workflow, signalled):
    limits = {"call_timeout": 600, "call_timeout_max": 600}
    configured("odd", script_server(FLOODING, "stdio", "progress", **limits))
    program = started("run", workflow(("a", "mcp-odd-act", {})))
    until(lambda: flooders(program.pid), 60)
    began = time.monotonic()
    signalled(program, signal.SIGINT)
    assert time.monotonic() - began < 20
    assert program.returncode == 130


def flooders(parent):
    """Return the children of a process that have written much: the flood is on its way."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            written = dict(line.split(": ") for line in (folder / "io").read_text().splitlines())
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if int(stat[1]) == parent and int(written["wchar"]) > 1 << 20:
            found.append(folder.name)
    return found
