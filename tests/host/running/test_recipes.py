"""Before anybody is asked about an open step, its recipe is tried."""

import json

import attrs
import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError, Recipe, RunOptions
from pflow_mcp_plugin.host.running.run_record import RunRecord

UNKNOWN = PflowError("the connection was lost", ran="unknown")


@pytest.fixture
def sent(bench):
    """A node that puts `value` at `key`, and one that reads what is there; what was put, in order."""
    bench.there = {}
    done = []

    @bench.acts("t-put", ["key", "value"], ["result", "stored"])
    def put(shared, params):
        done.append(params["key"])
        if (failure := bench.failing.get(params["key"])) is not None:
            raise failure
        shared["result"] = shared["stored"] = params["value"]

    @bench.acts("t-get", ["key"], ["result"])
    def get(shared, params):
        found = bench.there.get(params["key"])
        if isinstance(found, Exception):
            raise found
        shared["result"] = found

    recipe = Recipe(
        node="t-get",
        params={"key": "arguments.key"},
        happened="result == arguments.value",
        result="{stored: result}",
    )
    bench.known["t-put"] = attrs.evolve(bench.known["t-put"], verify=recipe)
    bench.known["t-get"] = attrs.evolve(bench.known["t-get"], purity="flow_safe")
    return done


def recipe(bench, **changes):
    """Change the recipe of the node that puts."""
    entry = bench.known["t-put"]
    bench.known["t-put"] = attrs.evolve(entry, verify=attrs.evolve(entry.verify, **changes))


PUT = step("put", "t-put", {"key": "a", "value": "1"})
TWO = flow(PUT, step("after", "t-put", {"key": "b", "value": "${put.stored}"}))


def recorded(bench):
    """Return the steps in the record of the run."""
    (path,) = (bench.host.paths.state / "runs").rglob("*.db")
    record = RunRecord.open(path)
    try:
        return record.steps()
    finally:
        record.close()


@pytest.mark.parametrize("there", [True, False])
def test_a_recipe_that_knows_decides(bench, sent, resumed, there):
    failed = bench.run_failing({"a": UNKNOWN}, TWO)
    bench.there = {"a": "1"} if there else {}
    assert [it["then"] for it in resumed("--dry-run").data["steps"]] == ["verify"]
    report = resumed(failed.run_id)
    assert (report.error, report.data["outputs"]["stored"]) == (None, "1")
    assert sent == (["a", "b"] if there else ["a", "a", "b"])
    words = "happened" if there else "did not happen"
    assert [it.message for it in bench.warnings if "put" in it.message] == [f"put {words}, by t-get"]


@pytest.mark.parametrize(
    ("changes", "found", "reason"),
    [
        ({"happened": "null"}, "1", "its result fits neither case"),
        ({"happened": "result =="}, "1", "result =="),
        ({"node": "t-put"}, "1", "t-put is not trusted to be read-only"),
        ({"happened": "error == null"}, PflowError("no", ran="unknown"), "no"),
        ({"result": "length(`1`)"}, "1", "length"),
    ],
)
def test_a_recipe_that_does_not_know_leaves_it_to_the_user(bench, sent, resumed, changes, found, reason):
    recipe(bench, **changes)
    bench.run_failing({"a": UNKNOWN}, TWO)
    bench.there = {"a": found}
    report = resumed()
    (left,) = report.error.details["undecided"]
    assert report.exit_code == 4
    assert left["error"].startswith("the connection was lost; its recipe does not tell whether it happened: ")
    assert reason in left["error"]
    assert sent == ["a"]


def test_an_expression_may_say_what_an_answer_with_an_error_means(bench, sent, resumed):
    recipe(bench, happened="!contains(error || '', 'not there') && (result == arguments.value || null)")
    bench.run_failing({"a": UNKNOWN}, TWO)
    bench.there = {"a": PflowError("it is not there", ran="ran")}
    assert resumed().error is None
    assert sent == ["a", "a", "b"]


def test_a_decision_comes_before_the_recipe(bench, sent, resumed):
    bench.run_failing({"a": UNKNOWN}, TWO)
    bench.there = {"a": "1"}
    assert resumed("--assume-not-done", "put").error is None
    assert sent == ["a", "a", "b"]


def test_programs_that_go_on_with_a_run_try_recipes_too(bench, sent):
    failed = bench.run_failing({"a": UNKNOWN}, TWO)
    bench.there = {"a": "1"}
    assert bench.host.runner.resume(failed.run_id, {}).success
    assert sent == ["a", "b"]


def test_what_only_claims_to_read_is_asked_if_the_user_trusts_it(bench, sent, resumed):
    bench.known["t-get"] = attrs.evolve(bench.known["t-get"], purity="impure", claimed_purity="flow_safe")
    bench.failing = {"a": UNKNOWN}
    options = RunOptions(), RunOptions(trust_readonly=True)
    failed = [bench.host.runner.with_options(it).run(TWO, {}) for it in options]
    bench.failing, bench.there = {}, {"a": "1"}
    assert [resumed(it.run_id).exit_code for it in failed] == [4, 0]
    assert sent == ["a", "a", "b"]


@pytest.mark.parametrize("value", ["secret", "x" * (1 << 20)])
def test_arguments_that_are_secret_or_large_are_not_kept_for_a_recipe(bench, sent, value):
    inputs = {"value": {"type": "string", "secret": value == "secret"}}
    workflow = flow(step("put", "t-put", {"key": "a", "value": "${value}"}), inputs=inputs)
    bench.run_failing({"a": UNKNOWN}, workflow, value=value)
    (left,) = recorded(bench)
    assert (left.undecided, left.recipe) == (True, "")


def test_a_recipe_is_kept_while_its_step_is_open_only(bench, sent):
    bench.run_failing({"b": UNKNOWN}, TWO)
    done, left = recorded(bench)
    assert done.recipe == ""
    assert json.loads(left.recipe)["arguments"] == {"key": "b", "value": "1"}


def test_a_node_of_a_workflow_may_have_a_recipe_of_its_own(bench, sent, resumed):
    recipe(bench, happened="null")
    verify = {"node": "t-get", "params": {"key": "arguments.key"}, "happened": "result == '1'"}
    bench.run_failing({"a": UNKNOWN}, flow({**PUT, "verify": verify}))
    bench.there = {"a": "1"}
    assert resumed().error is None
    assert sent == ["a"]


@pytest.mark.parametrize(
    ("verify", "path", "message"),
    [
        ({"node": "t-put", "happened": "true"}, "node", "t-put is not known to be read-only"),
        ({"node": "t-gte", "happened": "true"}, "node", "t-gte"),
        ({"node": "t-get", "happened": "result =="}, "happened", "result =="),
        ({"node": "t-get", "happened": "true", "by": "a"}, "by", "Unknown key by"),
    ],
)
def test_a_wrong_recipe_of_a_node_is_an_error_before_the_run(bench, sent, verify, path, message):
    problem = bench.host.runner.validate(flow({**PUT, "verify": verify}))[0]
    assert (problem.severity, problem.path) == ("error", f"$.nodes[0].verify{path and '.' + path}")
    assert message in problem.message
