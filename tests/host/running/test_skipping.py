import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
from pflow_mcp_plugin.host.rendering.mermaid import mermaid
from pflow_mcp_plugin.host.rendering.python_export import python_script
from pflow_mcp_plugin.host.rendering.svg_drawing import svg


def echo(node_id, message, **more):
    return step(node_id, "echo", {"message": message}, **more)


def maybe(*after, **more):
    return flow(echo("first", "${n}", when="n > 2"), *after, inputs={"n": {"type": "int"}}, **more)


def test_a_node_runs_where_its_condition_holds_and_is_skipped_elsewhere(bench):
    given = maybe(echo("then", "on"), outputs={"first": "${first.message}", "then": "${then.message}"})
    assert bench.host.runner.validate(given) == ()
    assert bench.run(given, n=3).outputs == {"first": 3, "then": "on"}
    outcome = bench.run(given, n=2)
    assert outcome.outputs == {"first": None, "then": "on"}
    skipped, then = trace_of(outcome)["steps"]
    assert (skipped["action"], skipped["error"], skipped["outputs"]) == (None, None, {})
    assert skipped["details"] == {"skipped": {"when": "n > 2"}}
    assert then["action"] == "default"


def test_a_lone_template_of_a_skipped_node_is_null_or_left_out(bench):
    @bench.acts("t-take", ["must: any!", "may: str"], ["got"])
    def take(shared, params):
        shared["got"] = {key: value for key, value in params.items() if not key.startswith("__")}

    inner = {"must": ["${first.message}", {"a": "${first.message}"}], "may": "${first.message}"}
    given = maybe(step("take", "t-take", inner))
    assert bench.run(given, n=1).outputs == {"got": {"must": [None, {"a": None}]}}
    given = maybe(step("take", "t-take", {"must": "${first.message}"}))
    assert bench.run(given, n=1).outputs == {"got": {"must": None}}


@pytest.mark.parametrize(
    ("node", "user"),
    [
        (echo("then", "say ${first.message}"), "parameter message"),
        (step("then", "read-file", {"file_path": "${first.message}"}), "parameter file_path"),
        (step("then", "shell", {"command": "rm -r ${first.message}/x"}), "parameter command"),
        (step("then", "shell", {"command": "${first.message}"}), "parameter command"),
    ],
)
def test_text_with_a_value_of_a_skipped_node_fails_and_is_warned_of_before(bench, node, user):
    given = maybe(node)
    [warning] = bench.host.runner.validate(given)
    assert warning.severity == "warning"
    assert warning.message == "${first.message} has no value if node first is skipped"
    error = bench.run(given, n=1).error
    assert f"{user} needs ${{first.message}}, but node first was skipped" in error.message


def test_a_node_with_a_condition_of_its_own_is_not_warned_of(bench):
    given = maybe(echo("then", "say ${first.message}", when="first.message"))
    assert bench.host.runner.validate(given) == ()
    assert bench.run(given, n=1).success
    assert bench.run(given, n=3).outputs == {"message": "say 3"}


def test_the_outputs_of_a_run_are_those_of_the_last_node_that_was_not_skipped(bench):
    assert bench.run(flow(echo("first", "a"), echo("last", "b", when="false"))).outputs == {"message": "a"}


def test_a_skipped_batch_starts_no_item(bench):
    outcome = bench.run(flow(echo("each", "${item}", when="`[]`", batch={"items": [1, 2]})))
    assert outcome.outputs == {}
    assert "batch" not in trace_of(outcome)["steps"][0]["details"]


def test_a_condition_that_fails_is_a_failure_of_its_node(bench):
    given = flow(echo("a", "m", when="length(x) > 1"), inputs={"x": {}})
    outcome = bench.run(given, x=3)
    assert outcome.error.message.startswith("Node a (echo) failed: The expression 'length(x) > 1' failed")
    given["nodes"].append(echo("b", "saved"))
    given["edges"] = [edge("a", "b", "error")]
    assert bench.run(given, x=3).outputs == {"message": "saved"}


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("n", "The condition 'n' is a number, so it is always true"),
        ("item > 1", "item is not the name of a value"),
        (3, "Expected a string, found a number"),
    ],
)
def test_a_condition_is_checked_before_a_run(bench, when, problem):
    node = echo("a", "${n} ${item}", batch={"items": [1]}, when=when)
    given = flow(node, inputs={"n": {"type": "int"}})
    [found] = [it for it in bench.host.runner.validate(given) if it.severity == "error"]
    assert found.path == "$.nodes[0].when"
    assert problem in found.message


def test_a_node_that_may_be_skipped_is_not_certain_to_run(bench):
    compiled = bench.host.runner.compile(maybe(echo("then", "x")))
    assert compiled.workflow.certain == {"then"}
    given = maybe(echo("then", "x"), outputs={"first": "${first.message}"})
    assert bench.host.runner.interface(given).outputs[0].type == "any"


def test_drawings_and_programs_show_the_condition(bench):
    given = maybe(echo("then", "x"))
    compiled = bench.host.runner.compile(given)
    assert "if n #gt; 2" in mermaid(DrawnWorkflow.of(compiled.document))
    assert "if n &gt; 2" in svg(DrawnWorkflow.of(compiled.document))
    assert "when='n > 2'" in python_script(compiled, given)
