"""How a pool ends: at any moment, soon, and without a trace, whatever its servers do."""

import asyncio
import errno
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from anyio import BrokenResourceError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest
from programs import script_launch, until

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.background_loop import background_loop
from pflow_mcp_plugin.client.server_process import spawn
from pflow_mcp_plugin.client.transport.line_transports import line_transport
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, McpError
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall
from pflow_mcp_plugin.processes.process_group import ProcessGroup, shared_reaper
from pflow_mcp_plugin.processes.reaper_process import marked_processes
from pflow_mcp_plugin.types import Server

pytestmark = pytest.mark.programs


EXITS = "raise SystemExit(3)"
SILENT = "time.sleep(60)"
"""For the start of a scripted server: it never answers, and never looks at its stdin."""


@pytest.fixture(scope="module")
def warm(demo: Launch) -> None:
    """A pool was open before: what it leaves open for good (a log, a lock) is there."""
    with Pool(print) as pool:
        pool.info(demo)


@pytest.fixture(autouse=True)
def no_trace(warm: None) -> Iterator[None]:
    """Whatever the test does, no process, thread or descriptor is left of it."""
    before, threads = descriptors(), set(threading.enumerate())
    yield
    assert marked_processes(f"{os.getpid()}-") == []
    assert descriptors() == before
    assert set(threading.enumerate()) == threads


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def act(pool: Pool, launch: Launch) -> CallResult:
    return pool.call(launch, ToolCall(server=launch.server.name, tool="act"))


BAD = {
    "exits": "raise SystemExit(3)",
    "reads one line": "sys.stdin.readline()",
    "talks and exits": "print('hello')",
    "closes its stdout": "os.close(1); time.sleep(60)",
    "says nothing": "time.sleep(60)",
}
USES: tuple[Callable[[Pool, Launch], object], ...] = (
    Pool.prepare,
    Pool.info,
    Pool.list_tools,
    lambda pool, launch: pool.call(launch, ToolCall(server=launch.server.name, tool="now")),
)


def servers(demo: Launch) -> list[Launch]:
    launches = [demo]
    for name, script in BAD.items():
        for protocol in ("auto", "handshake"):
            arguments = ("-c", f"import os, sys, time; {script}")
            options = {"args": arguments, "protocol": protocol, "startup_timeout": 0.4}
            server = Server(name=f"{name} {protocol}", command=sys.executable, **options)
            launches.append(Launch(server=server))
    return launches


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_left_of_a_pool_closed_at_any_moment(demo, seed):
    chance = random.Random(seed)
    others = children()

    def use(launch: Launch) -> bool:
        try:
            chance.choice(USES)(pool, launch)
        except McpError:
            return False
        return True

    for _ in range(2):
        pool = Pool(lambda _: None)
        launches = chance.sample(servers(demo), chance.randint(1, 5))
        with ThreadPoolExecutor(8) as threads:
            uses: list[Future[bool]] = [threads.submit(use, chance.choice(launches)) for _ in range(30)]
            list(islice(as_completed(uses, timeout=60), chance.randint(0, 30)))
            pool.close()
        assert all(isinstance(used.result(), bool) for used in uses)
        assert children() <= others
    gc.collect()


def test_closing_one_pool_leaves_the_servers_of_others_alone(scripted, monkeypatch):
    monkeypatch.setattr("pflow_mcp_plugin.client.pool._numbers", iter([1, 10]))
    with Pool(print) as first, Pool(print) as tenth:
        first.info(scripted())
        tenth.info(scripted())
        first.close()
        assert len(marked_processes(f"{os.getpid()}-")) == 1


@pytest.mark.parametrize(
    ("server", "ran", "words"),
    [
        ({"script": SILENT}, "unknown", ""),
        ({"start": SILENT, "startup_timeout": 60}, "not ran", "closed"),
    ],
    ids=["calls under way", "a start that is waited for"],
)
def test_closing_fails_the_calls_that_there_are(scripted, server, ran, words):
    pool, launch = Pool(print), scripted(**server)
    if ran == "unknown":
        pool.info(launch)
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(act, pool, launch) for _ in range(4)]
        until(lambda: len(pool._calls) == 4)
        pool.close()
        for call in calls:
            error = call.exception(timeout=20)
            assert isinstance(error, CallFailed)
            assert error.ran == ran
            assert words in error.message


