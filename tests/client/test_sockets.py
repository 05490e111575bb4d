"""Servers on Unix sockets: there already, or started first; and named pipes, as far as they go here."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.transport.line_transports import connect
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, McpError, Where
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.processes.reaper_process import marked_processes
from pflow_mcp_plugin.types import Server

SCRIPTED = Path(__file__).with_name("scripted.py")
LISTENS = """
import socket
time.sleep({pause})
listener = socket.socket(socket.AF_UNIX)
listener.bind({path!r})
listener.listen()
print("listening", flush=True)
connection, _ = listener.accept()
while {many} and os.fork():
    connection.close()
    connection, _ = listener.accept()
os.dup2(connection.fileno(), 0)
os.dup2(connection.fileno(), 1)
"""
"""Makes a connection the scripted server's stdin and stdout; each of `many` has a process of its own."""
SERVES = """
arguments = request["params"]["arguments"]
if arguments.get("vanish"):
    os._exit(7)
reply({"content": [], "structuredContent": {"process": os.getpid(), **arguments}})
"""


@pytest.fixture
def path(socket_path: Path) -> Path:
    """The place for the socket of a test."""
    return socket_path


@pytest.fixture
def running(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that was there before us."""
    command = [sys.executable, str(SCRIPTED), SERVES]
    env = {**os.environ, "AT_START": LISTENS.format(path=str(path), pause=0, many=True)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening")
        yield process
        process.kill()


@pytest.fixture
def started(scripted: Callable[..., Launch], path: Path) -> Callable[..., Launch]:
    """Return a launch of a server that has to be started."""

    def make(at: str = str(path), *, pause: float = 0, **options: object) -> Launch:
        start = LISTENS.format(path=at, pause=pause, many=False)
        return scripted(SERVES, start=start, transport="uds", path=at, **options)

    return make


def reached(path: Path, **options: object) -> Launch:
    return Launch(server=Server(name="odd", transport="uds", path=str(path), **options))


def act(pool: Pool, launch: Launch, **arguments: object) -> Any:
    return pool.call(launch, ToolCall(server="odd", tool="act", arguments=arguments)).structured


def test_a_server_that_is_there_is_listed_and_called_and_outlives_the_pool(running, path):
    text = "é" * 500_000
    for _ in range(2):
        with Pool(print) as pool:
            assert [tool.name for tool in pool.list_tools(reached(path)).tools] == ["act"]
            assert act(pool, reached(path), text=text)["text"] == text
    assert running.poll() is None


def test_a_missing_socket_is_named(path, pool):
    with pytest.raises(ConnectionFailed, match=f"^Server odd: socket not found: {path}") as caught:
        act(pool, reached(path))
    assert caught.value.where.phase == "connect"
    assert caught.value.ran == "not ran"
    assert "command" in caught.value.suggestions[0]


def test_a_socket_that_nobody_listens_on_is_told_apart(path, pool):
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    with pytest.raises(ConnectionFailed, match=f"^Server odd: nothing listens on the socket at {path}"):
        act(pool, reached(path))
    assert path.exists()


def test_a_path_that_is_too_long_for_a_socket_is_said_to_be_so(tmp_path, pool):
    with pytest.raises(ConnectionFailed, match="path too long"):
        act(pool, reached(tmp_path / ("long" * 40)))


def test_a_server_is_started_waited_for_and_ended_with_the_pool(started, path):
    with Pool(print) as pool:
        launch = started(pause=0.2)
        pool.prepare(launch)
        process = act(pool, launch)["process"]
        assert act(pool, launch)["process"] == process
        assert process in marked_processes(f"{os.getpid()}-")
    assert marked_processes(f"{os.getpid()}-") == []
    assert not path.exists()


def test_a_relative_path_is_meant_from_the_working_folder(started, path, pool):
    assert act(pool, started(path.name, cwd=str(path.parent)))["process"] > 0


def test_a_started_server_that_exits_before_it_listens_shows_its_exit_code(path, pool):
    script = "import sys; print('no room', file=sys.stderr); sys.exit(3)"
    launch = reached(path, command=sys.executable, args=("-c", script))
    with pytest.raises(ConnectionFailed, match=r"exited 3 before the handshake\n.*\n  no room") as caught:
        act(pool, launch)
    assert caught.value.details["exit_code"] == 3


def test_a_started_server_that_never_listens_is_given_up_at_the_start_deadline(path):
    script = "import time; time.sleep(60)"
    launch = reached(path, command=sys.executable, args=("-c", script), startup_timeout=0.5)
    begun = time.monotonic()
    with (
        Pool(print) as pool,
        pytest.raises(ConnectionFailed, match=r"did not finish its start within 0\.5 s"),
    ):
        act(pool, launch)
    assert time.monotonic() - begun < 10
    assert marked_processes(f"{os.getpid()}-") == []


def test_a_started_server_that_ends_in_mid_call_is_told_with_its_exit_code(started, pool):
    with pytest.raises(CallFailed, match="terminated unexpectedly: odd exited 7") as caught:
        act(pool, started(), vanish=True)
    assert caught.value.ran == "unknown"
    assert "listening" in str(caught.value)  # what it printed is kept as its last words


def test_a_server_that_is_not_ours_is_said_to_be_reached_anew_not_started_again(
    running, path, pool, warnings_seen
):
    with pytest.raises(CallFailed, match=r"^Server odd closed the connection") as caught:
        act(pool, reached(path), vanish=True)
    assert (caught.value.ran, caught.value.retryable) == ("unknown", False)
    act(pool, reached(path))
    assert warnings_seen == ["server odd lost its connection and is being reconnected; its state is lost"]


@pytest.mark.skipif(sys.platform == "win32", reason="there they work")
def test_a_named_pipe_is_refused_where_there_are_none(pool):
    launch = Launch(server=Server(name="p", transport="pipe", path=r"\\.\pipe\mcp", command="never-started"))
    with pytest.raises(McpError, match="named pipes exist on Windows only") as caught:
        pool.list_tools(launch)
    assert caught.value.where == Where(server="p", phase="config")
    assert caught.value.kind == "config"


def test_a_named_pipe_is_opened_as_the_loop_of_windows_wants_it(path, monkeypatch):
    came: list[bytes] = []

    class Reader(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            came.append(data)

    async def talk() -> None:
        loop = asyncio.get_running_loop()

        async def create_pipe_connection(factory: object, address: str) -> object:
            assert address == r"\\.\pipe\mcp"
            return await loop.create_unix_connection(factory, str(path))

        monkeypatch.setattr(loop, "create_pipe_connection", create_pipe_connection, raising=False)
        ended = loop.create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()
            await writer.wait_closed()
            ended.set_result(None)

        async with await asyncio.start_unix_server(serve, str(path)):
            server = Server(name="p", transport="pipe", path=r"\\.\pipe\mcp")
            transport = await connect(server, Path("unused"), Reader)
            transport.write(b"there and back\n")
            await ended
            transport.close()

    asyncio.run(talk())
    assert b"".join(came) == b"there and back\n"
