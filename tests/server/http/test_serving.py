"""`pflow mcp serve --http` as a program: its token, its address, its end, and whose runs are whose."""

import os
import pty
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from issuer import AUDIENCE, Issuer
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from programs import until
from served_program import HEADERS, TOKEN, ServedProgram, call

from pflow_mcp_plugin.cli.serve import serve
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.embedded_host import open_host

pytestmark = pytest.mark.programs

FAULTY = Path(__file__).parents[2] / "faults" / "stdio_server.py"


@pytest.fixture
def program(pflow_home: Path, no_leftovers: None) -> Iterator[ServedProgram]:
    with ServedProgram(pflow_home, ["--grace", "0.5"]) as running:
        yield running


@pytest.fixture
def issuer(no_leftovers: None) -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def trusting(pflow_home: Path, issuer: Issuer) -> Callable[[], ServedProgram]:
    """Return a program that accepts the tokens of that authorization server."""
    return lambda: ServedProgram(pflow_home, ["--issuer", issuer.url, "--audience", AUDIENCE])


def waiting(began: Path, then: str = "sleep 60") -> dict:
    """Return a call of a workflow that begins, and goes on for a minute."""
    line = f"touch {began}; {then}"
    return {"workflow": {"nodes": [{"id": "wait", "type": "shell", "params": {"command": line}}]}}


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(("number", "code", "grace"), [(signal.SIGTERM, 0, 300), (signal.SIGINT, 130, 0.5)])
def test_a_signal_ends_it_with_the_runs_and_a_second_one_does_not_wait_for_the_grace(
    pflow_home, tmp_path, no_leftovers, number, code, grace
):
    answers: list[str] = []
    with ServedProgram(pflow_home, ["--grace", str(grace)]) as program:
        asking = in_background(
            lambda: answers.append(program.post("workflow_execute", **waiting(tmp_path / "began")).text)
        )
        until((tmp_path / "began").exists)
        started = time.monotonic()
        if grace == 300:
            program.process.send_signal(number)
            time.sleep(0.3)  # two signals at once are one
        assert program.end(number) == (code, "")
        assert time.monotonic() - started < 20
        asking.join(10)
    (trace,) = (pflow_home / "state" / "traces").glob("*.json")
    assert (
        f'"message": "This server is shutting down; run {trace.stem} was cancelled: its trace' in answers[0]
    )


def test_a_run_that_ends_within_the_grace_is_answered(pflow_home, tmp_path, no_leftovers):
    began, go_on = tmp_path / "began", tmp_path / "go-on"
    call = waiting(began, f"while [ ! -e {go_on} ]; do sleep 0.05; done")
    with ServedProgram(pflow_home, ["--grace", "60"]) as program:
        answers: list[dict] = []
        asking = in_background(lambda: answers.append(program.call("workflow_execute", **call)))
        until(began.exists)
        ending = in_background(lambda: answers.append({"end": program.end(signal.SIGTERM)}))
        refused = False
        deadline = time.monotonic() + 10
        while not refused and time.monotonic() < deadline:
            try:
                refused = httpx2.post(program.url, trust_env=False).status_code == 503
            except httpx2.TransportError:  # nobody listens, or it was accepted just before that
                refused = True
        go_on.touch()
        asking.join(60)
        ending.join(60)
    assert refused
    assert answers[0]["success"]
    assert answers[1] == {"end": (0, "")}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_run_ends_when_its_stream_is_closed_and_tells_its_progress_before(program, tmp_path, mode):
    pid = tmp_path / "pid"
    nodes = [
        {"id": "first", "type": "echo", "params": {"message": "hello"}},
        {"id": "wait", "type": "shell", "params": {"command": f"echo $$ > {pid}; exec sleep 60"}},
    ]
    workflow = {"nodes": nodes, "edges": [{"from": "first", "to": "wait"}]}
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def play() -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False, verify=False) as http:
            transport = streamable_http_client(program.url, http_client=http)
            async with Client(transport, mode=mode) as client, anyio.create_task_group() as group:
                assert len((await client.list_tools()).tools) == 13
                call = partial(client.call_tool, progress_callback=note)
                group.start_soon(call, "workflow_execute", {"workflow": workflow})
                await anyio.to_thread.run_sync(until, pid.exists)
                group.cancel_scope.cancel()

    anyio.run(play)
    assert seen
    until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())