def test_a_second_ctrl_c_ends_servers_that_take_their_time(scripted):
    start = "import atexit; signal.signal(signal.SIGTERM, signal.SIG_IGN); atexit.register(time.sleep, 60)"
    pool = Pool(print)
    pool.info(scripted(start=start))
    close_and_interrupt(pool)


def close_and_interrupt(pool: Pool) -> None:
    def interrupt() -> None:
        until(lambda: pool._closed)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "uds"])
def test_a_connection_whose_end_is_broken_off_still_ends_its_server(transport, socket_path):
    """The other side hung up first: what its process has to say is waited for, and that may be cancelled."""
    path = str(socket_path)
    serve = "import os, socket, sys, time; os.close(1); "
    if transport == "uds":
        serve += f"s = socket.socket(socket.AF_UNIX); s.bind({path!r}); s.listen(); s.accept()[0].close();"
    command = {"command": sys.executable, "args": ("-c", f"{serve} time.sleep(60)")}
    server = Server(name="s", transport=transport, path=path if transport == "uds" else "", **command)
    process = spawn(server, f"{os.getpid()}-test", shared_reaper.acquire())

    async def broken_off() -> None:
        lines = line_transport(server, process, print)
        incoming, _ = await lines.__aenter__()
        assert [message async for message in incoming] == []
        lines.hung = True  # it gets no time to end by itself
        leaving = asyncio.create_task(lines.__aexit__(None, None, None))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert process.popen.returncode == -signal.SIGTERM

    asyncio.run(broken_off())
    shared_reaper.release()


def test_what_a_server_wrote_before_it_exited_is_read_although_nothing_can_be_sent():
    server = Server(name="s", command="sh", args=("-c", "echo no token; exit 1"))
    process = spawn(server, f"{os.getpid()}-test", shared_reaper.acquire())
    until(lambda: process.returncode is not None)

    async def sent_too_late() -> None:
        request = JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")
        async with (lines := line_transport(server, process, print)) as (_, sink):
            with pytest.raises(BrokenResourceError):
                await sink.send(SessionMessage(request))
        assert lines.seen.first_stray.endswith("such as: no token")

    asyncio.run(sent_too_late())
    shared_reaper.release()


def test_a_child_forked_while_a_lock_was_held_can_make_a_pool_of_its_own(demo):
    with background_loop._lock, shared_reaper._lock:
        child = os.fork()
        if child == 0:
            answered = False
            try:
                with Pool(print) as pool:
                    answered = bool(pool.info(demo).name)
            finally:  # whatever it raises, the child must not go on as a second runner of these tests
                os._exit(0 if answered else 1)
    until(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT))
    assert os.waitpid(child, 0) == (child, 0)


@pytest.mark.parametrize("use", [Pool.prepare, Pool.info])
def test_a_closed_pool_starts_nothing(demo, use):
    pool = Pool(print)
    pool.close()
    with pytest.raises(CallFailed, match="closed"):
        use(pool, demo)


def test_many_threads_that_use_a_failing_server_at_once_get_one_failure(demo):
    with Pool(print) as pool, ThreadPoolExecutor(16) as threads:
        calls = [threads.submit(act, pool, script_launch(EXITS)) for _ in range(64)]
        errors = [call.exception(timeout=60) for call in calls]
    assert {type(error) for error in errors} == {ConnectionFailed}


def test_a_process_that_another_thread_starts_beside_an_opening_is_not_lost(monkeypatch):
    started: list[ProcessGroup] = []
    spawn = Pool._spawn

    def meddled_with(pool: Pool, launch: Launch) -> ProcessGroup:
        if not started and threading.current_thread() is not beside:
            beside.start()
            beside.join(0.2)
        started.append(spawn(pool, launch))
        return started[-1]

    monkeypatch.setattr(Pool, "_spawn", meddled_with)
    launch = script_launch(EXITS)
    with Pool(print) as pool:
        supervisor = pool._supervisor(launch)
        beside = threading.Thread(target=supervisor.start)
        with pytest.raises(ConnectionFailed):
            pool._submit(supervisor.connection(), launch).result(60)
        beside.join(60)
    assert [process.popen.returncode is None for process in started] == [False] * len(started)


