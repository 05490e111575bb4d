"""Workflows that run in others, with real servers."""

from __future__ import annotations

import json
import sys

import pytest
from workflow_parts import step

STEP = {
    "inputs": {"n": {"type": "int"}, "text": {"type": "str", "default": "a b"}},
    "nodes": [
        step("add", "mcp-counted-add", {"a": "${n}", "b": 1}),
        step("say", "mcp-counted-echo", {"value": "${text} ${add.result}"}),
        step("keep", "echo", {"message": "${say.result.value}"}),
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


ONCE = step("once", "workflow", {"workflow": STEP, "n": 10, "text": "x"})


def test_a_batch_over_a_workflow_of_three_steps_starts_its_server_once(
    pflow, tmp_path, workflow, starts, no_leftovers
):
    (tmp_path / "step.json").write_text(json.dumps(STEP))
    items = {"items": "${numbers}", "parallel": True, "error_handling": "continue"}
    path = workflow(
        step("each", "workflow", {"workflow": "step.json", "n": "${item}"}, batch=items),
        ONCE,
        inputs={"numbers": {"type": "list"}},
        outputs={"items": "${each.items}", "once": "${once.said}"},
    )
    ran = pflow("run", path, "numbers=[1, 2, 3, 4]", "--json")
    assert ran.exit_code == 0, ran.stderr
    outputs = ran.envelope["data"]["outputs"]
    assert [(item["item"], item["result"]) for item in outputs["items"]] == [
        (number, {"said": f"a b {number + 1}"}) for number in (1, 2, 3, 4)
    ]
    assert outputs["once"] == "x 11"
    assert starts() == 1
    trace = pflow("trace", "show", "--json").envelope["data"]
    inside = trace["steps"][0]["items"][0]["steps"][0]
    details = inside["details"]
    assert (inside["id"], details["server"], details["tool"]) == ("each/add", "counted", "add")
    assert trace["steps"][1]["steps"][1]["details"]["arguments"] == {"value": "x 11"}


def test_a_tool_that_changed_is_refused_inside_too(pflow, tmp_path, workflow, starts):
    path = workflow(ONCE)
    assert pflow("mcp", "lock").exit_code == 0
    assert pflow("run", path, "--locked").exit_code == 0
    lock = next(tmp_path.glob("**/mcp-lock.toml"))
    lock.write_text("".join(line for line in lock.read_text().splitlines(keepends=True) if "add" not in line))
    refused = pflow("run", path, "--locked", "--json")
    assert refused.exit_code == 2, refused.stdout
