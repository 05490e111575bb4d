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


def test_a_workflow_runs_as_a_step_of_another(bench, add):
    workflow = {
        "nodes": [
            step(DOUBLE, n="4"),
            {"id": "show", "type": "echo", "params": {"message": "${double.twice}"}},
        ],
        "outputs": {"shown": "${show.message}", "whole": "${double}"},
    }
    assert bench.run(workflow).outputs == {"shown": 8, "whole": {"twice": 8, "error": None}}


def test_saved_workflows_and_files_run_as_steps(bench, add, tmp_path):
    bench.host.library.save("double", DOUBLE)
    (tmp_path / "again.json").write_text(json.dumps({"nodes": [step("double", n=4)]}))
    runner = bench.host.runner.at(WorkflowPlace(file=tmp_path / "top.json"))
    assert runner.run({"nodes": [step("again.json")]}, {}).outputs["twice"] == 8


def test_a_node_that_is_skipped_inside_has_null_outputs(bench):
    skipped = {"id": "first", "type": "echo", "when": "false", "params": {"message": "first"}}
    then = {"id": "then", "type": "echo", "params": {"message": ["${first.message}"]}}
    inner = {"nodes": [skipped, then], "outputs": {"first": "${first.message}", "then": "${then.message}"}}
    outputs = {"first": "${double.first}", "then": "${double.then}"}
    ran = bench.run({"nodes": [step(inner)], "outputs": outputs})
    assert ran.outputs == {"first": None, "then": [None]}
    last = {"nodes": [then | {"params": {"message": "then"}}, skipped]}
    assert bench.run({"nodes": [step(last)], "outputs": {"said": "${double}"}}).outputs == {
        "said": {"message": "then", "error": None}
    }


def test_what_a_sub_workflow_writes_stays_inside(bench, add):
    inner = {**DOUBLE, "mappings": {"first": {"output_mappings": {"sum": "total"}}}}
    show = {"id": "show", "type": "echo", "params": {"message": "${total}"}}
    workflow = {"nodes": [step(inner, n=4), show], "template_resolution_mode": "permissive"}
    assert bench.run(workflow).outputs == {"message": "${total}"}


def test_its_steps_are_in_the_trace_inside_its_own(bench, add):
    trace = trace_of(bench.run({"nodes": [step({"nodes": [step(DOUBLE, n=1)]}, "outer")]}))
    [outer] = trace["steps"]
    [double] = outer["steps"]
    assert (outer["id"], outer["type"]) == ("outer", "workflow")
    assert (double["id"], double["params"]) == ("outer/double", {"n": 1})
    assert [(it["id"], it["outputs"]) for it in double["steps"]] == [
        ("outer/double/first", {"sum": 2}),
        ("outer/double/second", {"sum": 2}),
    ]
    assert double["steps"][0]["details"] == {"run": trace["run_id"]}
    assert double["steps"][0]["offset"] >= double["offset"] >= outer["offset"]


def test_a_failure_names_the_step_inside_and_takes_its_action(bench, add):
    add.append(8)
    nodes = [ECHO, step(DOUBLE, n=4)]
    failed = bench.run({"nodes": nodes})
    assert str(failed.error) == (
        "Node double (workflow) failed: Node double/first (t-add) failed: 8 is bad\nDone before it: e (echo)"
    )
    assert (failed.error.action, failed.error.details["node"]) == ("timeout", "double/first")
    assert failed.exit_code == 1
    late = {"id": "late", "type": "echo", "params": {"message": "${double.error}"}}
    edges = [{"from": "e", "to": "double"}, {"from": "double", "to": "late", "action": "timeout"}]
    caught = bench.run({"nodes": [*nodes, late], "edges": edges})
    assert caught.outputs == {"message": "Node double/first (t-add) failed: 8 is bad"}


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


def test_an_optional_input_that_was_not_given_is_not_passed_on(bench):
    inner = {
        "inputs": {"word": {"type": "str", "default": "usual"}},
        "nodes": [{"id": "e", "type": "echo", "params": {"message": "${word}"}}],
    }
    workflow = {"inputs": {"w": {"type": "str", "required": False}}, "nodes": [step(inner, word="${w}")]}
    assert bench.run(workflow).outputs == {"message": "usual"}
    assert bench.run(workflow, w="other").outputs == {"message": "other"}


