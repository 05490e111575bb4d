"""A disk that is full, a folder that nobody may write to, and two who go on with the same run."""

from __future__ import annotations

import json
import sys

import pytest
from workflow_parts import edge, step

pytestmark = pytest.mark.programs

FULL = """
import itertools, resource, signal, sys
from pflow_mcp_plugin.host.running.run_record import RunRecord
from pflow_mcp_plugin.__main__ import program

def sent(*given):
    if next(times) == last:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    usual(*given)

usual, times, last = RunRecord.sent, itertools.count(1), int(sys.argv.pop(1))
RunRecord.sent = sent
sys.exit(program())
"""
"""The program, for which the disk is full from the n-th step on."""


@pytest.fixture
def path(workflow, tmp_path, monkeypatch):
    """A file with a workflow of three steps that write into `log`."""
    monkeypatch.chdir(tmp_path)
    nodes = [step(name, "shell", {"command": f"echo {name} >> log"}) for name in "abc"]
    return workflow(*nodes, edges=[edge("a", "b"), edge("b", "c")])


@pytest.mark.parametrize(("number", "did"), [(2, "a\n"), (3, "a\nb\n")])
def test_a_step_is_not_begun_when_the_disk_is_full(pflow, started, path, number, did):
    log = path.with_name("log")
    run = started("run", path, "--json", program=(sys.executable, "-P", "-c", FULL, str(number)))
    output, _ = run.communicate(timeout=60)
    error = json.loads(output)["error"]
    assert (run.returncode, log.read_text()) == (1, did)
    assert "as the record of the run cannot be written" in error["message"]
    assert error["suggestions"][0] == "Free some disk space first"
    assert "pflow resume" in error["suggestions"][1]
    assert pflow("resume").exit_code == 0
    assert log.read_text() == "a\nb\nc\n"
