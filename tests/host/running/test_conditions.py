"""Conditions of nodes, and of edges."""

import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
from pflow_mcp_plugin.host.rendering.mermaid import mermaid
from pflow_mcp_plugin.host.rendering.python_export import python_script
from pflow_mcp_plugin.host.rendering.svg_drawing import svg


def echo(node_id, message="${n}", **more):
    return step(node_id, "echo", {"message": message}, **more)


def assert_drawn(compiled, in_mermaid, in_svg):
    drawn = DrawnWorkflow.read(compiled.source, "w", lambda _: None)
    assert in_mermaid in mermaid(drawn)
    assert in_svg in svg(drawn)


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


def test_a_skipped_node_as_a_whole_is_null_in_expressions(bench):
    outputs = {"type": "type(first)", "taken": "not_null(first, other).message", "all": "keys($)"}
    given = maybe(echo("other"), step("seen", "transform", {"outputs": outputs}))
    assert bench.run(given, n=1).outputs == {"type": "null", "taken": 1, "all": ["other", "n"]}
    assert bench.run(given, n=3).outputs["type"] == "object"


@pytest.mark.parametrize(
    ("node", "user"),
    [
        (echo("then", "say ${first.message}"), "parameter message"),
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


BEFORE = {"b": {"type": "str", "required": False}}


BRANCHES = [edge("a", "b", when="a.message == '2'"), edge("a", "then"), edge("b", "then")]
FIRST_PASS = [edge("then", "b"), edge("b", "a"), edge("b", "then", when="b.message == '2'")]
NOT_RUN = "node b has not run"
A, B, THEN = echo("a", "1"), echo("b", "2"), echo("then", "${b.message}")


@pytest.mark.parametrize(
    ("given", "reason", "why"),
    [
        (flow(A, B, THEN, edges=BRANCHES), NOT_RUN, NOT_RUN),
        (flow(THEN, B, A, edges=FIRST_PASS), NOT_RUN, NOT_RUN),
        (
            flow(echo("then", "v: ${b}"), inputs=BEFORE),
            *("the run is not given input b", "the run was not given the input b"),
        ),
    ],
)
def test_what_may_be_missing_on_the_way_to_a_node_is_warned_of_before(bench, given, reason, why):
    [warning] = bench.host.runner.validate(given)
    assert warning.severity == "warning"
    assert warning.message.endswith(f"has no value if {reason}")
    assert warning.message.removeprefix("$")[:2] == "{b"
    assert f"but {why}" in bench.run(given).error.message


@pytest.mark.parametrize(
    "given",
    [
        flow(step("then", "shell", {"command": "ls", "cwd": "${b}"}), inputs=BEFORE),
        flow(step("then", "transform", {"expression": "not_null(b, 'x')"}), inputs=BEFORE),
        flow(step("a", "workflow", {"workflow": flow(echo("then", "${b}"), inputs=BEFORE), "b": "x"})),
        flow(echo("a", "1"), echo("then", "${b}"), edges=[edge("a", "then", when="b")], inputs=BEFORE),
        flow(
            echo("a", "1", when="b"),
            echo("then", "say ${a.message}", when="a.message"),
            inputs=BEFORE,
        ),
    ],
)
def test_what_may_be_missing_and_is_not_needed_is_not_warned_of(bench, given):
    assert bench.host.runner.validate(given) == ()
    assert bench.run(given).success


def test_a_skipped_batch_starts_no_item_and_the_outputs_are_those_of_the_last_node_that_ran(bench):
    each = echo("each", "${item}", when="`[]`", batch={"items": [1, 2]})
    outcome = bench.run(flow(echo("first", "a"), each))
    assert outcome.outputs == {"message": "a"}
    assert "batch" not in trace_of(outcome)["steps"][1]["details"]


def test_a_condition_that_fails_is_a_failure_of_its_node(bench):
    given = flow(echo("a", "m", when="length(x) > 1"), inputs={"x": {}})
    outcome = bench.run(given, x=3)
    assert outcome.error.message.startswith("Node a (echo) failed: The expression 'length(x) > 1' failed")
    given["nodes"].append(echo("b", "saved"))
    given["edges"] = [edge("a", "b", "error")]
    assert bench.run(given, x=3).outputs == {"message": "saved"}


def test_a_condition_that_is_a_number_is_fine_where_it_may_be_null(bench):
    given = flow(echo("a", "m", when="n"), inputs={"n": {"type": "int", "required": False}})
    assert bench.run(given).outputs == {}
    assert bench.run(given, n=0).outputs == {"message": "m"}
    asked = step("asked", "shell", {"command": "true"}, when="go")
    given = flow(asked, echo("b", "ran", when="asked.exit_code"), inputs={"go": {"type": "bool"}})
    assert bench.run(given, go=True).outputs == {"message": "ran"}
    assert bench.run(given, go=False).outputs == {}


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("n", "The condition 'n' is a number, so it is always true"),
        ("abs(m)", "The condition 'abs(m)' is a number, so it is always true"),
        ("item > 1", "item is not the name of a value"),
    ],
)
def test_a_condition_is_checked_before_a_run(bench, when, problem):
    node = echo("a", "${n} ${item}", batch={"items": [1]}, when=when)
    given = flow(node, inputs={"n": {"type": "int"}, "m": {"type": "int", "required": False}})
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
    assert_drawn(compiled, "if n #gt; 2", "if n &gt; 2")
    assert "when='n > 2'" in python_script(compiled, given)


