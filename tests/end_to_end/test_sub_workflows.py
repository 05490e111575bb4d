"""Workflows that run in others, with a real server."""

import json

from workflow_parts import flow, step

STEP = flow(
    step("look", "mcp-counted-look", {"text": "${n}"}),
    step("keep", "echo", {"message": "${look.arguments.text}"}),
    inputs={"n": {"type": "int"}},
    outputs={"said": "${keep.message}"},
)


def test_a_batch_over_a_workflow_starts_its_server_once(pflow, scripted, tmp_path, workflow, no_leftovers):
    log, schema = tmp_path / "log", {"type": "object", "properties": {"text": {}}}
    scripted("look", server="counted", schema=schema, env={"LOG": str(log)})
    log.unlink()
    (tmp_path / "step.json").write_text(json.dumps(STEP))
    items = {"items": [1, 2, 3, 4], "parallel": True, "error_handling": "continue"}
    path = workflow(
        step("each", "workflow", {"workflow": "step.json", "n": "${item}"}, batch=items),
        step("once", "workflow", {"workflow": STEP, "n": 10}),
        outputs={"items": "${each.items}", "once": "${once.said}"},
    )
    ran = pflow("run", path, "--json")
    assert ran.exit_code == 0, ran.stderr
    outputs = ran.envelope["data"]["outputs"]
    found = [(item["item"], item["result"]) for item in outputs["items"]]
    assert found == [(number, {"said": number}) for number in (1, 2, 3, 4)]
    assert outputs["once"] == 10
    assert log.read_text().count("start") == 1
    trace = pflow("trace", "show", "--json").envelope["data"]
    inside = trace["steps"][0]["items"][0]["steps"][0]
    details = inside["details"]
    assert (inside["id"], details["server"], details["tool"]) == ("each/look", "counted", "look")
    assert trace["steps"][1]["steps"][0]["details"]["arguments"] == {"text": 10}
