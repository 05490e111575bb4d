"""A run that failed goes on once what made it fail was mended: its workflow, its inputs or its server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from programs import script_server
from workflow_parts import edge, flow, step

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]
COUNTING = Path(__file__).with_name("counting_server.py")


@pytest.fixture
def effects(tmp_path):
    return tmp_path / "effects"


@pytest.fixture
def table(effects):
    return lambda **env: script_server(COUNTING, env={"EFFECTS": str(effects), **env})


@pytest.fixture
def failed(pflow, configured, table, effects, tmp_path):
    """Run a workflow until its second step fails; the first and the third send."""

    def run(second, *words, **env):
        configured("counting", table(**env))
        path = written(tmp_path, second)
        ended = pflow("run", path, *words)
        assert ended.exit_code == 1
        assert re.search(r"To go on where it ended: pflow resume \S+$", ended.stderr, re.MULTILINE)
        assert effects.read_text() == "first\n"

    return run


def written(tmp_path, second, name="wf"):
    """Write a workflow whose second step is given."""
    first, last = (step(it, "mcp-counting-send", {"value": it}) for it in ("first", "last"))
    inputs = {"file": {"default": "missing"}}
    edges = [edge("first", "second"), edge("second", "last")]
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(flow(first, second, last, edges=edges, inputs=inputs)))
    return path


READ = step("second", "read-file", {"file_path": "${file}"})


def test_with_a_workflow_that_was_changed(pflow, failed, effects, tmp_path):
    failed(READ)
    (tmp_path / "there").touch()
    mended = written(tmp_path, step("second", "read-file", {"file_path": "there"}), "mended")
    done = pflow("resume", "--workflow", mended)
    assert (done.exit_code, effects.read_text()) == (0, "first\nlast\n")


def test_with_an_input_that_was_changed(pflow, failed, effects, tmp_path):
    failed(READ)
    (tmp_path / "there").touch()
    assert pflow("resume").exit_code == 1
    done = pflow("resume", "file=there")
    assert (done.exit_code, effects.read_text()) == (0, "first\nlast\n")


@pytest.mark.parametrize("synced", [True, False])
def test_with_a_server_that_was_replaced(pflow, failed, table, effects, synced):
    failed(step("second", "mcp-counting-send", {"value": "second"}), REFUSE="second")
    new = json.dumps({"counting": table(VERSION="2")})
    assert pflow("mcp", "add", "--replace", new).exit_code == 0
    if synced:
        assert pflow("mcp", "sync", "counting").exit_code == 0
    done = pflow("resume")
    assert (done.exit_code, effects.read_text()) == (0, "first\nsecond\nlast\n")
