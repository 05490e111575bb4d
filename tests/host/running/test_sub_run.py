import threading

import pocketflow
import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import PflowError, RunControl
from pflow_mcp_plugin.host.running import current_run
from pflow_mcp_plugin.host.running.flow import SubRun

DOUBLE = flow(
    step("first", "t-add", {"a": "${n}", "b": "${n}"}),
    step("second", "t-add", {"a": "${first.sum}", "b": 0}),
    inputs={"n": {"type": "int"}},
    outputs={"twice": "${second.sum}"},
)
ECHO = step("e", "echo", {"message": 1})


@pytest.fixture
def add(bench):
    """A node that adds `a` and `b`; it fails where its sum is in the list returned."""
    bad = []

    @bench.acts("t-add", ["a: int!", "b: int!"], ["sum: int"], actions=("default", "error", "timeout"))
    def add_node(shared, params):
        shared["__run__"].report_progress(params["__node_id__"], 1, 2, "half")
        shared["sum"] = params["a"] + params["b"]
        if shared["sum"] in bad:
            raise PflowError(f"{shared['sum']} is bad", action="timeout", ran="not ran", retryable=True)

    return bad


def inside(workflow, node_id="double", **params):
    return step(node_id, "workflow", {"workflow": workflow, **params})


def test_what_a_sub_workflow_writes_stays_inside(bench, add):
    inner = {**DOUBLE, "mappings": {"first": {"output_mappings": {"sum": "total"}}}}
    show = step("show", "echo", {"message": "${total}"})
    workflow = flow(inside(inner, n=4), show, template_resolution_mode="permissive")
    assert bench.run(workflow).outputs == {"message": "${total}"}


def test_a_failure_is_retried_only_if_nothing_was_done_before_it(bench, add):
    add.append(8)
    retry = {"max": 2, "wait": 0}
    trace = trace_of(bench.run(flow({**inside(DOUBLE, n=4), "retry": retry})))
    assert trace["steps"][0]["details"]["retries"] == 2
    late = {**DOUBLE, "nodes": [step("zero", "t-add", {"a": 0, "b": 0}), *DOUBLE["nodes"]]}
    failed = bench.run(flow({**inside(late, n=4), "retry": retry}))
    assert "retries" not in trace_of(failed)["steps"][0]["details"]
    assert (failed.error.retryable, failed.error.ran) == (False, "ran")


def test_nothing_inside_runs_if_the_store_holds_a_wrong_value_for_an_input(bench, add):
    bench.acts("t-word", [], ["n"])(lambda shared, params: shared.update(n="word"))
    inner = {**DOUBLE, "nodes": [ECHO, *DOUBLE["nodes"]]}
    outcome = bench.run(flow(step("w", "t-word"), inside(inner), enable_namespacing=False))
    assert outcome.error.ran == "not ran"
    (_, failed) = trace_of(outcome)["steps"]
    assert not failed.get("steps")


def test_a_sub_workflow_cannot_write_reserved_names(bench):
    inner = flow(ECHO, outputs={"__run__": "${e.message}"})
    assert bench.run(flow(inside(inner), {**ECHO, "id": "after"})).outputs == {"message": 1}


def test_a_plugin_adds_details_to_a_step_inside_by_the_run_that_it_was_given(bench):
    runs = []

    def keep(run):
        runs.append(run)

    bench.plug(pflow_run_context=keep)

    @bench.acts("t-tell", [], [])
    def tell(shared, params):
        runs[0].annotate(params["__node_id__"], {"told": True})

    middle = flow(inside(flow(step("a", "t-tell")), "mid"))
    [outer] = trace_of(bench.run(flow(inside(middle, "outer"))))["steps"]
    [mid] = outer["steps"]
    assert mid["steps"][0]["details"] == {"told": True}
    assert "told" not in mid.get("details", {}) | outer.get("details", {})


def test_a_result_of_a_whole_workflow_is_kept_if_all_its_nodes_only_read(bench, sent):
    inner = flow(step("r", "t-look", {"value": "${n}"}), inputs={"n": {}})
    workflow = flow({**inside(inner, n=1), "cache": True})
    assert bench.run(workflow).outputs == bench.run(workflow).outputs == {"value": 1}
    assert sent == [1]
    longer = {**inner, "nodes": [*inner["nodes"], ECHO]}
    assert bench.run(flow({**inside(longer, n=1), "cache": True})).outputs == {"message": 1}
    assert sent == [1, 1]


def test_an_endless_loop_inside_is_stopped(bench):
    bench.node("t-spin", actions=("default", "out"))(pocketflow.Node)
    spinning = flow(step("a", "t-spin"), step("b", "t-spin"), edges=[edge("a", "b"), edge("b", "a")])
    outcome = bench.run_bounded(30, flow(inside(spinning, "o")), {})
    assert "stopped after 30 steps in the loop o/" in outcome.error.message


def each(workflow, items, node_id="each", **settings):
    return flow({**inside(workflow, node_id, n="${item}"), "batch": {"items": items, **settings}})


def test_failed_items_of_a_batch_inside_the_item_of_another_are_named(bench, add):
    add.append(4)
    batch = {"items": "${n}", "error_handling": "continue"}
    total = step("sum", "t-add", {"a": "${item}", "b": 2}, batch=batch)
    assert bench.run(each(flow(total, inputs={"n": {}}), [[1], [1, 2]])).success
    assert [it.message for it in bench.warnings] == ["each/sum[1]: 1 of 2 items failed: each/sum[1][1]"]


def test_a_step_waits_while_one_inside_it_waits_for_a_preparation(bench):
    @bench.acts("t-wait")
    def wait(shared, params):
        prepared = shared["__run__"].begin_preparation("program", [params["__node_id__"]])
        sum(range(100_000))
        prepared("")

    inner = flow(step("w", "t-wait"), inputs={"n": {}})
    trace = trace_of(bench.run(flow(inside(inner, "o", n=1), *each(inner, [1])["nodes"])))
    for traced in trace["steps"]:
        (within,) = traced.get("steps") or traced["items"][0]["steps"]
        assert traced["milliseconds"] > traced["waited"] > 0
        assert within["waited"] == traced["waited"]
    assert [it["label"] for it in trace["preparations"]] == ["program", "program"]


def test_batches_inside_batches_do_not_multiply_their_threads(bench, monkeypatch):
    monkeypatch.setattr(current_run, "MOST_CONCURRENT", 50)
    seen = []

    @bench.acts("t-count", ["n: any"])
    def count(shared, params):
        seen.append(threading.active_count())

    wide = {"items": list(range(20)), "parallel": True, "max_concurrent": 50}
    inner = flow(step("c", "t-count", {"n": "${item}"}, batch=wide), inputs={"n": {}})
    before = threading.active_count()
    outputs = bench.run(each(inner, list(range(20)), parallel=True, max_concurrent=20)).outputs
    assert (outputs["succeeded"], len(seen)) == (20, 400)
    assert max(seen) - before <= 60  # theirs, and those of the run


def test_progress_of_a_batch_counts_its_items_only(bench, add):
    told = []
    bench.host.runner.run(each(DOUBLE, [1, 2]), {}, control=RunControl(told.append))
    said = [progress.message for progress in told]
    assert said == ["node each", "node each: 1 of 2 items", "node each: 2 of 2 items", "node each done"]


def test_alone_the_node_says_that_it_needs_a_workflow():
    with pytest.raises(PflowError, match="can only run as a part of a workflow"):
        SubRun().run({})
