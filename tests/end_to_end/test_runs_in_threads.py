"""Runs that threads of one process start on one host, with servers: followed, cancelled, side by side."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from programs import script_server, until

from pflow_mcp_plugin.client.background_loop import background_loop
from pflow_mcp_plugin.config.locations import server_file
from pflow_mcp_plugin.contract import RunControl, RunOrigin
from pflow_mcp_plugin.host.embedded_host import open_host

FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"
SOON = 15.0
"""Seconds within which a cancelled run must have ended, on a busy machine; the server would never answer."""

pytestmark = pytest.mark.usefixtures("no_leftovers")


@pytest.fixture
def faulty(configured, tmp_path):
    """Add a server that hangs; return the file in which it notes what happens."""

    def faulty():
        log = tmp_path / "Hangs.log"
        configured("odd", script_server(FAULTY, "Hangs", env={"LOG": str(log)}))
        log.unlink(missing_ok=True)
        return log

    return faulty


def _act(*after, **batch):
    node = {"id": "a", "type": "mcp-odd-act", "params": {"value": 1}}
    if batch:
        node |= {"params": {"value": "${item}"}, "batch": batch}
    return {"nodes": [node, *({"id": name, "type": "mcp-odd-act"} for name in after)]}


def _cancelled(host, workflow, begun):
    control = RunControl()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(host.runner.run, workflow, {}, control=control)
        begun()
        began = time.monotonic()
        control.cancel()
        took = time.monotonic() - began
        outcome = running.result(60)
    assert took < 1, "cancelling blocks"
    assert time.monotonic() - began < SOON
    return outcome


@pytest.mark.parametrize(
    "batch", [{}, {"items": [1, 2, 3], "parallel": True}, {"items": [1, 2], "error_handling": "continue"}]
)
def test_a_cancelled_run_ends_its_call_and_its_server(faulty, batch):
    log = faulty()
    with open_host() as host:
        outcome = _cancelled(host, _act("after", **batch), lambda: until(lambda: "call 1" in _noted(log)))
    assert (outcome.exit_code, outcome.error.kind, outcome.steps) == (130, "interrupted", 1)
    assert outcome.error.message.startswith("The run was interrupted at node a")
    assert json.loads(outcome.trace_path.read_text())["error"]["type"] == "interrupted"
    assert "cancelled" in _noted(log)
    assert "call None" not in _noted(log)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pflow-mcp")]


def _noted(log):
    return log.read_text() if log.exists() else ""


def test_a_run_is_cancelled_while_its_server_does_not_answer_the_handshake(faulty):
    begun = faulty()
    with open_host() as host:
        path = server_file(host.paths)
        silent = path.read_text().replace("Hangs", "IsSilent").replace("IsSilent.log", "Hangs.log")
        path.write_text(f'{silent}\n[defaults]\ntrust = "auto"\n')
        outcome = _cancelled(host, _act(), lambda: until(lambda: "start" in _noted(begun)))
    assert (outcome.exit_code, outcome.error.kind) == (130, "interrupted")


def test_eight_runs_at_once_on_one_host_do_not_meet(scripted, pflow_home, monkeypatch):
    scripted("say", env={"TOKEN": "${TOKEN}"}, schema={"type": "object", "properties": {"n": {}, "text": {}}})
    monkeypatch.setenv("TOKEN", "s3cret-of-the-server")
    secrets = [f"s3cret-of-run-{n:02}" for n in range(8)]
    start = threading.Barrier(8)

    def one(n):
        start.wait(30)
        nodes = [
            {"id": "call", "type": "mcp-odd-say", "params": {"n": n, "text": "${word}"}},
            {"id": "sh", "type": "shell", "params": {"command": f"yes {n} | head -c 8500000"}},
            {"id": "say", "type": "echo", "params": {"message": "${call.arguments.n}"}},
            {"id": "no", "type": "read-file", "params": {"file_path": f"/nowhere/{n}"}},
        ]
        workflow = {"inputs": {"word": {"type": "str"}}, "nodes": nodes}
        found = host.registry.search("say"), host.registry.find("mcp-odd-say")
        assert all(found)
        assert host.settings.get("NONE") is None
        with host.gathering() as gathered:
            assert not gathered
        return host.runner.run(workflow, {"word": secrets[n]}, origin=RunOrigin(owner=f"client {n}"))

    with open_host() as host, ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(one, range(8)))
        assert len({outcome.run_id for outcome in outcomes}) == 8
        for n, outcome in enumerate(outcomes):
            trace = host.traces.read(outcome.trace_path)
            text = json.dumps(trace)
            assert "s3cret-of-the-server" not in text
            assert secrets[n] in text
            assert not [secret for secret in secrets if secret != secrets[n] and secret in text]
            assert trace["owner"] == f"client {n}"
            assert outcome.checkpoint["say"]["message"] == n
            assert outcome.run_id in outcome.checkpoint["sh"]["stdout"]  # the file with all of it
            assert host.traces.find(owner=f"client {n}") == outcome.trace_path
    assert not background_loop._users