def test_clients_of_an_authorization_server_do_not_see_each_others_runs(issuer, trusting):
    workflow = {"nodes": [{"id": "a", "type": "echo", "params": {"message": "only for alice"}}]}
    with trusting() as program:
        alice, bob = issuer.token(sub="alice"), issuer.token(sub="bob")
        ran = program.call("workflow_execute", alice, workflow=workflow)
        assert ran["success"], ran
        trace = ran["trace_path"]
        assert program.call("trace_read", alice, trace_file="latest")["success"]
        for name in ("latest", trace, Path(trace).name, ran["data"].get("run_id", "latest")):
            seen = program.call("trace_read", bob, trace_file=name)
            assert not seen["success"], seen
            assert "only for alice" not in str(seen)
        assert program.call("workflow_execute", bob, workflow=workflow)["success"]
        own = program.call("trace_read", alice, trace_file="latest")
        assert own["success"]
        assert trace in str(own) or "only for alice" in str(own)


def test_an_issuer_that_the_config_denies_is_not_asked_and_the_operator_is_told(pflow_home, issuer, trusting):
    config = pflow_home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "mcp-servers.toml").write_text('[network]\ndeny = ["127.0.0.1"]\n')
    with trusting() as program:
        assert program.post("registry_list", issuer.token()).status_code == 503
        assert issuer.asked == []
        code, said = program.end(signal.SIGTERM)
    assert code == 0
    assert said.startswith(f"Warning: The keys of {issuer.url} cannot be fetched: Server of --issuer: host ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--token-file", "."], "cannot be read"),
        (["--issuer", "https://as.example"], "--issuer needs --audience"),
        (["--audience", "a"], "--audience and --scope need --issuer"),
        (["--issuer", "https://a.example", "--audience", "a", "--token-file", "x"], "exclude each other"),
        (["--allowed-origin", "*"], "--allowed-origin takes an origin"),
        (["--allowed-host", "http://a.example"], "--allowed-host takes HOST"),
        (["--tls-key", "x"], "--tls-key needs --tls-cert"),
        (["--tls-cert", "short"], "cannot be used"),
        (["--request-timeout", "nan"], "'--request-timeout'"),
        (["--grace", "inf"], "'--grace'"),
    ],
)
def test_options_that_cannot_work_are_refused_with_the_reason(
    pflow_home, tmp_path, monkeypatch, options, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PFLOW_SERVE_TOKEN", raising=False)
    (tmp_path / "short").write_text("x")
    assert said in refusal("--http", ":0", *options)


def refusal(*options: str) -> str:
    """Return why `pflow mcp serve` refuses to start: a wrong use, with exit code 2."""
    with open_host() as host:
        result = CliRunner().invoke(serve, options, obj=host)
    if isinstance(result.exception, PflowError):
        assert result.exception.exit_code == 2
        return str(result.exception)
    assert result.exit_code == 2
    return result.output


def test_an_address_that_cannot_be_listened_on_is_refused_and_so_are_options_without_one(
    pflow_home, monkeypatch
):
    for address in ("8000", "192.0.2.1:0", "x.invalid:0"):
        monkeypatch.setenv("PFLOW_SERVE_TOKEN", TOKEN)  # it is taken out of the environment
        assert address.rpartition(":")[0] in refusal("--http", address)
    assert "--grace needs --http" in refusal("--grace", "1")


def test_an_address_in_use_is_refused_unless_it_is_shared(pflow, pflow_home, tmp_path):
    with ServedProgram(pflow_home, ["--reuse-port"]) as first:
        address = first.url.removeprefix("http://").removesuffix("/mcp")
        ended = pflow("mcp", "serve", "--http", address, env={"PFLOW_SERVE_TOKEN": TOKEN})
        assert ended.exit_code == 2
        assert "--reuse-port" in ended.stderr
        with ServedProgram(pflow_home, ["--reuse-port"], address=address) as second:
            assert first.end(signal.SIGTERM)[0] == 0
            assert second.call("settings_get", key="NOT_SET")["error"]["type"] == "not_found"


def test_an_address_beyond_this_machine_is_warned_about_and_may_be_one_of_ipv6(pflow_home):
    with ServedProgram(pflow_home, address="[::]:0") as program:
        said = "\n".join(program.before)
        assert "plain http" in said
        assert "--allowed-host" in said
        assert program.url.startswith("http://[::]:")
        program.url = program.url.replace("[::]", "[::1]")
        assert program.call("settings_set", key="A", value="b")["success"]


@pytest.mark.parametrize("apart", [True, False])
def test_it_serves_https_with_the_key_in_a_file_of_its_own_or_with_the_certificate(
    pflow_home, tmp_path, authority, apart
):
    authority.server_context("127.0.0.1")
    file, key = tmp_path / "server.pem", tmp_path / "server.key"
    options = ["--tls-cert", str(file)]
    if apart:
        blocks = re.findall(r"-----BEGIN .*?-----END [^\n]*\n", file.read_text(), re.DOTALL)
        key.write_text("".join(block for block in blocks if "PRIVATE KEY" in block))
        file.write_text("".join(block for block in blocks if "PRIVATE KEY" not in block))
        options += ["--tls-key", str(key)]
    with ServedProgram(pflow_home, options) as program:
        assert program.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=authority.file)
        here = program.url.removesuffix("/mcp")
        for origin, code in (
            ({}, 200),
            ({"origin": here}, 200),
            ({"origin": here.replace("https", "http")}, 403),
        ):
            headers = {**HEADERS, "authorization": f"Bearer {TOKEN}", **origin}
            body = call("settings_get", {"key": "A"})
            answer = httpx2.post(program.url, json=body, headers=headers, trust_env=False, verify=trusting)
            assert answer.status_code == code
        assert httpx2.post(program.url, trust_env=False, verify=trusting).status_code == 401


