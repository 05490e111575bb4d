"""What a server says of its progress reaches the user and the trace."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from screen import Screen

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
        [
            sys.executable,
            "-P",
            "-m",
            "pflow_mcp_plugin",
            "run",
            "-v",
            str(workflow(("a", "mcp-odd-act", {}))),
        ],
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


def test_the_start_of_a_server_has_a_line_of_its_own_and_its_time_is_not_that_of_the_call(
    pflow, pflow_home, tmp_path, hosts
):
    table = {"command": sys.executable, "args": [str(FAULTY), "ReportsProgress"]}
    assert pflow("mcp", "add", json.dumps({"odd": table})).exit_code == 0
    assert pflow("mcp", "sync", "odd").exit_code == 0
    path = tmp_path / "act.json"
    path.write_text(json.dumps({"nodes": [{"id": "a", "type": "mcp-odd-act"}]}))
    words = ["run", str(path), "--verbose"]
    screen = Screen(words, pflow_home, cwd=tmp_path, env={"NO_COLOR": "1"})
    hosts.append(screen.program.pid)
    assert screen.end() == 0
    lines = "\n".join(screen.lines)
    assert re.search(r"^✓ start\s+\S+ m?s  server odd$", lines, re.MULTILINE)
    assert re.search(r"^  a\s+2 of 2, part 2$", lines, re.MULTILINE)
    (trace,) = (pflow_home / "state" / "traces").glob("*.json")
    content = json.loads(trace.read_bytes())
    (start,), (step,) = content["preparations"], content["steps"]
    assert (start["label"], start["error"]) == ("server odd", None)
    assert start["offset"] <= step["offset"] + 1
    end = start["offset"] + start["milliseconds"]
    assert step["waited"] == pytest.approx(end - max(step["offset"], start["offset"]), abs=2)
    assert step["waited"] < step["milliseconds"]
