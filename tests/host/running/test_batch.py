import json
import threading
from contextvars import ContextVar

import attrs
import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import PflowError, RunControl
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.host.running.current_run import CurrentRun

RETRY = {"max": 2, "wait": 0}


class Busy(PflowError):
    def __init__(self, message="busy", **fields):
        super().__init__(message, retryable=True, **fields)


@pytest.fixture
def double(bench):
    """A node that doubles `n`; it fails for the numbers in the list returned."""
    bad = []

    @bench.acts("t-double", ["n: int!"], ["n: int"])
    def double_node(shared, params):
        n = params.get("n", shared.get("n"))
        if n in bad:
            raise ValueError(f"{n} is bad")
        shared.update(n=n * 2, error=None)

    return bad


def batch(items, params=None, **settings):
    params = {"n": "${item}"} if params is None else params
    return flow(step("b", "t-double", params, batch={"items": items, **settings}))


MAPPED = {"mappings": {"b": {"input_mappings": {"n": "item.n"}}}}


@pytest.mark.parametrize(
    ("workflow", "given", "results"),
    [
        (batch([3, 1, 2]), {}, [6, 2, 4]),
        (batch(["${x}", 5]), {"x": 4}, [8, 10]),
        (batch("${x}"), {"x": "[1]"}, [2]),
        (batch("${x}", {"n": "${row.a[0]}"}, **{"as": "row"}), {"x": [{"a": [1]}, {"a": ["7"]}]}, [2, 14]),
        # The node reads the shared store.
        (batch([1, 2], {}, **{"as": "n"}), {}, [2, 4]),
        (batch([{"n": 1}, {"n": "2"}], {}) | MAPPED, {}, [2, 4]),
    ],
)
@pytest.mark.parametrize("parallel", [False, True])
def test_a_node_runs_for_each_item_and_keeps_their_order(bench, double, workflow, given, results, parallel):
    workflow["nodes"][0]["batch"]["parallel"] = parallel
    workflow["inputs"] = {name: {} for name in given}
    assert bench.host.runner.validate(workflow) == ()
    outputs, count = bench.run(workflow, **given).outputs, len(results)
    assert outputs.pop("results") == [{"n": result} for result in results]
    assert outputs == {"errors": [], "count": count, "succeeded": count, "failed": 0}


@pytest.mark.parametrize("items", [{"a": 1}, "words", None])
def test_items_that_are_no_list_fail_the_node(bench, double, items):
    workflow = batch("${items}") | {"inputs": {"items": {}}}
    assert "batch.items must be a list, got" in str(bench.run(workflow, items=items).error)


def warned(bench):
    return [(problem.message, problem.suggestion) for problem in bench.warnings]


def test_a_run_warns_of_the_failed_items_of_a_batch_that_went_on(bench, double):
    double += [2, 4]
    outcome = bench.run(batch([1, 2, 3, 4], error_handling="continue"))
    shown = f"See: pflow trace show {outcome.run_id} --step 'b[1]'"
    assert warned(bench) == [("b: 2 of 4 items failed: b[1], b[3]", shown)]
    bench.warnings.clear()
    double += range(10, 20)
    bench.host.runner.run(batch([*range(10, 20)], error_handling="continue"), {}, trace=False)
    assert warned(bench) == [("b: 10 of 10 items failed: b[0], b[1], b[2], b[3], b[4] and 5 more", "")]
    bench.warnings.clear()
    bench.run(batch([1, 2, 3, 4]))  # its error names the item
    bench.run(batch([1, 3], error_handling="continue"))
    assert warned(bench) == []


