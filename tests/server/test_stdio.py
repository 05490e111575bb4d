"""The real program, served over real standard streams."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import prepared_starts
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from prepared_starts import PROGRAM
from programs import importing, until

from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.processes.reaper_process import marked_processes
from pflow_mcp_plugin.server import stdio
from pflow_mcp_plugin.server.stdio import EraStreams, LineReader, LineWriter

pytestmark = pytest.mark.programs

SECONDS = 60
SERVE = [*PROGRAM, "mcp", "serve"]
FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"


class Speaker:
    """A client that speaks the protocol by hand."""

    def __init__(self, program):
        self.program = program
        self.seen = []
        self._begun = b""

    def say(self, **message):
        """Send a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, line):
        """Send bytes."""
        self.program.stdin.write(line)
        self.program.stdin.flush()

    def hello(self):
        """Shake hands."""
        self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo=dict.fromkeys(("name", "version"), "x"),
        )
        self.say(method="notifications/initialized")

    def ask(self, method, number=1, **params):
        """Send a request and return its answer."""
        self.say(id=number, method=method, params=params)
        return self.answer(number)

    def end(self):
        """Close the input; return the exit code and what was said on stderr."""
        self.program.stdin.close()
        return self.program.wait(SECONDS), self.program.stderr.read().decode()

    def ended_by(self, end):
        """Close the input, or send a signal; return the exit code."""
        if end == "close":
            self.program.stdin.close()
        else:
            self.program.send_signal(end)
        return self.program.wait(SECONDS)

    def answer(self, number):
        """Wait for the answer to a request; every line on the way must be a message."""
        while True:
            message = self.heard()
            if message.get("id") == number and "method" not in message:
                return message

    def heard(self):
        """Wait for the next message."""
        deadline = time.monotonic() + SECONDS
        while b"\n" not in self._begun:
            ready, _, _ = select.select([self.program.stdout], [], [], deadline - time.monotonic())
            assert ready, "no answer"
            chunk = os.read(self.program.stdout.fileno(), 1 << 16)
            assert chunk, "the program has ended"
            self._begun += chunk
        line, self._begun = self._begun.split(b"\n", 1)
        message = json.loads(line)
        self.seen.append(message)
        return message


@pytest.fixture
def speaker(pflow_home, tmp_path, hosts):
    """Start the program and speak to it, after a handshake unless it is not wanted."""

    @contextmanager
    def start(*, greets=True, **more):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        env = {**os.environ, **more}
        with prepared_starts.start(
            ["mcp", "serve"], env=env, cwd=tmp_path, encoding=None, **pipes
        ) as program:
            hosts.append(program.pid)
            try:
                client = Speaker(program)
                if greets:
                    client.hello()
                yield client
            finally:
                program.kill()

    return start


@pytest.fixture
def log(pflow_host, tmp_path):
    """What a configured server, `odd`, was sent: its tool reports progress, and may hang."""
    log = tmp_path / "log"
    entry = {"command": sys.executable, "args": [str(FAULTY), "AnswersThreeTimes"], "env": {"LOG": str(log)}}
    pflow_host.add("odd", entry)
    pflow_host.sync()
    return log


def test_what_nodes_print_does_not_reach_the_protocol(speaker, pflow_home, tmp_path):
    (tmp_path / "noisy.py").write_text(
        "import os, sys, subprocess\n"
        "from pocketflow import Node\n"
        "class Noisy(Node):\n"
        "    def exec(self, prep_res):\n"
        "        print('STRAY one')\n"
        "        sys.__stdout__.write('STRAY two\\n'); sys.__stdout__.flush()\n"
        "        os.write(1, b'STRAY three\\n')\n"
        "        subprocess.run(['echo', 'STRAY four'])\n"
        "        child = subprocess.run(['cat'], stdout=subprocess.PIPE, timeout=20)\n"
        "        return sys.stdin.read() + child.stdout.decode()\n"
        "    def post(self, shared, prep_res, exec_res):\n"
        "        shared['read'] = exec_res\n"
        "        return 'default'\n",
        encoding="utf-8",
    )
    entry = {
        "class_name": "Noisy",
        "module": "noisy",
        "interface": {"outputs": [{"key": "read", "type": "str"}]},
    }
    registry = {"schema_version": 1, "nodes": {"noisy": entry}}
    folder = pflow_home / "data"
    folder.mkdir(exist_ok=True)
    (folder / "registry.json").write_text(json.dumps(registry), encoding="utf-8")
    with speaker(**importing(tmp_path)) as client:
        run = client.ask("tools/call", 2, name="registry_run", arguments={"node_type": "noisy"})
        assert run["result"]["structuredContent"]["data"]["outputs"] == {"read": ""}
        code, errors = client.end()
    assert code == 0
    assert [word in errors for word in ("one", "two", "three", "four")] == [True] * 4
    assert "STRAY" not in json.dumps(client.seen)


