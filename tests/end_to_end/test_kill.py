"""However `pflow run` ends in mid-run, nothing that it started outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pflow_mcp_plugin.processes.reaper_process import marked_processes

pytestmark = pytest.mark.usefixtures("no_leftovers")
FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"
_GONE_SECONDS = 2
_FAMILY = 4  # the server, a child, a grandchild, a daemon


def _wait_until(done: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def _reapers(host: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"%d" % host in command and any(part.endswith(b"reaper_process.py") for part in command):
            found.append(path.parent.name)
    return found


def _table(scenario: str, log: Path) -> str:
    args = [str(FAULTY), scenario]
    # One server stands in for another, which nobody is to approve.
    table = {"command": sys.executable, "args": args, "env": {"LOG": str(log)}, "trust": "auto"}
    return json.dumps({"odd": table})


@pytest.fixture
def hanging(pflow, pflow_home, workflow, tmp_path, hosts):
    """Start `pflow run` and return it when its server, with all its family, has got the call."""
    log = tmp_path / "log"
    assert pflow("mcp", "add", _table("Plain", log)).exit_code == 0
    assert pflow("mcp", "sync", "odd").exit_code == 0
    assert pflow("mcp", "add", _table("HangsWithAFamily", log)).exit_code == 0
    path = workflow(("a", "mcp-odd-act", {"value": "x"}))
    run = subprocess.Popen(
        [sys.executable, "-P", "-m", "pflow_mcp_plugin", "run", str(path)],
        env={**os.environ, "PFLOW_HOME": str(pflow_home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    hosts.append(run.pid)
    try:
        _wait_until(lambda: "call x" in log.read_text(encoding="utf-8"), 20, "the call did not arrive")
        _wait_until(lambda: len(marked_processes(f"{run.pid}-")) == _FAMILY, 5, "the family is not complete")
        assert len(_reapers(run.pid)) == 1
        yield run, log
    finally:
        run.kill()
        run.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGABRT])
def test_two_seconds_after_a_run_is_killed_no_server_child_daemon_or_reaper_is_left(hanging, number):
    run, _ = hanging
    run.send_signal(number)
    run.wait(5)
    _wait_until(
        lambda: not marked_processes(f"{run.pid}-") and not _reapers(run.pid),
        _GONE_SECONDS,
        "something outlived the run",
    )


def test_ctrl_c_tells_the_server_and_ends_the_run_with_130(hanging, signalled):
    run, log = hanging
    _, said = signalled(run, signal.SIGINT)
    assert run.returncode == 130
    assert "Traceback" not in said
    assert "cancelled" in log.read_text(encoding="utf-8").splitlines()
    assert not marked_processes(f"{run.pid}-")