def test_the_trace_and_the_output_items_keep_items_with_their_results_or_errors(bench, double):
    double += [2]
    outcome = bench.run(batch([1, 2], error_handling="continue") | {"outputs": {"items": "${b.items}"}})
    [step] = trace_of(outcome)["steps"]
    keys = ("index", "params", "outputs", "error")
    assert [tuple(item[key] for key in keys) for item in step["items"]] == [
        (0, {"n": 1}, {"n": 2}, None),
        (1, {"n": 2}, {}, "ValueError: 2 is bad"),
    ]
    assert outcome.outputs["items"] == [
        {"index": 0, "item": 1, "result": {"n": 2}, "error": None},
        {"index": 1, "item": 2, "result": None, "error": "ValueError: 2 is bad"},
    ]


def test_the_trace_keeps_few_items_of_a_large_batch_and_their_values_shortened_and_redacted(bench):
    @bench.acts("t-double", ["n"], ["text"])
    def long(shared, params):
        shared["__run__"].add_secrets(["hidden-value"])
        shared["text"] = ["hidden-value" + "x" * 1_000] * 100
        if params["n"] % 2:
            raise ValueError("odd hidden-value")

    outcome = bench.run(batch([*range(60)], error_handling="continue", parallel=True, max_concurrent=1))
    [step] = trace_of(outcome)["steps"]
    assert [item["index"] for item in step["items"]] == [*range(20)]
    assert all(len(json.dumps(item)) < 15_000 for item in step["items"])
    assert "hidden-value" not in outcome.trace_path.read_text()


def test_with_fail_fast_no_item_begins_after_a_failure(bench):
    begun = []

    @bench.acts("t-double", ["n"])
    def count(shared, params):
        begun.append(params["n"])
        if params["n"] == 2:
            raise ValueError("2 is bad")

    outcome = bench.run(batch([1, 2, 3]))
    assert begun == [1, 2]
    assert outcome.error.message == "Node b (t-double) failed at item b[1] of 3: ValueError: 2 is bad"
    details = outcome.error.details
    assert (details["item"], details["count"], details["succeeded"]) == (1, 3, 1)
    assert trace_of(outcome)["steps"][0]["outputs"]["results"] == [{}, None, None]


def test_with_fail_fast_no_parallel_item_begins_after_a_failure(bench):
    """An item that is under way goes on; its success does not let others begin."""
    begun, both, noticed = [], threading.Barrier(2, timeout=30), threading.Event()

    @bench.acts("t-double", ["n"])
    def fail_or_wait(shared, params):
        begun.append(params["n"])
        both.wait()
        if params["n"] == 0:
            raise ValueError("0 is bad")
        assert noticed.wait(30)

    control = RunControl(lambda progress: noticed.set() if "1 of 100" in progress.message else None)
    workflow = batch(list(range(100)), parallel=True, max_concurrent=2)
    outcome = bench.host.runner.run(workflow, {}, control=control)
    assert sorted(begun) == [0, 1]
    assert (outcome.error.details["item"], outcome.error.details["succeeded"]) == (0, 1)


def test_as_many_items_as_a_batch_is_wide_meet_and_none_sees_what_another_writes(bench):
    meeting, running, most = threading.Barrier(3, timeout=30), [], []

    @bench.acts("t-double", ["n"], ["seen"])
    def meet(shared, params):
        running.append(params["n"])
        most.append(len(running))
        shared.update(mine=params["n"], __mark__=params["n"])
        meeting.wait()
        shared["seen"] = [shared["mine"], shared["item"], shared["__mark__"]]
        running.remove(params["n"])

    workflow = batch([*range(12)], parallel=True, max_concurrent=3)
    results = bench.run({**workflow, "enable_namespacing": False}).outputs["results"]
    assert [result["seen"] for result in results] == [[n, n, n] for n in range(12)]
    assert max(most) == 3


def test_a_batch_that_was_cancelled_begins_no_further_item(bench):
    begun, over, control = [], threading.Event(), RunControl()

    @bench.acts("t-double", ["n"])
    def cancel(shared, params):
        begun.append(params["n"])
        if len(begun) == 2:
            control.cancel()
        assert over.wait(30)

    workflow = batch(list(range(100)), parallel=True, max_concurrent=2)
    outcome = bench.host.runner.run(workflow, {}, control=control)
    assert outcome.error.kind == "interrupted"
    over.set()
    for thread in [it for it in threading.enumerate() if it.name.startswith("batch-")]:
        thread.join(30)
    assert sorted(begun) == [0, 1]