@pytest.mark.parametrize("end", ["close", signal.SIGTERM])
def test_when_it_ends_its_runs_and_their_servers_end_too(speaker, log, pflow_host, end, no_leftovers):
    with speaker() as client:
        calling = {"node_type": "mcp-odd-act", "parameters": {"value": "hang"}}
        client.say(id=7, method="tools/call", params={"name": "registry_run", "arguments": calling})
        until(lambda: "call hang" in log.read_text())
        began = time.monotonic()
        code = client.ended_by(end)
        assert time.monotonic() - began < 15
        assert "Traceback" not in client.program.stderr.read().decode()
    assert code == (0 if end == "close" else 128 + end)
    (trace,) = pflow_host.host.traces.paths()
    assert json.loads(trace.read_text())["error"]["type"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_signals_end_it_likewise(speaker, number):
    with speaker() as client:
        assert client.ended_by(number) == 128 + number


PING = b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": {"a": %s}}'


def test_a_line_that_is_no_message_is_answered_with_the_reason_and_the_next_one_too(speaker):
    cases = [
        (b"not json", None, -32700, "cannot be read as JSON"),
        (PING % b'"\xff"', None, -32700, "invalid unicode"),
        (PING % b'"\\ud800"', 9, -32700, "hex escape"),
        (PING % b"NaN", 9, -32700, "expected value"),
        (PING % b"[-1e400]", 9, -32700, "Out of range"),
        (PING % (b"9" * 5_000), 9, -32700, "number out of range"),
        (PING % (b"[" * 400 + b"]" * 400), 9, -32700, "recursion limit"),
        (b'{"jsonrpc": "2.0", "id": 9, "method": 5}', 9, -32600, "request"),
        (b'[{"jsonrpc": "2.0", "id": 9, "method": "ping"}]', None, -32600, "batches"),
        (b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": [1]}', 9, -32600, "params"),
        (b'{"jsonrpc": "1.0", "id": 9, "method": "ping"}', 9, -32600, 'jsonrpc must be "2.0"'),
        (b'{"id": 9, "method": "ping"}', 9, -32600, 'jsonrpc must be "2.0"'),
        (b"[" * 200_000, None, -32700, "recursion limit"),
        *((b'{"jsonrpc": "2.0", "id": %s, "method": "ping"}' % given, None, None, "") for given in BAD_IDS),
    ]
    with speaker() as client:
        for line, number, code, reason in cases:
            client.write(line + b"\n")
            refused = client.heard()
            assert refused["error"]["code"] in ((code,) if code else (-32600, -32700)), line
            assert reason in refused["error"]["message"], line
            assert refused.get("id") == number, line
            assert client.ask("ping", 3)["result"] == {}


@pytest.mark.parametrize("second", [7, "7"])
def test_a_request_whose_id_the_sdk_takes_for_that_of_an_open_one_is_refused(speaker, second):
    """Cancelling one of them would cancel the other."""
    waits = {"nodes": [{"id": "a", "type": "shell", "params": {"command": "sleep 300"}}]}
    with speaker() as client:
        call = {"name": "workflow_execute", "arguments": {"workflow": waits}, "_meta": {"progressToken": 1}}
        client.say(id=7, method="tools/call", params=call)
        assert client.heard()["method"] == "notifications/progress"
        refused = client.ask("ping", second)
        assert refused["error"]["code"] == -32600
        assert "still open" in refused["error"]["message"]
        client.say(method="notifications/cancelled", params={"requestId": 7})
        assert client.ask("ping", second)["result"] == {}


BAD_IDS = (b"null", b"true", b"1e400", b"1.5", b'{"a": 1}')


def test_input_from_a_file_is_served_and_warnings_of_the_host_go_to_standard_error(pflow_home, tmp_path):
    """A regular file cannot be waited for; it is read in a thread."""
    folder = pflow_home / "config"
    folder.mkdir()
    (folder / "mcp-servers.toml").write_text("[serve]\nshow_secret = true\n", encoding="utf-8")
    messages = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (1, 2)]
    text = tmp_path / "requests"
    text.write_text("\n".join(map(json.dumps, messages)), encoding="utf-8")
    with text.open("rb") as requests:
        done = subprocess.run(SERVE, stdin=requests, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert b"Unknown field show_secret" in done.stderr
    assert b"Did you mean show_secrets?" in done.stderr


def test_the_config_decides_whether_secrets_are_shown_also_while_it_runs(speaker, pflow_home):
    with open_host() as host:
        host.settings.set("SERVICE_TOKEN", "planted-token")
    config = pflow_home / "config" / "mcp-servers.toml"
    with speaker() as client:
        for number, (text, value) in enumerate((("false", "****"), ("true", "planted-token"), ("3", "****"))):
            config.write_text(f"[serve]\nshow_secrets = {text}\n", encoding="utf-8")
            asked = {"name": "settings_get", "arguments": {"key": "SERVICE_TOKEN"}}
            answer = client.ask("tools/call", number + 2, **asked)
            assert answer["result"]["structuredContent"]["data"]["value"] == value


def test_a_client_that_leaves_without_reading_is_no_crash(speaker):
    with speaker() as client:
        client.program.stdout.close()
        client.say(id=2, method="tools/list")
        assert "Traceback" not in client.end()[1]


def test_a_message_that_is_too_long_ends_it_with_the_reason(speaker):
    with speaker(greets=False) as client:
        with suppress(BrokenPipeError):
            while True:
                os.write(client.program.stdin.fileno(), b"x" * (1 << 20))
        assert "more than 67,108,864 bytes" in client.program.stderr.read().decode()


def test_on_a_terminal_it_says_who_should_start_it(pflow_home):
    ours, theirs = os.openpty()
    with subprocess.Popen(SERVE, stdin=theirs, stdout=-1, stderr=-1) as program:
        os.close(theirs)
        try:
            assert b"a client starts this command" in program.stderr.readline()
            os.write(ours, b"\x04")  # the end of the input
            assert program.wait(SECONDS) == 0
            assert program.stdout.read() == b""
        finally:
            program.kill()
            os.close(ours)


@pytest.mark.parametrize(("closed", "name"), [("<&-", "input"), (">&-", "output")])
def test_a_closed_standard_stream_is_refused(pflow_home, closed, name):
    line = f'"$1" -P -m pflow_mcp_plugin mcp serve {closed}'
    command = ["sh", "-c", line, "sh", sys.executable]
    ended = subprocess.run(command, stdin=-3, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"Standard {name} is closed" in ended.stderr


def reading(play):
    """Play something with a reader: what it passes on, how to send to it, and its descriptor."""

    async def main():
        (incoming, theirs), (_, outgoing) = pipes = os.pipe(), os.pipe()
        os.set_blocking(incoming, False)
        handshake, received = anyio.create_memory_object_stream(10)
        enveloped, modern = anyio.create_memory_object_stream(10)
        try:
            async with LineWriter(outgoing) as writer, received, modern:
                with LineReader(incoming, EraStreams(handshake, enveloped), writer) as reader:
                    return await play(reader, received, partial(os.write, theirs), incoming)
        finally:
            for descriptor in (*pipes[0], *pipes[1]):
                os.close(descriptor)

    return anyio.run(main)


def test_half_a_message_waits_for_the_other_half_when_nothing_is_there_to_read():
    async def play(reader, received, send, _):
        send(b'{"jsonrpc": "2.0", "id": 7, ')
        reader._ready()
        reader._ready()  # as when another process has read what made it ready
        send(b'"method": "ping"}\n')
        with anyio.fail_after(30):
            return (await received.receive()).message.id

    assert reading(play) == 7


@pytest.mark.parametrize("limit", ["MOST_UNREAD", "MOST_UNANSWERED"])
def test_a_client_that_does_not_read_is_not_read_from_without_end(monkeypatch, limit):
    async def play(reader, received, send, descriptor):
        send(b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}\n')
        reader._ready()
        assert asyncio.get_running_loop().remove_reader(descriptor)
        monkeypatch.setattr(stdio, limit, -1)
        send(b'{"jsonrpc": "2.0", "id": 8, "method": "ping"}\n')
        reader._ready()
        assert not asyncio.get_running_loop().remove_reader(descriptor)
        monkeypatch.undo()
        send(b'{"jsonrpc": "2.0", "id": 9, "method": "ping"}\n')
        with anyio.fail_after(30):
            return [(await received.receive()).message.id for _ in range(3)]

    assert reading(play) == [7, 8, 9]


@pytest.mark.parametrize("waits", [True, False])
def test_lines_stay_whole_and_in_order_while_the_client_reads_slowly(waits):
    """A pipe may be one that does not wait."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, waits)
    names = ["y" * 500_000, *(f"{number}{'x' * 5_000 * (number % 3 == 0)}" for number in range(300))]
    read = bytearray()

    def read_all():
        while read.count(b"\n") < len(names):
            read.extend(os.read(ours, 10_000))

    async def main():
        async with LineWriter(theirs) as writer, anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, read_all)
            for name in names:
                writer.refuse(json.dumps({"id": name}).encode())
                await anyio.lowlevel.checkpoint()

    try:
        anyio.run(main)
        assert [json.loads(line)["id"] for line in read.splitlines()] == names
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_id_is_free_before_the_client_has_read_the_answer_so_that_it_may_use_it_again():
    ours, theirs = os.pipe()
    answer = JSONRPCResponse(jsonrpc="2.0", id=7, result={"text": "x" * 500_000})

    async def main():
        async with LineWriter(theirs) as writer, anyio.create_task_group() as group:
            writer.unanswered.add(7)
            group.start_soon(writer.send, SessionMessage(answer))
            await anyio.wait_all_tasks_blocked()
            assert (writer.unanswered, writer.unread > 500_000) == (set(), True)
            while not (await anyio.to_thread.run_sync(os.read, ours, 1 << 20)).endswith(b"\n"):
                pass

    try:
        anyio.run(main)
    finally:
        os.close(ours)
        os.close(theirs)


def test_servers_are_kept_for_the_session_and_started_again_if_they_end(speaker, log, no_leftovers):
    def run(number):
        calling = {"node_type": "mcp-odd-act", "parameters": {"value": 1}}
        answer = client.ask("tools/call", number, name="registry_run", arguments=calling)
        return answer["result"]["structuredContent"]

    before = log.read_text().count("start")
    with speaker() as client:
        assert run(2)["success"]
        workflow = {"nodes": [{"id": "a", "type": "mcp-odd-act", "params": {"value": 1}}]}
        ran = client.ask("tools/call", 3, name="workflow_execute", arguments={"workflow": workflow})
        assert ran["result"]["structuredContent"]["success"]
        assert log.read_text().count("start") - before == 1
        (server,) = marked_processes(f"{client.program.pid}-")
        os.kill(server, signal.SIGKILL)
        seen = run(4)
        if not seen["success"]:  # pflow had not noticed yet
            assert "SIGKILL" in seen["error"]["message"]
            assert run(5)["success"]
        assert client.end()[0] == 0
    assert log.read_text().count("start") - before == 2
