import json
import threading

import pocketflow
import pytest
from workflow_parts import trace_of

from pflow_mcp_plugin.contract import PflowError, RunControl
from pflow_mcp_plugin.host.workflow import WorkflowPlace

DOUBLE = {
    "inputs": {"n": {"type": "int"}},
    "nodes": [
        {"id": "first", "type": "t-add", "params": {"a": "${n}", "b": "${n}"}},
        {"id": "second", "type": "t-add", "params": {"a": "${first.sum}", "b": 0}},
    ],
    "outputs": {"twice": "${second.sum}"},
}

ECHO = {"id": "e", "type": "echo", "params": {"message": 1}}


@pytest.fixture
def add(bench):
    """A node that adds `a` and `b`; it fails where its sum is in the list returned."""
    bad = []

    @bench.node("t-add", ["a: int!", "b: int!"], ["sum: int"], actions=("default", "error", "timeout"))
    class Add(pocketflow.Node):
        def prep(self, shared):
            run = shared["__run__"]
            run.annotate(self.params["__node_id__"], {"run": run.run_id})
            run.report_progress(self.params["__node_id__"], 1, 2, "half")
            return self.params["a"], self.params["b"]

        def exec(self, numbers):
            if sum(numbers) in bad:
                raise PflowError(f"{sum(numbers)} is bad", action="timeout", ran="not ran", retryable=True)
            return sum(numbers)

        def post(self, shared, prep_res, exec_res):
            shared["sum"] = exec_res
            return "default"

    return bad


def step(workflow, node_id="double", **params):
    return {"id": node_id, "type": "workflow", "params": {"workflow": workflow, **params}}


def test_saved_workflows_and_files_run_as_steps(bench, add, tmp_path):
    bench.host.library.save("double", DOUBLE)
    (tmp_path / "again.json").write_text(json.dumps({"nodes": [step("double", n=4)]}))
    runner = bench.host.runner.at(WorkflowPlace(file=tmp_path / "top.json"))
    assert runner.run({"nodes": [step("again.json")]}, {}).outputs["twice"] == 8


def test_what_a_sub_workflow_writes_stays_inside(bench, add):
    inner = {**DOUBLE, "mappings": {"first": {"output_mappings": {"sum": "total"}}}}
    show = {"id": "show", "type": "echo", "params": {"message": "${total}"}}
    workflow = {"nodes": [step(inner, n=4), show], "template_resolution_mode": "permissive"}
    assert bench.run(workflow).outputs == {"message": "${total}"}


def test_a_failure_is_retried_only_if_nothing_was_done_before_it(bench, add):
    add.append(8)
    retried = {"retry": {"max": 2, "wait": 0}}
    trace = trace_of(bench.run({"nodes": [{**step(DOUBLE, n=4), **retried}]}))
    assert trace["steps"][0]["details"]["retries"] == 2
    before = {"id": "zero", "type": "t-add", "params": {"a": 0, "b": 0}}
    late = {**DOUBLE, "nodes": [before, *DOUBLE["nodes"]]}
    failed = bench.run({"nodes": [{**step(late, n=4), **retried}]})
    assert "retries" not in trace_of(failed)["steps"][0]["details"]
    assert (failed.error.retryable, failed.error.ran) == (False, "ran")


def test_nothing_inside_runs_if_the_store_holds_a_wrong_value_for_an_input(bench, add):
    @bench.acts("t-word", [], ["n"])
    def word_node(shared, params):
        shared["n"] = "word"

    inner = {**DOUBLE, "nodes": [{"id": "e", "type": "echo", "params": {"message": "x"}}, *DOUBLE["nodes"]]}
    workflow = {"enable_namespacing": False, "nodes": [{"id": "w", "type": "t-word"}, step(inner)]}
    outcome = bench.run(workflow)
    assert outcome.error.ran == "not ran"
    (_, failed) = trace_of(outcome)["steps"]
    assert not failed.get("steps")


def test_a_sub_workflow_cannot_write_reserved_names(bench):
    inner = {"nodes": [ECHO], "outputs": {"__run__": "${e.message}"}}
    assert bench.run({"nodes": [step(inner), {**ECHO, "id": "after"}]}).outputs == {"message": 1}


def test_a_plugin_adds_details_to_a_step_inside_by_the_run_that_it_was_given(bench):
    runs = []

    def pflow_run_context(run):
        runs.append(run)

    bench.plug(pflow_run_context=pflow_run_context)

    @bench.acts("t-tell", [], [])
    def tell(shared, params):
        runs[0].annotate(params["__node_id__"], {"told": True})

    inner = {"nodes": [{"id": "a", "type": "t-tell"}]}
    [outer] = trace_of(bench.run({"nodes": [step({"nodes": [step(inner, "mid")]}, "outer")]}))["steps"]
    [mid] = outer["steps"]
    assert mid["steps"][0]["details"] == {"told": True}
    assert "told" not in mid.get("details", {}) | outer.get("details", {})


