"""Connections to real stdio servers: calls, failures, and nothing left behind."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from programs import script_launch, until

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.server_process import child_environment
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, DeadlineExceeded
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall
from pflow_mcp_plugin.processes.reaper_process import MARKER, marked_processes
from pflow_mcp_plugin.types import Server

Scripted = Callable[..., Launch]


def act(pool: Pool, launch: Launch, tool: str = "act", **arguments: object) -> object:
    return pool.call(launch, ToolCall(server=launch.server.name, tool=tool, arguments=arguments))


def test_a_server_is_listed_and_called_and_keeps_its_state(pool, demo):
    listing = pool.list_tools(demo)
    assert [tool.name for tool in listing.tools] == ["add", "echo", "word_count", "now", "remember", "recall"]
    assert (listing.info.protocol, listing.info.era) == ("2026-07-28", "modern")
    assert set(listing.timings) == {"start", "handshake", "list"}
    act(pool, demo, "remember", key="k", value={"deep": [1, None, 2.5, "ü"]})
    result = pool.call(demo, ToolCall(server="demo", tool="recall", arguments={"key": "k"}))
    assert result.structured == {"value": {"deep": [1, None, 2.5, "ü"]}}
    assert not result.is_error


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can tell what a server has read")
@pytest.mark.parametrize(
    ("first", "protocol", "era", "count"),
    [
        ("pass", "auto", None, 1),
        ("sys.stdin.readline()", "auto", None, 2),
        ("sys.stdin.readline()", "auto", "handshake", 1),
        ("sys.stdin.readline()", "handshake", None, 1),
        ("sys.stdin.readline()", "2026-07-28", None, 1),
    ],
)
def test_only_a_server_that_may_have_ended_on_the_probe_is_started_once_more(
    pool, tmp_path, first, protocol, era, count
):
    starts = tmp_path / "starts"
    script = f"import sys; open({str(starts)!r}, 'a').write('x'); {first}; sys.exit(3)"
    launch = attrs.evolve(script_launch(script, protocol=protocol), era=era)
    with pytest.raises(ConnectionFailed, match="exited 3 before the handshake"):
        pool.info(launch)
    assert len(starts.read_text()) == count


def test_a_server_runs_in_its_working_folder(pool, scripted, tmp_path):
    launch = scripted("reply({'content': [{'type': 'text', 'text': os.getcwd()}]})", cwd=str(tmp_path))
    assert pool.call(launch, ToolCall(server="odd", tool="act")).content[0]["text"] == str(tmp_path)


def test_only_what_a_program_needs_is_inherited(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:3128")
    monkeypatch.setenv("LC_TIME", "de_DE.UTF-8")
    monkeypatch.setenv("HOME", "() { echo; }")
    environment = child_environment({"TOKEN": "t", "PATH": "/only"}, "mark")
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert "HOME" not in environment
    assert environment["https_proxy"] == "http://127.0.0.1:3128"
    assert environment["LC_TIME"] == "de_DE.UTF-8"
    assert environment["PATH"] == "/only"
    assert environment["TOKEN"] == "t"
    assert environment[MARKER] == "mark"
    assert environment["PYTHONUTF8"] == "1"


@pytest.mark.parametrize(("name", "wrong"), [("none", "does not exist"), ("file", "is not a folder")])
def test_a_wrong_working_folder_is_named(pool, tmp_path, name, wrong):
    (tmp_path / "file").touch()
    server = Server(name="e", command=sys.executable, cwd=str(tmp_path / name))
    with pytest.raises(ConnectionFailed, match=f"^The working folder of server e {wrong}: ") as caught:
        pool.info(Launch(server=server))
    assert str(tmp_path / name) in caught.value.message
    assert caught.value.suggestions == ("Correct cwd of server e",)
    assert (caught.value.where.phase, caught.value.ran) == ("start", "not ran")


def test_a_variable_that_was_not_set_is_named_when_the_start_fails(pool):
    launch = attrs.evolve(script_launch("raise SystemExit(1)"), unset=("TOKEN",))
    with pytest.raises(ConnectionFailed, match="Not set and passed as empty: TOKEN") as caught:
        pool.list_tools(launch)
    assert "if it needs TOKEN: pflow settings set TOKEN -" in caught.value.suggestions


def test_a_server_that_cannot_start_is_told_with_its_whole_command_for_a_shell(pool):
    words, secrets = ("--token=abcdefgh12", "two words", "p4ssw0rd!"), ("abcdefgh12", "p4ssw0rd!")
    launch = script_launch("import sys; sys.exit(3)", *words, secrets=secrets)
    with pytest.raises(ConnectionFailed) as caught:
        pool.list_tools(launch)
    command = f"{sys.executable} -c 'import sys; sys.exit(3)' '--token=****' 'two words' '***'"
    assert caught.value.suggestions == (f"run its command by itself to see why: {command}",)


def test_so_is_one_that_the_system_refuses_to_start(pool, tmp_path):
    program = tmp_path / "no program"
    program.write_bytes(b"\x7fELF, but not really")
    program.chmod(0o755)
    server = Server(name="e", command=str(program), args=("--verbose", "p4ssw0rd!"))
    with pytest.raises(ConnectionFailed, match="could not be started") as caught:
        pool.list_tools(Launch(server=server, secrets=("p4ssw0rd!",)))
    assert f"'{program}' --verbose '***'" in caught.value.suggestions[0]
    assert "p4ssw0rd!" not in str(caught.value.to_dict())


def test_what_is_too_long_for_the_system_is_named(pool):
    server = Server(name="e", command=sys.executable, env={"BIG": "s3cr" * 50_000})
    with pytest.raises(ConnectionFailed) as caught:
        pool.list_tools(Launch(server=server))
    words = "Server e could not be started: env.BIG is 200,004 bytes long; the system takes"
    assert str(caught.value).startswith(words)
    assert "s3cr" not in str(caught.value.to_dict())
    assert caught.value.ran == "not ran"
    assert marked_processes(f"{os.getpid()}-") == []


@pytest.mark.parametrize("command", ["x" * 5_000, "/" + "x" * 5_000], ids=["name", "path"])
def test_a_command_too_long_for_a_file_name_is_not_found(pool, command):
    with pytest.raises(ConnectionFailed, match=r"^Command not found: "):
        pool.list_tools(Launch(server=Server(name="e", command=command)))
    with pytest.raises(ConnectionFailed, match=r"^The working folder of server f does not exist"):
        pool.list_tools(Launch(server=Server(name="f", command="true", cwd=command)))


_KEEPS_ON = """
import pathlib, threading