@pytest.fixture
def after(bench):
    bench.acts("t-after", [], ["saw"])(lambda shared, params: shared.update(saw=str(shared.get("error"))))


@pytest.mark.parametrize("namespaced", [True, False])
@pytest.mark.parametrize("parallel", [False, True])
def test_no_item_sees_the_error_of_another_and_none_is_left_after_the_batch(
    bench, after, parallel, namespaced
):
    seen = []

    @bench.acts("t-double", ["n"])
    def look(shared, params):
        seen.append((shared.get("error"), shared.get("__error__")))
        shared["__error__"] = Busy()
        raise ValueError("bad")

    workflow = batch([1, 2, 3], error_handling="continue", parallel=parallel, max_concurrent=1)
    workflow["nodes"].append(step("after", "t-after"))
    outcome = bench.run({**workflow, "enable_namespacing": namespaced})
    assert outcome.outputs["saw"] == "None"
    assert seen == [(None, None)] * 3


def test_a_batch_without_failure_takes_away_the_error_of_an_earlier_node(bench, double, after):
    missing = step("a", "read-file", {"file_path": "/nowhere"})
    edges = [edge("a", "b", "error"), edge("b", "after")]
    workflow = flow(missing, *batch([1])["nodes"], step("after", "t-after"), edges=edges)
    assert bench.run({**workflow, "enable_namespacing": False}).outputs["saw"] == "None"


@pytest.mark.parametrize(
    ("failure", "purity", "attempts"),
    [
        (Busy(), "impure", 3),
        (ValueError("plain"), "impure", 1),
        (ValueError("plain"), "flow_safe", 3),
        (Busy(ran="unknown"), "impure", 1),
        (Busy(ran="unknown"), "flow_safe", 1),
    ],
)
@pytest.mark.parametrize("as_batch", [False, True])
def test_only_what_is_safe_to_repeat_is_tried_again(bench, failure, purity, attempts, as_batch):
    begun = []

    @bench.acts("t-double", ["n"])
    def fail(shared, params):
        begun.append(1)
        raise failure

    bench.known["t-double"] = attrs.evolve(bench.known["t-double"], purity=purity)
    repeated = {"batch": {"items": [1], "max_retries": 2, "retry_wait": 0}} if as_batch else {"retry": RETRY}
    outcome = bench.run(flow(step("b", "t-double", **repeated)))
    assert not outcome.success
    assert len(begun) == attempts
    (traced,) = trace_of(outcome)["steps"]
    assert traced["details"].get("batch", traced["details"]).get("retries", 0) == attempts - 1


@pytest.mark.parametrize("namespaced", [True, False])
def test_a_retry_that_succeeds_leaves_nothing_of_the_failure(bench, namespaced):
    begun = []

    @bench.acts("t-double", ["n"], ["n"])
    def second(shared, params):
        begun.append(dict(shared))
        if len(begun) == 1:
            shared.update(half=1, error="busy", __error__=Busy())
            return "error"
        shared["n"] = 5
        return "default"

    node = step("b", "t-double", retry=RETRY)
    outcome = bench.run(flow(node, enable_namespacing=namespaced))
    assert outcome.outputs == {"n": 5}
    assert not {"half", "error", "__error__"} & begun[1].keys()
    [traced] = trace_of(outcome)["steps"]
    assert (traced["details"], traced["error"]) == ({"retries": 1}, None)


