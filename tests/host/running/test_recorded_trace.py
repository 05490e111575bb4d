"""The trace of a run that was killed says what was known at that moment, and shows no secret."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from functools import partial

import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.host.running.recorded_trace import complete_traces, trace_of
from pflow_mcp_plugin.host.running.run_record import RecordedStep, RunRecord
from pflow_mcp_plugin.host.trace_files import TraceFiles, run_state, traced_steps
from pflow_mcp_plugin.redaction import REDACTED

SECRET = "planted-4711-secret"


@pytest.fixture
def copied(bench, tmp_path):
    """Copy the records of runs as they are at this moment, so as a kill would leave them."""
    return lambda: shutil.copytree(bench.host.paths.state / "runs", tmp_path / "runs")


@pytest.fixture
def killed(bench, tmp_path, copied):
    """Run a workflow; return its trace as if it had been killed when a node copied the records."""
    bench.acts("t-end", ["value"], ["value"])(lambda shared, params: copied() and None)

    @bench.acts("t-do", ["value"], ["value"])
    def do(shared, params):
        shared["value"] = [params["value"]] * 2

    def run(workflow, **inputs):
        bench.run(workflow, **inputs)
        files = TraceFiles(tmp_path / "traces", partial(complete_traces, tmp_path / "runs"))
        (path,) = files.paths()
        return files.read(path)

    return run


def test_it_has_the_steps_that_ended_and_the_one_that_was_open(killed):
    nodes = step("a", "t-do", {"value": 1}), step("b", "t-end", {"value": "x"})
    trace = killed(flow(*nodes, inputs={"given": {"default": "yes"}}))
    done, open_ = trace["steps"]
    assert (done["id"], done["type"], done["action"], done["error"]) == ("a", "t-do", "default", None)
    assert (done["params"], done["outputs"]["value"]) == ({"value": 1}, [1, 1])
    assert (open_["id"], open_["params"], open_["details"]) == ("b", {"value": "x"}, {"step": "b"})
    assert "nobody knows" in open_["error"]
    assert (run_state(trace), trace["inputs"]) == ("interrupted", {"given": "yes"})
    assert trace["milliseconds"] >= open_["offset"] >= done["milliseconds"] > 0
    assert trace["error"]["suggestions"] == [f"To go on with it: pflow resume {trace['run_id']}"]


@pytest.mark.parametrize("inside", [False, True])
def test_a_batch_has_the_items_that_ended_and_those_that_were_open(killed, bench, copied, inside):
    @bench.acts("t-some", ["value"], ["value"])
    def some(shared, params):
        if params["value"] == 1:
            raise ValueError("no ones")
        if params["value"] == 2:
            copied()

    params, batch = {"value": "${item}"}, {"items": [0, 1, 2, 3], "error_handling": "continue"}
    first, node = step("a", "t-do", params, batch={"items": [5, 6]}), step("b", "t-some", params)
    if inside:
        inner = flow({**node, "id": "c"}, inputs={"item": {"type": "any"}})
        node = step("b", "workflow", {"workflow": inner, "item": "${item}"})
    trace = killed(flow(first, {**node, "batch": batch}))
    ended, begun = trace["steps"]
    assert [item["outputs"]["value"] for item in ended["items"]] == [[5, 5], [6, 6]]
    assert [item["index"] for item in begun["items"]] == [0, 1, 2]
    zero, one, two = begun["items"]
    assert (zero["error"], two["params"], two["milliseconds"]) == (None, {"value": 2}, None)
    states = [item.state for item in traced_steps(trace)[-1].item_steps]
    assert states == ["ok", "failed", "interrupted"]
    assert "no ones" in one["error"]
    assert "nobody knows" in two["error"]
    assert begun["details"]["batch"].items() >= {"count": 4, "succeeded": 1, "failed": 1}.items()


def test_steps_inside_a_workflow_are_inside_its_step(killed):
    inner = flow(step("one", "t-do", {"value": 1}), step("two", "t-end", {"value": 2}))
    (outer,) = killed(flow(step("outer", "workflow", {"workflow": inner})))["steps"]
    assert (outer["id"], outer["error"]) == ("outer", "interrupted")
    one, two = outer["steps"]
    assert (one["id"], one["outputs"]["value"]) == ("outer/one", [1, 1])
    assert (two["id"], two["params"]) == ("outer/two", {"value": 2})
    assert two["details"] == {"step": "outer/two"}


def test_what_becomes_known_as_a_secret_later_is_not_in_it(killed, bench):
    bench.acts("t-tell", ["value"])(lambda shared, params: shared["__run__"].add_secrets([SECRET]))
    value = {"value": f"a {SECRET} b"}
    workflow = flow(
        step("a", "t-do", {"value": "${given}"}),
        step("all", "t-do", {"value": "${item} ${given}"}, batch={"items": [1, 2]}),
        step("tell", "t-tell", {"value": "now"}),
        step("later", "t-do", value),
        step("b", "t-end", value),
        inputs={"given": {"required": True}},
    )
    trace = killed(workflow, given=SECRET)
    assert SECRET not in json.dumps(trace)
    assert trace["inputs"] == {"given": REDACTED}
    assert trace["steps"][0]["outputs"]["value"] == [REDACTED] * 2
    values = [item["params"]["value"] for item in trace["steps"][1]["items"]]
    assert values == [f"1 {REDACTED}", f"2 {REDACTED}"]
    assert trace["steps"][-1]["params"] == {"value": f"a {REDACTED} b"}


def test_a_run_that_ended_keeps_its_own_trace(bench, killed):
    bench.acts("t-fail", ["value"])(lambda shared, params: 1 / 0)
    failed = bench.run(flow(step("a", "t-do", {"value": 1}), step("b", "t-fail", {"value": 2})))
    before = failed.trace_path.read_bytes()
    assert bench.host.traces.find() == failed.trace_path
    assert failed.trace_path.read_bytes() == before


def test_a_trace_that_was_made_is_made_again_only_after_the_record_changed(killed, tmp_path):
    killed(flow(step("a", "t-do", {"value": 1}), step("b", "t-end", {"value": 2})))
    files = TraceFiles(tmp_path / "traces", partial(complete_traces, tmp_path / "runs"))
    (record,) = (tmp_path / "runs").rglob("*.db")
    os.utime(record, (1, 1))
    files.find().write_text("kept")
    assert files.find().read_text() == "kept"
    record.touch()
    assert files.find().read_text() != "kept"


def test_a_killed_run_is_as_old_as_its_last_known_moment(killed, tmp_path):
    trace = killed(flow(step("b", "t-end", {"value": 2})))
    (made,) = (tmp_path / "traces").iterdir()
    began = datetime.fromisoformat(trace["started"]).timestamp()
    assert made.stat().st_mtime == pytest.approx(began + trace["milliseconds"] / 1000, abs=0.01)
    later = made.with_name("later.json")
    later.write_text('{"run_id": "later", "steps": []}')
    made.unlink()  # so that it is made once more, after the other one
    files = TraceFiles(tmp_path / "traces", partial(complete_traces, tmp_path / "runs"))
    assert files.paths() == [later, made]


@pytest.mark.parametrize(
    "head",
    ["no json", "7", '{"inputs": {}, "started": "x"}', '{"inputs": 7, "started": "20260101"}'],
)
def test_a_damaged_record_is_named_and_the_others_have_their_traces(killed, bench, tmp_path, head):
    killed(flow(step("b", "t-end", {"value": 2})))
    (record,) = (tmp_path / "runs").rglob("*.db")
    for name in ("bad", "good"):
        shutil.copy(record, bench.host.paths.state / "runs" / "open" / f"{name}.db")
    with closing(sqlite3.connect(bench.host.paths.state / "runs" / "open" / "bad.db")) as connection:
        connection.execute("UPDATE run SET value = ? WHERE name = 'trace'", (head,))
        connection.commit()
    names = [path.stem for path in bench.host.traces.paths()]
    assert ("good" in names, "bad" in names) == (True, False)
    (warning,) = bench.warnings
    reasons = ("what it says of the run is not JSON", "its data for the trace was not written by pflow")
    assert warning.message.startswith(tuple(f"The record of run bad cannot be read: {it}" for it in reasons))


@pytest.mark.parametrize("place", ["a", "a#2~3"])
def test_an_open_step_is_shown_wherever_it_stands(tmp_path, place):
    head = {"name": "w", "trace": {"run_id": "run-1", "inputs": {}}}
    record = RunRecord.create(tmp_path, "run-1", head)
    begun = step("a", "t", offset=1.0)
    record.put_entry(begun, None, None, None, soon=False)
    record.sent([RecordedStep(place=place, node="a", type="t", identity="", safe=False, shown='{"x": 1}')])
    trace = trace_of(record)
    record.close()
    assert trace is not None
    (shown,) = trace["steps"]
    assert (shown["params"], shown["details"]) == ({"x": 1}, {"step": place})
