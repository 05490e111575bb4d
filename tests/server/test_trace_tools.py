"""The tool for traces: the steps of the caller's own runs."""

from __future__ import annotations

import json

import anyio
import pytest

ECHO = {"nodes": [{"id": "say", "type": "echo", "params": {"message": "hello"}}]}


def test_the_latest_trace_shows_each_step(either):
    run = either.call("workflow_execute", workflow=ECHO)
    trace = either.data("trace_read")
    assert trace["run_id"] == run["data"]["run_id"]
    assert trace["steps"][0]["outputs"] == {"message": "hello"} or "hello" in str(
        trace["steps"][0]["outputs"]
    )
    for given in (run["trace_path"], run["data"]["run_id"], "latest"):
        assert either.data("trace_read", trace_file=given)["run_id"] == run["data"]["run_id"]


def test_a_run_that_has_not_ended_is_named_and_no_other_is_taken_for_it(either, root):
    line = f"touch {root}/began; while [ ! -e {root}/go-on ]; do sleep 0.01; done"
    waiting = {"nodes": [{"id": "wait", "type": "shell", "params": {"command": line}}]}
    earlier = either.data("workflow_execute", workflow=ECHO)["run_id"]

    async def conversation(client):
        async def read(run):
            return either.envelope(await client.call_tool("trace_read", {"trace_file": run}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "workflow_execute", {"workflow": waiting})
            await either.until((root / "began").exists)
            latest = (await read("latest"))["data"]
            (run,) = latest["running"]
            unended = (await read(run))["error"]
            (root / "go-on").touch()
        return latest["run_id"], run, unended, (await read("latest"))["data"]

    before, run, unended, after = either.talk(conversation)
    assert (before, after["run_id"], "running" in after) == (earlier, run, False)
    assert (unended["type"], unended["message"]) == ("not_found", f"Run {run} has not ended yet")


def test_no_trace_yet_is_said(served):
    assert served.error("trace_read")["type"] == "not_found"


def test_a_long_trace_and_the_items_of_large_batches_are_shortened(served):
    batch = {"items": ["x" * 1_500] * 20, "as": "text"}
    params = {"message": ["${text}"] * 3}
    nodes = [{"id": f"n{number}", "type": "echo", "params": params, "batch": batch} for number in range(6)]
    long = {"id": "last", "type": "echo", "params": {"message": ["x" * 1_500] * 20}}
    served.data("workflow_execute", workflow={"nodes": [*nodes, long]})
    trace = served.data("trace_read")
    assert len(trace["steps"]) == 7
    assert len(trace["steps"][0]["items"]) == 10
    assert trace["steps"][-2]["items"] == "..."
    assert trace["steps"][-1]["cut"]
    assert len(json.dumps(trace)) < 400_000


@pytest.mark.parametrize("given", ["", "x" * 5_000, "a\x1b[31mb", "a\nb"])
def test_what_cannot_be_the_name_of_a_trace_is_refused_and_shown_in_short(served, given):
    served.data("workflow_execute", workflow=ECHO)
    error = served.error("trace_read", trace_file=given)
    assert error["type"] == "validation"
    assert error["message"].isprintable()
    assert len(error["message"]) < 1_000
