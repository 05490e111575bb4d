"""What a server says of its progress reaches the user and the trace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from programs import script_server
from screen import Screen

pytestmark = pytest.mark.usefixtures("no_leftovers")
FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"


@pytest.fixture
def reporting(configured, workflow):
    """A workflow of one call, of which its server reports the progress."""
    configured("odd", script_server(FAULTY, "ReportsProgress"))
    return workflow(("a", "mcp-odd-act", {}))


def test_a_terminal_shows_the_start_of_a_server_and_the_progress_of_its_call(
    reporting, pflow_home, tmp_path, hosts
):
    screen = Screen(["run", str(reporting), "--verbose"], pflow_home, cwd=tmp_path, env={"NO_COLOR": "1"})
    hosts.append(screen.program.pid)
    assert screen.end() == 0
    lines = "\n".join(screen.lines)
    assert re.search(r"^✓ start\s+\S+ m?s  server odd$", lines, re.MULTILINE)
    assert re.search(r"^  a\s+2 of 2, part 2$", lines, re.MULTILINE)


def test_the_trace_keeps_the_progress_and_the_time_of_the_start_apart_from_that_of_the_call(reporting, pflow):
    ran = pflow("run", "-v", reporting, "--json")
    assert ran.exit_code == 0
    trace = json.loads(Path(ran.envelope["trace_path"]).read_bytes())
    (start,), (step,) = trace["preparations"], trace["steps"]
    assert step["details"]["progress"] == {"done": 2, "total": 2, "message": "part 2"}
    assert (start["label"], start["error"]) == ("server odd", None)
    assert start["offset"] <= step["offset"] + 1
    end = start["offset"] + start["milliseconds"]
    assert step["waited"] == pytest.approx(end - max(step["offset"], start["offset"]), abs=2)
    assert step["waited"] < step["milliseconds"]