def test_a_token_is_made_and_shown_once_on_a_terminal(pflow_home):
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-P", "-m", "pflow_mcp_plugin", "mcp", "serve", "--http", ":0"]
    with subprocess.Popen(arguments, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as program:
        os.close(theirs)
        said = b""
        while b"Ctrl-C" not in said:
            said += os.read(ours, 4096)
        token = re.search(rb"Token, shown only now: (\S{43})\r", said)
        url = re.search(rb"Serving pflow on (\S+)", said)
        assert token
        assert url
        headers = {**HEADERS, "authorization": f"Bearer {token[1].decode()}"}
        body = call("settings_set", {"key": "A", "value": "b"})
        assert httpx2.post(url[1].decode(), json=body, headers=headers, trust_env=False).status_code == 200
        program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 0
        assert program.stdout
        assert program.stdout.read() == b""
    os.close(ours)


def test_each_token_has_servers_of_its_own_which_are_kept_for_its_further_requests(
    pflow, issuer, trusting, tmp_path
):
    log = tmp_path / "log"
    command = [sys.executable, str(FAULTY), "Plain"]
    assert pflow("mcp", "add", "--sync", "odd", f"--env=LOG={log}", "--", *command).exit_code == 0
    before = log.read_text().count("start")
    with trusting() as program:
        alice, bob = issuer.token(sub="alice"), issuer.token(sub="bob")
        other = issuer.token(sub="alice", client_id="another program")
        for token, starts in ((alice, 1), (alice, 1), (bob, 2), (other, 3), (alice, 3)):
            assert program.call("registry_run", token, node_type="mcp-odd-act")["success"]
            assert log.read_text().count("start") - before == starts
        assert program.end(signal.SIGTERM) == (0, "")
