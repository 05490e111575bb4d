"""What somebody runs first: the demo."""

import json


def test_the_demo_may_run_again_and_prints_a_workflow_that_runs(pflow, tmp_path, no_leftovers):
    (tmp_path / "mcp.py").write_text("raise SystemExit('not the SDK')\n", encoding="utf-8")
    (tmp_path / "calendar.py").write_text("raise SystemExit('not the calendar')\n", encoding="utf-8")
    first = pflow("mcp", "demo")
    assert first.exit_code == 0, first.stderr
    assert "10 words + 2 lines = 12" in first.stdout
    assert "pflow mcp tools demo" in first.stdout
    again = pflow("mcp", "demo", "--json").envelope["data"]
    assert (again["outputs"]["count"]["words"], again["outputs"]["sum"]) == (10, 12)
    (tmp_path / "demo.json").write_text(json.dumps(again["workflow"]), encoding="utf-8")
    ran = pflow("run", "demo.json", "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.envelope["data"]["outputs"]["say"] == "10 words + 2 lines = 12"


def test_another_server_called_demo_is_left_alone(pflow, pflow_home):
    pflow("mcp", "add", "demo", "--", "my-own-server")
    before = (pflow_home / "config" / "mcp-servers.toml").read_bytes()
    ran = pflow("mcp", "demo", "--json")
    assert ran.exit_code == 2
    assert ran.envelope["error"]["type"] == "config"
    assert "pflow mcp remove demo" in ran.envelope["error"]["suggestions"][0]
    assert (pflow_home / "config" / "mcp-servers.toml").read_bytes() == before