def test_a_failure_in_the_background_shows_at_the_first_use_and_the_next_starts_anew(tmp_path):
    starts = tmp_path / "starts"
    launch = script_launch(f"open({str(starts)!r}, 'a').write('x'); {EXITS}", protocol="handshake")
    with Pool(print) as pool:
        pool.prepare(launch)
        until(lambda: not marked_processes(f"{os.getpid()}-") and pool._supervisors[launch.key]._failure)
        for count in (1, 2):
            with pytest.raises(ConnectionFailed, match="exited 3"):
                pool.info(launch)
            assert len(starts.read_text()) == count


def test_an_opening_that_fails_before_prepare_returns_is_not_kept_for_good(monkeypatch):
    """The loop's thread may be done with an opening before the thread that asked for it goes on."""
    submit = asyncio.run_coroutine_threadsafe

    def slow(work: Any, loop: Any) -> Any:
        future = submit(work, loop)
        submit(settled(), loop).result(20)
        return future

    async def settled() -> None:
        while opening := [task for task in asyncio.all_tasks() if task.get_name().startswith("opening")]:
            await asyncio.wait(opening)

    launch = script_launch(EXITS, protocol="handshake")
    with Pool(print) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "run_coroutine_threadsafe", slow)
            pool.prepare(launch)
        failures = []
        for _ in range(2):
            with pytest.raises(ConnectionFailed) as caught:
                pool.info(launch)
            failures.append(caught.value)
    assert failures[0] is not failures[1]


def test_a_listener_that_raises_breaks_no_connection(scripted, caplog):
    def refuse(text: str) -> None:
        raise UserWarning(text)

    stray_before_the_answer = "sys.stdout.write('stray' + chr(10)); reply({'content': []})"
    with Pool(refuse) as pool:
        act(pool, scripted(stray_before_the_answer))
    assert [record.exc_info for record in caplog.records] == [None]
    assert "lines on stdout that are not messages" in caplog.text


def test_the_loop_imports_nothing_once_it_serves_a_started_server(demo):
    """It would hang if another thread held the lock of such an import for good."""
    command = [sys.executable, "-c", IMPORTS_OF_THE_LOOP, *demo.server.args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


IMPORTS_OF_THE_LOOP = """
import sys, threading
from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.background_loop import background_loop
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        shared = background_loop._resource
        if threading.current_thread().name == "pflow-mcp" and shared is not None and shared.serving:
            imported.append(name)

imported = []
sys.meta_path.insert(0, Finder)
launch = Launch(server=Server(name="demo", command=sys.executable, args=tuple(sys.argv[1:])))
with Pool(print) as pool:
    pool.list_tools(launch)
    pool.call(launch, ToolCall(server="demo", tool="echo", arguments={"value": 1}))
print(imported)
"""


@pytest.mark.timeout(20)
def test_a_loop_that_cannot_be_made_is_the_error_of_its_first_user(demo, monkeypatch, caplog):
    def no_loop() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(asyncio, "new_event_loop", no_loop)
    with Pool(print) as pool, pytest.raises(OSError, match="Too many open files"):
        pool.info(demo)
    assert caplog.records == []


def test_a_second_ctrl_c_ends_servers_although_the_loop_hangs(demo):
    pool = Pool(print)
    pool.info(demo)
    hangs, end = threading.Event(), threading.Event()
    assert pool._loop is not None
    loop = pool._loop.loop
    loop.call_soon_threadsafe(lambda: (hangs.set(), end.wait(60)))
    hangs.wait(20)
    begun = time.monotonic()
    try:
        close_and_interrupt(pool)
        assert time.monotonic() - begun < 6
        assert marked_processes(f"{os.getpid()}-") == []
    finally:
        end.set()
    until(lambda: not any(each.name == "pflow-mcp" for each in threading.enumerate()))
