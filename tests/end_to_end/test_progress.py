"""What a server says of its progress reaches the user."""

from __future__ import annotations

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
