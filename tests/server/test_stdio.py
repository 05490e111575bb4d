"""The real program, served over real standard streams."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import anyio
import pytest
import real_servers
from prepared_starts import PROGRAM
from programs import importing

from pflow_mcp_plugin.processes.reaper_process import marked_processes
from pflow_mcp_plugin.server.stdio import EraStreams, LineReader, LineWriter

pytestmark = pytest.mark.programs

SECONDS = 60
SERVE = [*PROGRAM, "mcp", "serve"]
TYPED = {"command": sys.executable, "args": [str(real_servers.HERE / "typed_server.py")]}


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

    def ask_for_text(self, number, folder, length):
        """Send a request for a workflow's run that returns texts of this length in all, each shown whole."""
        file = folder / "large.txt"
        file.write_text("x" * 200_000, encoding="utf-8")
        outputs = {f"o{at}": "${a.content}" for at in range(length // 200_000)}
        node = {"id": "a", "type": "read-file", "params": {"file_path": str(file)}}
        workflow = {"nodes": [node], "outputs": outputs}
        params = {"name": "workflow_execute", "arguments": {"workflow": workflow}}
        self.say(id=number, method="tools/call", params=params)

    def end(self):
        """Close the input; return the exit code and what was said on stderr."""
        self.program.stdin.close()
        return self.program.wait(SECONDS), self.program.stderr.read().decode()

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
        with subprocess.Popen(
            SERVE,
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **more},
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


@pytest.mark.parametrize("end", ["close", signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_when_it_ends_its_runs_and_their_servers_end_too(
    speaker, pflow, pflow_home, tmp_path, end, no_leftovers
):
    added = pflow("mcp", "add", "--sync", "typed", "--", TYPED["command"], *TYPED["args"])
    assert added.exit_code == 0, added.stderr
    started = tmp_path / "started"
    wait = f"echo 1 > {started}; sleep 300"
    with speaker() as client:
        slow = {"node_type": "mcp-typed-slow", "parameters": {"seconds": 250}}
        shell = {"nodes": [{"id": "a", "type": "shell", "params": {"command": wait, "timeout": 600}}]}
        meta = {"progressToken": "p"}
        client.say(
            id=7, method="tools/call", params={"name": "registry_run", "arguments": slow, "_meta": meta}
        )
        client.say(
            id=8, method="tools/call", params={"name": "workflow_execute", "arguments": {"workflow": shell}}
        )
        while client.heard().get("method") != "notifications/progress" or not started.exists():
            pass
        began = time.monotonic()
        if end == "close":
            client.program.stdin.close()
        else:
            client.program.send_signal(end)
        code = client.program.wait(SECONDS)
        seconds = time.monotonic() - began
        errors = client.program.stderr.read().decode()
    assert code == (0 if end == "close" else 128 + end)
    assert seconds < 15
    assert "Traceback" not in errors
    traces = [json.loads(path.read_text()) for path in (pflow_home / "state" / "traces").glob("*.json")]
    assert {trace["error"]["type"] for trace in traces} == {"interrupted"}


@pytest.mark.parametrize(
    ("line", "number", "code", "reason"),
    [
        (b"not json\n", None, -32700, "invalid JSON"),
        (b'{"jsonrpc": "2.0"\xff\n', None, -32700, "invalid JSON"),
        (b'{"jsonrpc": "2.0", "id": 9, "method": 5}\n', 9, -32600, "request"),
        (b'[{"jsonrpc": "2.0", "id": 9, "method": "ping"}]\n', None, -32600, "batches"),
        (b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": [1]}\n', 9, -32600, "params"),
        (b'{"jsonrpc": "1.0", "id": 9, "method": "ping"}\n', 9, -32600, 'jsonrpc must be "2.0"'),
        (b'{"id": 9, "method": "ping"}\n', 9, -32600, 'jsonrpc must be "2.0"'),
        (b"[" * 200_000 + b"\n", None, -32700, "too deep"),
        (
            b'{"jsonrpc": "2.0", "id": 9, "method": "x", "params": {"a": '
            + b"[" * 400
            + b"]" * 400
            + b"}}\n",
            9,
            -32600,
            "too deep",
        ),
    ],
    ids=["text", "cut", "no message", "batch", "list", "1.0", "no version", "deep", "deep request"],
)
def test_a_line_that_is_no_message_is_answered_with_the_reason_and_the_next_one_too(
    speaker, line, number, code, reason
):
    with speaker() as client:
        client.write(line)
        refused = client.heard()
        assert refused["error"]["code"] == code
        assert reason in refused["error"]["message"]
        assert refused.get("id") == number
        assert client.ask("ping", 3)["result"] == {}


def test_large_answers_arrive_whole_while_small_ones_follow(speaker, tmp_path):
    with speaker() as client:
        client.ask_for_text(2, tmp_path, 3_000_000)
        for number in range(3, 40):
            client.say(id=number, method="ping")
        large = client.answer(2)["result"]["structuredContent"]["data"]["outputs"]
        assert sum(map(len, large.values())) == 3_000_000
        for number in range(40, 50):
            assert client.ask("ping", number)["result"] == {}


def test_input_from_a_file_is_served(pflow_home, tmp_path):
    """A regular file cannot be waited for; it is read in a thread."""
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
    ]
    text = tmp_path / "requests"
    text.write_text("\n".join(map(json.dumps, messages)), encoding="utf-8")
    with text.open("rb") as requests:
        done = subprocess.run(SERVE, stdin=requests, capture_output=True, timeout=SECONDS, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [answer["id"] for answer in answers] == [1, 2]


def test_warnings_of_the_host_go_to_standard_error(speaker, pflow_home):
    folder = pflow_home / "config"
    folder.mkdir()
    (folder / "mcp-servers.toml").write_text("[serve]\nshow_secret = true\n", encoding="utf-8")
    with speaker() as client:
        _, errors = client.end()
    assert "Unknown field show_secret" in errors
    assert "Did you mean show_secrets?" in errors


def test_a_client_that_leaves_without_reading_is_no_crash(speaker, tmp_path):
    with speaker() as client:
        client.ask_for_text(2, tmp_path, 1_000_000)
        client.program.stdout.close()
        assert "Traceback" not in client.end()[1]


@pytest.mark.parametrize("number", ["null", "true", "1e400", "1.5", '{"a": 1}'])
def test_a_request_whose_id_is_invalid_is_answered_and_the_next_one_too(speaker, number):
    with speaker(greets=False) as client:
        client.write(b'{"jsonrpc": "2.0", "id": ' + number.encode() + b', "method": "ping"}\n')
        assert client.heard()["error"]["code"] in (-32600, -32700)
        client.hello()


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


def test_a_client_that_does_not_read_is_not_read_from_without_end(speaker):
    line = b'{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}\n' * 1_000
    with speaker() as client:
        os.set_blocking(client.program.stdin.fileno(), False)
        sent, deadline, waited = 0, time.monotonic() + SECONDS, False
        while not waited and time.monotonic() < deadline:
            _, ready, _ = select.select([], [client.program.stdin], [], 3)
            waited = not ready
            sent += os.write(client.program.stdin.fileno(), line) if ready else 0
            assert sent < 32 << 20
        assert waited, "it reads on and on"
        os.set_blocking(client.program.stdin.fileno(), True)
        assert client.end()[0] == 0


def test_a_pipe_that_does_not_wait_gets_all_of_a_large_line():
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)

    async def main():
        async with LineWriter(theirs) as writer:
            writer.refuse(b'{"id": "' + b"x" * 500_000 + b'"}')
            line = b""
            while not line.endswith(b"\n"):
                line += await anyio.to_thread.run_sync(os.read, ours, 1 << 16)
            return json.loads(line)

    try:
        assert len(anyio.run(main)["id"]) == 500_000
    finally:
        os.close(ours)
        os.close(theirs)


def test_half_a_message_waits_for_the_other_half_when_nothing_is_there_to_read():
    (incoming, theirs), (_, outgoing) = pipes = os.pipe(), os.pipe()
    os.set_blocking(incoming, False)

    async def main():
        handshake, received = anyio.create_memory_object_stream(10)
        enveloped, modern = anyio.create_memory_object_stream(10)
        async with LineWriter(outgoing) as writer, received, modern:
            with LineReader(incoming, EraStreams(handshake, enveloped), writer) as reader:
                os.write(theirs, b'{"jsonrpc": "2.0", "id": 7, ')
                reader._ready()
                reader._ready()  # as when another process has read what made it ready
                os.write(theirs, b'"method": "ping"}\n')
                with anyio.fail_after(30):
                    return (await received.receive()).message.id

    try:
        assert anyio.run(main) == 7
    finally:
        for descriptor in (*pipes[0], *pipes[1]):
            os.close(descriptor)


def test_lines_stay_in_order_while_the_client_reads_slowly():
    ours, theirs = os.pipe()
    names = [f"{number}{'x' * 5_000 * (number % 3 == 0)}" for number in range(600)]
    read = bytearray()

    def read_all():
        while read.count(b"\n") < len(names):
            read.extend(os.read(ours, 1_000))

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


def test_servers_are_kept_for_the_session_and_started_again_if_they_end(speaker, pflow, no_leftovers):
    demo = [sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"]
    assert pflow("mcp", "add", "--sync", "demo", "--", *demo).exit_code == 0
    numbers = iter(range(2, 100))

    def run(tool, **parameters):
        calling = {"node_type": f"mcp-demo-{tool}", "parameters": parameters}
        answer = client.ask("tools/call", next(numbers), name="registry_run", arguments=calling)
        return answer["result"]["structuredContent"]

    with speaker() as client:
        assert run("remember", key="k", value=1)["success"]
        assert run("recall", key="k")["data"]["outputs"]["value"] == 1
        workflow = {"nodes": [{"id": "a", "type": "mcp-demo-recall", "params": {"key": "k"}}]}
        ran = client.ask("tools/call", 90, name="workflow_execute", arguments={"workflow": workflow})
        assert ran["result"]["structuredContent"]["data"]["outputs"]["value"] == 1
        (server,) = marked_processes(f"{client.program.pid}-")
        os.kill(server, signal.SIGKILL)
        seen = run("recall", key="k")
        if "SIGKILL" in seen["error"]["message"]:  # pflow had not noticed yet
            seen = run("recall", key="k")
        assert "remembered so far" in seen["error"]["message"]
        assert client.end()[0] == 0