def keep_on(answer, token, file):
    while not pathlib.Path(file).exists():
        notify('progress', {'progressToken': token, 'progress': 1})
        time.sleep(0.02)
    answer({'content': []})

asked = request['params']
match asked['arguments']['how']:
    case 'at once':
        reply({'content': []})
    case 'keeps on':
        told = (reply, asked['_meta']['progressToken'], asked['arguments']['file'])
        threading.Thread(target=keep_on, args=told, daemon=True).start()
"""


@pytest.fixture
def keeping_on(
    pool: Pool, scripted: Scripted, tmp_path: Path
) -> Iterator[tuple[Launch, Future[CallResult], Path]]:
    """A server replaced after a call that hung; its other call goes on until there is a file."""
    launch, file, begun = scripted(_KEEPS_ON, call_timeout=0.8), tmp_path / "file", threading.Event()
    call = ToolCall(server="odd", tool="act", arguments={"how": "keeps on", "file": str(file)})
    with ThreadPoolExecutor(1) as threads:
        going_on = threads.submit(pool.call, launch, call, lambda *_: begun.set())
        assert begun.wait(20)
        with pytest.raises(DeadlineExceeded):
            act(pool, launch, how="hung")
        act(pool, launch, how="at once")
        yield launch, going_on, file
        file.touch()


def test_a_former_connection_is_not_closed_while_a_call_is_under_way(keeping_on, pool):
    launch, going_on, file = keeping_on
    assert not going_on.done()
    file.touch()
    assert going_on.result(20).content == ()
    until(lambda: len(marked_processes(f"{os.getpid()}-")) == 1)
    act(pool, launch, how="at once")


@pytest.mark.usefixtures("no_leftovers")
def test_the_end_of_a_pool_is_that_of_a_former_connection_with_a_call_under_way(keeping_on, pool):
    _, going_on, _ = keeping_on
    assert len(marked_processes(f"{os.getpid()}-")) == 2
    pool.close()
    error = going_on.exception(20)
    assert isinstance(error, CallFailed)
    assert error.ran == "unknown"
    assert marked_processes(f"{os.getpid()}-") == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [("'text'", "content"), ("[{'type': 'image', 'data': 5, 'mimeType': 'image/png'}]", "ImageContent.data")],
)
def test_a_result_that_is_no_result_is_told(pool, scripted, content, fault):
    with pytest.raises(CallFailed, match=f"returned an invalid result: .*{fault}") as caught:
        act(pool, scripted(f"reply({{'content': {content}}})"))
    assert caught.value.ran == "unknown"


def test_a_forked_child_may_not_use_the_pool(pool, demo):
    pool.info(demo)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            pool.info(demo)
        except CallFailed as error:
            os.write(writing, str(error).encode())
        finally:  # whatever it raises, the child must not go on as a second runner of these tests
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    told = os.read(reading, 1000)
    os.close(reading)
    assert b"forked" in told


SCRIPTED = Path(__file__).with_name("scripted.py")
TAKES_TURNS = """
import os, sys, time
def note(text):
    with open(sys.argv[1], "a") as log:
        log.write(text)
note("<")
time.sleep(0.3)
note(">")
os.execv(sys.executable, [sys.executable, sys.argv[2], ""])
"""


def test_no_more_prepared_servers_start_at_the_same_time_than_are_allowed(tmp_path):
    log = tmp_path / "log"
    launches = [script_launch(TAKES_TURNS, str(log), str(SCRIPTED), name=f"s{n}") for n in range(3)]
    with Pool(print, starts_at_once=1) as pool:
        for launch in launches:
            pool.prepare(launch)
        until(lambda: log.exists() and log.read_text() == "<><><>")
        assert {pool.info(launch).name for launch in launches} == {"scripted"}
    assert log.read_text() == "<><><>"


def test_a_prepared_server_that_cannot_be_started_lets_the_next_one_start(demo):
    missing = Launch(server=Server(name="missing", command="no-such-program-anywhere"))
    exits = script_launch("")
    with Pool(print, starts_at_once=1) as pool:
        for launch in (missing, exits, demo):
            pool.prepare(launch)
        until(lambda: pool._supervisors[demo.key]._connection is not None)
        for launch in (missing, exits):
            with pytest.raises(ConnectionFailed):
                pool.info(launch)


def test_a_prepared_server_that_waits_for_its_turn_is_started_when_it_is_used(demo):
    hangs = script_launch("import time; time.sleep(60)")
    with Pool(print, starts_at_once=1) as pool:
        pool.prepare(hangs)
        pool.prepare(demo)
        assert pool.info(demo).name == "pflow-demo"
