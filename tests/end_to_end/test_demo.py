"""`pflow mcp demo`, as a newcomer runs it: the first thing that has to work."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")


def test_the_demo_runs_and_says_what_to_try_next(pflow, no_leftovers):
    ran = pflow("mcp", "demo")
    assert ran.exit_code == 0, ran.stderr
    assert "10 words + 2 lines = 12" in ran.stdout
    assert "pflow mcp tools demo" in ran.stdout


def test_the_demo_may_run_again(pflow):
    first, second = pflow("mcp", "demo", "--json"), pflow("mcp", "demo", "--json")
    assert [first.exit_code, second.exit_code] == [0, 0]
    outputs = [ran.envelope["data"]["outputs"] for ran in (first, second)]
    assert outputs[0] == outputs[1]
    assert outputs[0]["count"]["words"] == 10
    assert outputs[0]["sum"] == 12


def test_what_the_demo_prints_is_a_workflow_that_runs(pflow, tmp_path):
    workflow = pflow("mcp", "demo", "--json").envelope["data"]["workflow"]
    (tmp_path / "demo.json").write_text(json.dumps(workflow), encoding="utf-8")
    ran = pflow("run", "demo.json", "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.envelope["data"]["outputs"]["say"] == "10 words + 2 lines = 12"


def test_a_file_in_the_current_folder_does_not_disturb_the_demo(pflow, tmp_path):
    (tmp_path / "mcp.py").write_text("raise SystemExit('not the SDK')\n", encoding="utf-8")
    (tmp_path / "calendar.py").write_text("raise SystemExit('not the calendar')\n", encoding="utf-8")
    ran = pflow("mcp", "demo")
    assert ran.exit_code == 0, ran.stderr


def test_another_server_called_demo_is_left_alone(pflow, pflow_home):
    pflow("mcp", "add", "demo", "--", "my-own-server")
    before = (pflow_home / "config" / "mcp-servers.toml").read_bytes()
    ran = pflow("mcp", "demo", "--json")
    assert ran.exit_code == 2
    assert ran.envelope["error"]["type"] == "config"
    assert "pflow mcp remove demo" in ran.envelope["error"]["suggestions"][0]
    assert (pflow_home / "config" / "mcp-servers.toml").read_bytes() == before
