"""A run that failed goes on once what made it fail was mended: its server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from programs import script_server
from workflow_parts import edge

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]
COUNTING = Path(__file__).with_name("counting_server.py")


@pytest.mark.parametrize("synced", [True, False])
def test_a_run_goes_on_with_a_server_that_was_replaced(pflow, configured, workflow, tmp_path, synced):
    effects = tmp_path / "effects"
    table = script_server(COUNTING, env={"EFFECTS": str(effects), "REFUSE": "second"})
    configured("counting", table)
    nodes = [(name, "mcp-counting-send", {"value": name}) for name in ("first", "second", "last")]
    ended = pflow("run", workflow(*nodes, edges=[edge("first", "second"), edge("second", "last")]))
    assert ended.exit_code == 1
    assert re.search(r"To go on where it ended: pflow resume \S+$", ended.stderr, re.MULTILINE)
    assert effects.read_text() == "first\n"
    new = script_server(COUNTING, env={"EFFECTS": str(effects), "VERSION": "2"})
    assert pflow("mcp", "add", "--replace", json.dumps({"counting": new})).exit_code == 0
    if synced:
        assert pflow("mcp", "sync", "counting").exit_code == 0
    done = pflow("resume")
    assert (done.exit_code, effects.read_text()) == (0, "first\nsecond\nlast\n")
