import json

import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
from pflow_mcp_plugin.host.rendering.mermaid import mermaid
from pflow_mcp_plugin.host.rendering.python_export import python_script
from pflow_mcp_plugin.host.rendering.svg_drawing import svg


def echo(node_id, message, **more):
    return {"id": node_id, "type": "echo", "params": {"message": message}, **more}


def maybe(*after, **more):
    inputs = {"n": {"type": "int"}}
    return {"inputs": inputs, "nodes": [echo("first", "${n}", when="n > 2"), *after], **more}


def steps(outcome):
    return json.loads(outcome.trace_path.read_text())["steps"]


def test_a_node_runs_where_its_condition_holds_and_is_skipped_elsewhere(bench):
    given = maybe(echo("then", "on"), outputs={"first": "${first.message}", "then": "${then.message}"})
    assert bench.host.runner.validate(given) == ()
    assert bench.run(given, n=3).outputs == {"first": 3, "then": "on"}
    outcome = bench.run(given, n=2)
    assert outcome.success
    assert outcome.outputs == {"first": None, "then": "on"}
    skipped, then = steps(outcome)
    assert (skipped["action"], skipped["error"], skipped["outputs"]) == (None, None, {})
    assert skipped["details"] == {"skipped": {"when": "n > 2"}}
    assert then["action"] == "default"


def test_a_lone_template_of_a_skipped_node_is_null_or_left_out(bench):
    @bench.node("t-take", ["must: any!", "may: str"], ["got"])
    class Take:
        def set_params(self, params):
            self.params = params

        def run(self, shared):
            shared["got"] = {key: value for key, value in self.params.items() if not key.startswith("__")}

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
    given = flow(echo("first", "a"), echo("last", "b", when="false"))
    assert bench.run(given).outputs == {"message": "a"}


def test_a_skipped_batch_starts_no_item(bench):
    given = flow(echo("each", "${item}", when="`[]`", batch={"items": [1, 2]}))
    outcome = bench.run(given)
    assert outcome.outputs == {}
    assert "batch" not in steps(outcome)[0]["details"]


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
    given = {"inputs": {"n": {"type": "int"}}, "nodes": [node]}
    [found] = [it for it in bench.host.runner.validate(given) if it.severity == "error"]
    assert found.path == "$.nodes[0].when"
    assert problem in found.message


def test_a_node_that_may_be_skipped_is_not_certain_to_run(bench):
    compiled = bench.host.runner.compile(maybe(echo("then", "x")))
    assert compiled.workflow.certain == {"then"}
    outputs = {"first": "${first.message}"}
    interface = bench.host.runner.interface(
        maybe(step("t", "transform", {"expression": "n"}), outputs=outputs)
    )
    assert interface.outputs[0].type == "any"


def test_drawings_and_programs_show_the_condition(bench):
    given = maybe(echo("then", "x"))
    compiled = bench.host.runner.compile(given)
    assert "if n #gt; 2" in mermaid(DrawnWorkflow.of(compiled.document))
    assert "if n &gt; 2" in svg(DrawnWorkflow.of(compiled.document))
    assert "when='n > 2'" in python_script(compiled, given)
