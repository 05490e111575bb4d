"""A run that failed goes on once what made it fail was mended: an input, or its server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from programs import script_server
from workflow_parts import edge, flow, step

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]
COUNTING = Path(__file__).with_name("counting_server.py")


def written(tmp_path, second):
    """Write a workflow whose second step is given; the first and the last send their names."""
    first, last = (step(it, "mcp-counting-send", {"value": it}) for it in ("first", "last"))
    inputs = {"file": {"default": "missing"}}
    edges = [edge("first", "second"), edge("second", "last")]
    path = tmp_path / "wf.json"
    path.write_text(json.dumps(flow(first, second, last, edges=edges, inputs=inputs)))
    return path


@pytest.mark.parametrize("synced", [True, False])
def test_a_run_goes_on_with_a_server_that_was_replaced(pflow, configured, tmp_path, synced):
    effects = tmp_path / "effects"
    table = script_server(COUNTING, env={"EFFECTS": str(effects), "REFUSE": "second"})
    configured("counting", table)
    ended = pflow("run", written(tmp_path, step("second", "mcp-counting-send", {"value": "second"})))
    assert ended.exit_code == 1
    assert re.search(r"To go on where it ended: pflow resume \S+$", ended.stderr, re.MULTILINE)
    assert effects.read_text() == "first\n"
    new = script_server(COUNTING, env={"EFFECTS": str(effects), "VERSION": "2"})
    assert pflow("mcp", "add", "--replace", json.dumps({"counting": new})).exit_code == 0
    if synced:
        assert pflow("mcp", "sync", "counting").exit_code == 0
    done = pflow("resume")
    assert (done.exit_code, effects.read_text()) == (0, "first\nsecond\nlast\n")