def test_a_result_of_a_whole_workflow_is_kept_if_all_its_nodes_only_read(bench):
    ran = []

    @bench.node("t-read", ["n: int!"], ["n: int"])
    class Read(pocketflow.Node):
        def prep(self, shared):
            ran.append(self.params["n"])

        def post(self, shared, prep_res, exec_res):
            shared["n"] = self.params["n"]

    import attrs

    bench.known["t-read"] = attrs.evolve(bench.known["t-read"], purity="flow_safe")
    inner = {"inputs": {"n": {}}, "nodes": [{"id": "r", "type": "t-read", "params": {"n": "${n}"}}]}
    workflow = {"nodes": [{**step(inner, n=1), "cache": True}]}
    assert bench.run(workflow).outputs == bench.run(workflow).outputs == {"n": 1}
    assert ran == [1]
    longer = {**inner, "nodes": [*inner["nodes"], {"id": "e", "type": "echo", "params": {"message": 2}}]}
    assert bench.run({"nodes": [{**step(longer, n=1), "cache": True}]}).outputs == {"message": 2}
    assert ran == [1, 1]


def test_an_endless_loop_inside_is_stopped(bench):
    nodes = [{"id": "a", "type": "t-spin"}, {"id": "b", "type": "t-spin"}]

    @bench.node("t-spin", actions=("default", "out"))
    class Spin(pocketflow.Node):
        pass

    edges = [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}]
    outcome = bench.run({"nodes": [step({"nodes": nodes, "edges": edges}, "o")]})
    assert "stopped after 1,000 steps in the loop o/" in outcome.error.message


def each(workflow, items, node_id="each", **settings):
    node = step(workflow, node_id, n="${item}")
    return {"nodes": [{**node, "batch": {"items": items, **settings}}]}


@pytest.mark.parametrize("parallel", [False, True])
def test_a_batch_runs_a_workflow_for_each_item(bench, add, parallel):
    outputs = bench.run(each(DOUBLE, [1, 2, "3"], parallel=parallel)).outputs
    assert outputs["results"] == [{"twice": 2}, {"twice": 4}, {"twice": 6}]
    assert (outputs["count"], outputs["succeeded"], outputs["failed"]) == (3, 3, 0)


def test_failed_items_of_a_batch_inside_the_item_of_another_are_named(bench, add):
    add.append(4)
    inside = {"items": "${n}", "error_handling": "continue"}
    total = {"id": "sum", "type": "t-add", "params": {"a": "${item}", "b": 2}, "batch": inside}
    assert bench.run(each({"inputs": {"n": {}}, "nodes": [total]}, [[1], [1, 2]])).success
    assert [it.message for it in bench.warnings] == ["each/sum[1]: 1 of 2 items failed: each/sum[1][1]"]


def test_a_step_waits_while_one_inside_it_waits_for_a_preparation(bench):
    @bench.acts("t-wait")
    def wait(shared, params):
        prepared = shared["__run__"].begin_preparation("program", [params["__node_id__"]])
        sum(range(100_000))
        prepared("")

    inner = {"inputs": {"n": {}}, "nodes": [{"id": "w", "type": "t-wait"}]}
    outcome = bench.run({"nodes": [step(inner, "o", n=1), *each(inner, [1])["nodes"]]})
    for traced, inside in (
        (it, it.get("steps") or it["items"][0]["steps"]) for it in trace_of(outcome)["steps"]
    ):
        assert traced["milliseconds"] > traced["waited"] > 0
        assert inside[0]["waited"] == traced["waited"]
    assert [it["label"] for it in trace_of(outcome)["preparations"]] == ["program", "program"]


@pytest.mark.slow
def test_batches_inside_batches_do_not_multiply_their_threads(bench):
    seen = []

    @bench.acts("t-count", ["n: any"])
    def count(shared, params):
        seen.append(threading.active_count())

    inner = {"inputs": {"n": {}}, "nodes": [{"id": "c", "type": "t-count", "params": {"n": "${item}"}}]}
    wide = {"parallel": True, "max_concurrent": 1_000}
    inner["nodes"][0]["batch"] = {"items": list(range(20)), **wide}
    before = threading.active_count()
    outputs = bench.run(each(inner, list(range(200)), parallel=True, max_concurrent=200)).outputs
    assert outputs["succeeded"] == 200
    assert len(seen) == 4_000
    assert max(seen) - before <= 1_000


def test_progress_of_a_batch_counts_its_items_only(bench, add):
    told = []
    bench.host.runner.run(each(DOUBLE, [1, 2]), {}, control=RunControl(told.append))
    said = [progress.message for progress in told]
    assert said == ["node each", "node each: 1 of 2 items", "node each: 2 of 2 items", "node each done"]


def test_alone_the_node_says_that_it_needs_a_workflow():
    from pflow_mcp_plugin.host.running.flow import SubRun

    with pytest.raises(PflowError, match="can only run as a part of a workflow"):
        SubRun().run({})
