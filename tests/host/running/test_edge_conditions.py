import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
from pflow_mcp_plugin.host.rendering.mermaid import mermaid
from pflow_mcp_plugin.host.rendering.python_export import python_script
from pflow_mcp_plugin.host.rendering.svg_drawing import svg


def echo(node_id, message="${n}"):
    return step(node_id, "echo", {"message": message})


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


def test_a_run_ends_where_no_condition_holds(bench):
    given = ways({"to": "many", "when": "n > 5"})
    given["nodes"] = given["nodes"][:2]
    assert bench.run(given, n=1).outputs == {"message": 1}


def test_a_failure_is_handled_by_an_edge_only_where_its_condition_holds(bench):
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
        ({"to": "many", "when": "m >"}, "it ends too early"),
        ({"to": "many", "when": "n == 'x'"}, "a number is compared with a string"),
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


def test_drawings_show_the_condition_of_an_edge(bench):
    compiled = bench.host.runner.compile(THREE)
    assert '|"if ask.message #gt; 5"|' in mermaid(DrawnWorkflow.of(compiled.document))
    assert "if ask.message &gt; 5" in svg(DrawnWorkflow.of(compiled.document))


def test_a_program_takes_the_same_edges(bench, tmp_path, python):
    compiled = bench.host.runner.compile(THREE)
    program = tmp_path / "program.py"
    program.write_text(python_script(compiled, THREE))
    assert "ask - 'default if ask.message > 5' >> many" in program.read_text()
    assert python(program, "n=3").envelope == {"message": "some"}