def ways(*edges):
    nodes = echo("ask"), *(echo(way, way) for way in ("many", "some", "none"))
    return flow(*nodes, inputs={"n": {"type": "int"}}, edges=[{"from": "ask", **edge} for edge in edges])


THREE = ways(
    {"to": "many", "when": "ask.message > 5"}, {"to": "none"}, {"to": "some", "when": "ask.message > 0"}
)


def problems(bench, workflow):
    return [(it.severity, it.path, it.message) for it in bench.host.runner.validate(workflow)]


@pytest.mark.parametrize(("n", "way"), [(6, "many"), (3, "some"), (0, "none")])
def test_the_first_edge_whose_condition_holds_is_taken_and_else_the_one_without(bench, n, way):
    assert problems(bench, THREE) == []
    outcome = bench.run(THREE, n=n)
    assert outcome.outputs == {"message": way}
    first = trace_of(outcome)["steps"][0]
    assert first["error"] is None
    assert first["details"].get("edge", {}).get("to") == (None if way == "none" else way)


def test_a_run_ends_where_no_condition_holds_and_a_failure_is_handled_only_where_one_does(bench):
    given = ways({"to": "many", "when": "n > 5"})
    given["nodes"] = given["nodes"][:2]
    assert bench.run(given, n=1).outputs == {"message": 1}
    given = ways({"to": "some"}, {"to": "none", "action": "error", "when": "n > 5"})
    given["nodes"][0] = step("ask", "read-file", {"file_path": "/nowhere/${n}"})
    assert bench.run(given, n=6).outputs == {"message": "none"}
    assert "Node ask (read-file) failed" in bench.run(given, n=5).error.message


def test_a_condition_of_an_edge_that_fails_fails_the_run(bench):
    given = ways({"to": "some", "when": "length(x) > 1"}, {"to": "none"})
    given["inputs"]["x"] = {"required": False}
    error = bench.run(given, n=5).error
    assert error.message.startswith("Node ask (echo) failed at the condition of an edge: The expression")


@pytest.mark.parametrize(
    ("edge", "problem"),
    [
        ({"to": "many", "when": "ask.mesage > 5"}, "has no output mesage"),
        ({"to": "many", "when": "many.message > 5"}, "node many, which does not run before"),
    ],
)
def test_a_condition_of_an_edge_is_checked_before_a_run(bench, edge, problem):
    [found] = [it for it in problems(bench, ways(edge, {"to": "some"})) if it[0] == "error"]
    assert found[1] == "$.edges[0].when"
    assert problem in found[2]


def test_an_input_that_only_an_edge_names_is_used(bench):
    given = ways({"to": "many", "when": "n > 5"}, {"to": "some"})
    given["nodes"][0] = echo("ask", "x")
    assert not [it for it in problems(bench, given) if "not used" in it[2]]


def test_a_loop_that_a_condition_leaves_is_sound_and_nothing_behind_it_is_certain(bench):
    given = ways({"to": "many", "when": "n > 5"}, {"to": "some"})
    given["edges"].append(edge("some", "ask"))
    assert [it for it in problems(bench, given) if it[0] == "error"] == []
    assert bench.host.runner.compile(given).workflow.certain == {"ask"}


def test_drawings_show_the_condition_of_an_edge_and_a_program_takes_the_same(bench, tmp_path, python):
    compiled = bench.host.runner.compile(THREE)
    assert_drawn(compiled, '|"if ask.message #gt; 5"|', "if ask.message &gt; 5")
    program = tmp_path / "program.py"
    program.write_text(python_script(compiled, THREE))
    assert "ask - 'default if ask.message > 5' >> many" in program.read_text()
    assert python(program, "n=3").envelope == {"message": "some"}