def test_a_sub_workflow_cannot_write_reserved_names(bench):
    inner = {"nodes": [ECHO], "outputs": {"__run__": "${e.message}"}}
    assert bench.run({"nodes": [step(inner), {**ECHO, "id": "after"}]}).outputs == {"message": 1}


def test_plugins_see_every_node_and_which_are_certain(bench, add):
    injected, runs = [], []

    def see_run(run):
        runs.append(run)

    def see_node(node):
        injected.append(node.id)

    bench.plug(pflow_run_context=see_run, pflow_inject_params=see_node)
    rescue = {"id": "rescue", "type": "t-add", "params": {"a": 0, "b": 0}}
    edges = [{"from": "first", "to": "second"}, {"from": "first", "to": "rescue", "action": "error"}]
    bench.run({"nodes": [step({**DOUBLE, "nodes": [*DOUBLE["nodes"], rescue], "edges": edges}, n=1)]})
    assert sorted(injected) == ["double", "double/first", "double/rescue", "double/second"]
    assert sorted(node.id for node in runs[0].workflow.nodes) == sorted(injected)
    assert runs[0].workflow.certain == {"double", "double/first", "double/second"}


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


def test_progress_counts_the_steps_inside(bench, add):
    told = []
    bench.host.runner.run(
        {"nodes": [step(DOUBLE, n=1), step(DOUBLE, "again", n=1)]}, {}, control=RunControl(told.append)
    )
    assert {progress.total for progress in told} == {2.0}
    shares = [progress.done for progress in told]
    assert shares == sorted(shares)
    assert {0.25, 0.5, 0.75, 1.25} <= set(shares)
    assert "node double/second done" in [progress.message for progress in told]


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


def test_a_run_can_be_cancelled_inside(bench):
    control = RunControl()

    @bench.acts("t-cancel")
    def cancel(shared, params):
        control.cancel()

    outcome = bench.host.runner.run(
        {"nodes": [step({"nodes": [{"id": "c", "type": "t-cancel"}]}, "o")]}, {}, control=control
    )
    assert (outcome.error.kind, outcome.exit_code) == ("interrupted", 130)
    assert "at node o/c" in outcome.error.message


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


def test_failed_items_name_the_step_inside_and_the_others_go_on(bench, add):
    add.append(4)
    outcome = bench.run(each(DOUBLE, [1, 2, 3], error_handling="continue", max_retries=1, retry_wait=0))
    reason = "Node each/first (t-add) failed: 4 is bad"
    assert outcome.outputs["errors"] == [{"index": 1, "item": 2, "error": reason}]
    [traced] = trace_of(outcome)["steps"]
    assert traced["details"]["batch"]["retries"] == 1
    assert [(item["index"], item["error"]) for item in traced["items"]] == [(0, None), (1, reason), (2, None)]
    assert [it["id"] for it in traced["items"][0]["steps"]] == ["each/first", "each/second"]
    assert traced["items"][0]["steps"][0]["outputs"] == {"sum": 2}
    failed = bench.run(each(DOUBLE, [1, 2, 3]))
    assert "Node each (workflow) failed at item each[1] of 3: Node each/first" in failed.error.message


def test_failed_items_of_a_batch_inside_the_item_of_another_are_named(bench, add):
    add.append(4)
    inside = {"items": "${n}", "error_handling": "continue"}
    total = {"id": "sum", "type": "t-add", "params": {"a": "${item}", "b": 2}, "batch": inside}
    assert bench.run(each({"inputs": {"n": {}}, "nodes": [total]}, [[1], [1, 2]])).success
    assert [it.message for it in bench.warnings] == ["each/sum[1]: 1 of 2 items failed: each/sum[1][1]"]


def test_the_trace_keeps_a_bounded_number_of_items_with_redacted_values(bench, add):
    add.extend(range(60, 200))
    inner = {
        "inputs": {"n": {}},
        "nodes": [
            {"id": "hide", "type": "t-hide"},
            {"id": "say", "type": "echo", "params": {"message": "secret-${n}"}},
            {"id": "add", "type": "t-add", "params": {"a": "${n}", "b": 0}},
        ],
    }

    @bench.acts("t-hide")
    def hide(shared, params):
        shared["__run__"].add_secrets(["secret-7"])

    outcome = bench.run(each(inner, list(range(100)), parallel=True, error_handling="continue"))
    [traced] = trace_of(outcome)["steps"]
    failed = [item["error"] is not None for item in traced["items"]]
    assert (failed.count(True), failed.count(False)) == (10, 10)
    assert "secret-7" not in outcome.trace_path.read_text()


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
