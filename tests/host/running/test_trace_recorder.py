import json
from types import SimpleNamespace
from unittest.mock import ANY

import pytest

from pflow_mcp_plugin.contract import Entry, NodeRef, PflowError
from pflow_mcp_plugin.host.running.trace_recorder import Preparation, Recorder, Step
from pflow_mcp_plugin.redaction import Redactor


def ref(node_id, node_type="t-x"):
    entry = Entry(node=node_type, class_name="X", module="m", description="")
    return NodeRef(id=node_id, type=node_type, entry=entry, host=None)


@pytest.fixture
def recorder():
    return Recorder("r-1", "wf", Redactor(["hunter2hunter2"]))


@pytest.mark.parametrize(
    ("begin", "took", "waited"),
    [(0, 100, 0), (0, 150, 50), (120, 30, 30), (120, None, 180), (250, 100, 50), (301, None, 0)],
)
def test_a_step_has_waited_for_the_part_of_a_preparation_that_lies_in_it(begin, took, waited):
    start = Preparation("server s", frozenset({"a"}), offset=begin, milliseconds=took)
    assert start.overlap(Step(ref("a"), offset=100.0), now=300.0) == waited
    assert start.overlap(Step(ref("b"), offset=100.0), now=300.0) == 0


def test_whoever_watches_a_step_end_sees_no_secret_in_its_error(recorder):
    step = recorder.begin(ref("a"))
    step.error = "no hunter2hunter2"
    recorder.end(step)
    assert step.error == "no ***"


def test_the_trace_has_a_fixed_form(recorder, tmp_path):
    recorder.given({"key": "hunter2hunter2"})
    recorder.prepare("server hunter2hunter2", ["outer"])("lost hunter2hunter2")
    outer = recorder.begin(ref("outer", "workflow"))
    inside = recorder.inside("outer")
    inner = inside.begin(ref("outer/in"))
    inner.params, inner.outputs, inner.action = {"n": 1}, {"n": 2}, "default"
    inside.annotate("outer/in", {"tool": "t"})
    inside.end(inner)
    each = recorder.begin(ref("each"))
    for index in (1, 0):
        one, item = recorder.item(ref("each"))
        one.annotate("each", {"tool": f"t{index}"})
        item.error = "a hunter2hunter2" if index else None
        recorder.end_item(item)
        recorder.keep("each", index, item)
    for step in (outer, each):
        recorder.end(step)
    recorder.outputs = {"n": 2}
    path = recorder.write(tmp_path, PflowError("no"))
    assert path == tmp_path / "r-1.json"
    trace = json.loads(path.read_text())
    took = {"offset": ANY, "milliseconds": ANY}
    rest = {"action": None, "params": None, "outputs": None, "error": None, "details": {}, **took}
    within = {"action": "default", "params": {"n": 1}, "outputs": {"n": 2}, "details": {"tool": "t"}}
    inner = {**rest, "id": "outer/in", "type": "t-x", **within}
    item = {"params": None, "outputs": None, **took}
    items = [
        {"index": 0, **item, "error": None, "details": {"tool": "t0"}},
        {"index": 1, **item, "error": "a ***", "details": {"tool": "t1"}},
    ]
    start = {"label": "server ***", "error": "lost ***", **took}
    assert trace == {
        "run_id": "r-1",
        "workflow": "wf",
        "started": ANY,
        "milliseconds": ANY,
        "success": False,
        "error": PflowError("no").to_dict(),
        "inputs": {"key": "***"},
        "outputs": {"n": 2},
        "preparations": [start],
        "steps": [
            {"id": "outer", "type": "workflow", **rest, "steps": [inner]},
            {"id": "each", "type": "t-x", **rest, "items": items},
        ],
    }
    steps = trace["steps"]
    assert 0 <= steps[0]["offset"] <= steps[1]["offset"] <= steps[1]["offset"] + steps[1]["milliseconds"]
    assert steps[1]["offset"] + steps[1]["milliseconds"] <= trace["milliseconds"] + 0.01


@pytest.mark.parametrize(("within", "most"), [(False, 10), (True, 2)])
def test_some_items_of_a_batch_are_kept_of_those_that_failed_and_of_the_others(recorder, within, most):
    recorder.begin(ref("each"))
    if within:
        recorder, step = recorder.item(ref("each"))
    else:
        (step,) = recorder.steps
    for index in range(30):
        recorder.keep("each", index, Step(ref("each"), error="no" if index >= 15 else None))
    assert sorted(step.items) == [*range(most), *range(15, 15 + most)]
    recorder.keep("unknown", 0, Step(ref("unknown")))


def test_the_times_of_a_batch_are_milliseconds_since_the_run_began(recorder):
    began = recorder._began
    kept = recorder.times_of([(1, began + 0.25, began + 1.0, False), (0, began, began + 0.5, True)])
    assert kept == [[0, 0.0, 500.0, True], [1, 250.0, 750.0, False]]
    kept = recorder.times_of([(number, began, began, number < 300) for number in range(1000)])
    assert (len(kept), sum(fine for *_, fine in kept)) == (250, 125)
    assert [number for number, *_ in kept][:3] == [0, 2, 4]
    kept = recorder.times_of([(number, began, began, number % 40 != 0) for number in range(1000)])
    assert [number for number, *_, fine in kept if not fine] == [*range(0, 1000, 40)]
    assert (len(kept), kept) == (250, sorted(kept))


def test_what_was_done_is_in_the_order_in_which_each_node_last_succeeded(recorder):
    for node_id, error in [("a", None), ("b", None), ("a", None), ("w", "no"), ("c", "no")]:
        step = recorder.begin(ref(node_id))
        step.action, step.error = "default", error
        if node_id == "w":
            inner = recorder.inside("w").begin(ref("w/in"))
            inner.action = "default"
    recorder.begin(ref("running"))
    assert [node.id for node in recorder.done] == ["b", "a", "w/in"]


def test_a_loop_in_an_item_of_a_batch_does_not_fill_the_trace(recorder):
    inner, _ = recorder.item(ref("each"))
    deeper, _ = inner.item(ref("each"))
    for number in range(2_000):
        (inner if number % 2 else deeper).begin(ref(f"s{number}"))
    assert len(inner.steps) + len(deeper.steps) == 1_000
    assert recorder.steps == []


def test_whoever_watches_a_run_is_told_of_its_steps_but_not_of_those_of_items():
    told = []

    watcher = SimpleNamespace(
        step_began=lambda step: told.append(f"{step.node.id} began"),
        step_ended=lambda step: told.append(f"{step.node.id} ended"),
        preparing=lambda preparation: told.append(preparation.label),
        prepared=lambda preparation: told.append(preparation.error),
    )
    recorder = Recorder("r", "wf", Redactor(), watcher=watcher)
    end = recorder.prepare("server s", ())
    step = recorder.begin(ref("each"))
    inner, item = recorder.item(ref("each"))
    inner.end(inner.begin(ref("each/in")))
    inner.end_item(item)
    recorder.end(step)
    end("")
    assert told == ["server s", "each began", "each ended", None]
