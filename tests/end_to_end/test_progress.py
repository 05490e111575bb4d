"""What a server says of its progress reaches the user and the trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("no_leftovers")
FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"


def _read_all(terminal: int) -> str:
    said = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # how Linux tells that the other end is closed
            return said.decode()
        said += part


@pytest.mark.parametrize("on_terminal", [True, False])
def test_progress_is_shown_on_a_terminal_and_kept_in_the_trace(
    pflow, pflow_home, workflow, hosts, on_terminal
):
    table = {"command": sys.executable, "args": [str(FAULTY), "ReportsProgress"]}
    assert pflow("mcp", "add", json.dumps({"odd": table})).exit_code == 0
    assert pflow("mcp", "sync", "odd").exit_code == 0
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "pflow_mcp_plugin", "run", str(workflow(("a", "mcp-odd-act", {})))],
        env={**os.environ, "PFLOW_HOME": str(pflow_home), "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs if on_terminal else subprocess.DEVNULL,
    ) as run:
        hosts.append(run.pid)
        os.close(theirs)
        said = _read_all(ours) if on_terminal else ""
        assert run.stdout is not None
        run.stdout.read()
        assert run.wait(60) == 0
    os.close(ours)
    assert ("of 2, part " in said) is on_terminal
    (trace,) = (pflow_home / "state" / "traces").glob("*.json")
    (step,) = json.loads(trace.read_bytes())["steps"]
    assert step["details"]["progress"] == {"done": 2, "total": 2, "message": "part 2"}
