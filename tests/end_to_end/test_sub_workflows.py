"""Workflows that run in others, with real servers."""

from __future__ import annotations

import json
import sys

import pytest

STEP = {
    "inputs": {"n": {"type": "int"}, "text": {"type": "str", "default": "a b"}},
    "nodes": [
        {"id": "add", "type": "mcp-counted-add", "params": {"a": "${n}", "b": 1}},
        {"id": "say", "type": "mcp-counted-echo", "params": {"value": "${text} ${add.result}"}},
        {"id": "keep", "type": "echo", "params": {"message": "${say.result.value}"}},
    ],
    "outputs": {"said": "${keep.message}"},
}
COUNTED = (
    "import sys, runpy; open(sys.argv[1], 'a').write('start\\n'); "
    "runpy.run_module('pflow_mcp_plugin.server.demo_server', run_name='__main__')"
)


@pytest.fixture
def starts(pflow, tmp_path):
    """Return what counts the starts of the server `counted`."""
    log = tmp_path / "starts"
    added = pflow("mcp", "add", "counted", "--", sys.executable, "-c", COUNTED, str(log))
    assert added.exit_code == 0, added.stderr
    assert pflow("mcp", "sync", "counted").exit_code == 0
    log.write_text("")
    return lambda: log.read_text().count("start")


def nodes(*, workflow="step.json"):
    runs = {"type": "workflow", "params": {"workflow": workflow, "n": "${item}"}}
    batch = {"items": "${numbers}", "parallel": True, "error_handling": "continue"}
    once = {"id": "once", "type": "workflow", "params": {"workflow": workflow, "n": 10, "text": "x"}}
    return [{"id": "each", **runs, "batch": batch}, once]


def test_a_batch_over_a_workflow_of_three_steps_starts_its_server_once(pflow, tmp_path, starts, no_leftovers):
    (tmp_path / "step.json").write_text(json.dumps(STEP))
    workflow = {
        "inputs": {"numbers": {"type": "list"}},
        "nodes": nodes(),
        "outputs": {"items": "${each.items}", "once": "${once.said}"},
    }
    (tmp_path / "top.json").write_text(json.dumps(workflow))
    ran = pflow("run", "top.json", "numbers=[1, 2, 3, 4]", "--json")
    assert ran.exit_code == 0, ran.stderr
    outputs = ran.envelope["data"]["outputs"]
    assert [(item["item"], item["result"]) for item in outputs["items"]] == [
        (number, {"said": f"a b {number + 1}"}) for number in (1, 2, 3, 4)
    ]
    assert outputs["once"] == "x 11"
    assert starts() == 1
    trace = pflow("trace", "show", "--json").envelope["data"]
    inside = trace["steps"][0]["items"][0]["steps"][0]
    assert (inside["id"], inside["details"]["server"], inside["details"]["tool"]) == (
        "each/add",
        "counted",
        "add",
    )
    assert trace["steps"][1]["steps"][1]["details"]["arguments"] == {"value": "x 11"}


def test_a_saved_workflow_with_another_inside_is_served_and_exported(pflow, tmp_path, starts):
    (tmp_path / "step.json").write_text(json.dumps(STEP))
    assert pflow("workflow", "save", "step.json", "--name", "step").exit_code == 0
    top = {
        "inputs": {"numbers": {"type": "list"}},
        "nodes": nodes(workflow="step"),
        "outputs": {"o": "${once}"},
    }
    (tmp_path / "top.json").write_text(json.dumps(top))
    assert pflow("workflow", "save", "top.json", "--name", "top").exit_code == 0
    assert pflow("run", "top", "numbers=[]", "--json").envelope["data"]["outputs"]["o"]["said"] == "x 11"
    program = pflow("workflow", "export-python", "top").stdout
    assert "'workflow': {" in program
    assert pflow("workflow", "delete", "step").exit_code == 0
    broken = pflow("validate", "top", "--json")
    problems = broken.envelope["error"]["details"]["problems"]
    assert [problem["path"] for problem in problems] == ["$.nodes[0].params.workflow"]
    assert "No workflow is saved as step" in problems[0]["message"]


def test_a_tool_that_changed_is_refused_inside_too(pflow, tmp_path, starts):
    (tmp_path / "top.json").write_text(json.dumps({"nodes": [nodes(workflow=STEP)[1]]}))
    assert pflow("mcp", "lock").exit_code == 0
    assert pflow("run", "top.json", "--locked").exit_code == 0
    lock = next(tmp_path.glob("**/mcp-lock.toml"))
    lock.write_text("".join(line for line in lock.read_text().splitlines(keepends=True) if "add" not in line))
    refused = pflow("run", "top.json", "--locked", "--json")
    assert refused.exit_code == 2, refused.stdout