@pytest.mark.parametrize(
    ("asked", "retry", "seconds"),
    [
        (None, {"max": 3, "wait": 2, "backoff": 3}, [2, 6, 18]),
        (7.5, {"max": 1, "wait": 2}, [7.5]),
        (-1, {"max": 1, "wait": 2}, [2]),
        (1e9, {"max": 1, "wait": 2}, [3600]),
    ],
)
def test_a_retry_waits_as_its_settings_and_the_error_ask(bench, monkeypatch, asked, retry, seconds):
    waited = []
    monkeypatch.setattr(CurrentRun, "pause", lambda _, seconds: waited.append(seconds))

    @bench.acts("t-double")
    def fail(shared, params):
        raise Busy(retry_after=asked)

    bench.run(flow(step("b", "t-double", retry=retry)))
    assert waited == seconds


MEMORY = """
import json, resource, sys
from pflow_mcp_plugin.host.embedded_host import open_host
workflow = json.load(open("wf.json"))
with open_host() as host:
    outcome = host.runner.run(workflow, {})
assert outcome.outputs["succeeded"] == len(outcome.outputs["results"]) == int(sys.argv[1]), outcome.error
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_ten_times_the_items_take_little_more_memory(python, tmp_path):
    most = []
    for items in (500, 5_000):
        table = {"items": list(range(items)), "as": "n", "parallel": True}
        echo = step("e", "echo", {"message": "${n}"}, batch=table)
        (tmp_path / "wf.json").write_text(json.dumps(flow(echo)))
        most.append(int(python("-W", "ignore", "-c", MEMORY, items).stdout))
    assert most[1] < 1.5 * most[0]


@pytest.mark.parametrize(
    ("table", "path", "message", "suggestion"),
    [
        ({"items": [1], "paralel": True}, ".paralel", "Unknown key paralel", "Did you mean parallel?"),
        ({"items": "[1]"}, ".items", 'must be a list or a template such as "${list.files}", got "[1]"', ""),
        ({"items": [], "max_concurrent": 0}, ".max_concurrent", "max_concurrent must be a whole number", ""),
        ({"items": [], "parallel": "yes"}, ".parallel", 'parallel must be true or false, got "yes"', ""),
        ({"items": [], "as": "__run__"}, ".as", "as must be a name", ""),
        ({"items": [], "as": "b"}, ".as", "The item's name b is also the name of a node", "Choose another"),
        ({"items": [], "error_handling": "fail-fast"}, ".error_handling", "error_handling must be", "Did"),
        ({"items": [], "retry_wait": 10**400}, ".retry_wait", "retry_wait must be seconds", ""),
        ({"items": "${nothing.here}"}, ".items", "in node b names an unknown value", "Declare"),
    ],
)
def test_a_mistake_in_a_batch_is_found_with_its_place(bench, double, table, path, message, suggestion):
    node = step("b", "t-double", {"n": 1}, batch=table)
    [problem] = bench.host.runner.validate(flow(node))
    assert problem.path == f"$.nodes[0].batch{path}"
    assert message in problem.message
    assert problem.suggestion.startswith(suggestion)


def test_a_batch_with_a_retry_of_the_whole_is_refused(bench, double):
    node = step("b", "t-double", {"n": 1}, batch={"items": [1]}, retry={"max": 1})
    [problem] = bench.host.runner.validate(flow(node))
    assert problem.path == "$.nodes[0].retry"


@pytest.mark.parametrize("parallel", [False, True])
def test_an_interrupted_batch_says_how_many_items_were_done(bench, parallel):
    @bench.acts("t-double", ["n: int!"])
    def stopped(shared, params):
        if params["n"] == 2:
            raise KeyboardInterrupt

    outcome = bench.run(batch([0, 1, 2, 3, 4], parallel=parallel, max_concurrent=1))
    assert outcome.error.message == "The run was interrupted at node b, 2 of 5 items done"
    assert (outcome.error.details["succeeded"], outcome.error.details["count"]) == (2, 5)
    assert trace_of(outcome)["steps"][0]["details"]["batch"]["succeeded"] == 2


def test_what_runs_in_a_thread_of_the_batch_sees_the_context_variables_of_the_run():
    variable = ContextVar("variable")
    variable.set("mine")
    with Threads(2) as threads:
        assert threads.submit(variable.get).result(timeout=10) == "mine"
