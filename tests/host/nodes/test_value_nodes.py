"""The nodes `transform` and `branch`."""

import json

import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.cli.trace_commands import _full
from pflow_mcp_plugin.host.nodes.value_nodes import Branch, Transform
from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
from pflow_mcp_plugin.host.rendering.mermaid import mermaid
from pflow_mcp_plugin.host.rendering.python_export import python_script
from pflow_mcp_plugin.host.rendering.svg_drawing import svg
from pflow_mcp_plugin.host.rendering.timeline import trace_page


def problems(bench, workflow):
    return [(it.severity, it.path, it.message) for it in bench.host.runner.validate(workflow)]


def errors(bench, workflow):
    return [message for severity, _, message in problems(bench, workflow) if severity == "error"]


FILES = [{"name": "b", "size": 9}, {"name": "a", "size": 3}]


def shaped(**params):
    inputs = {"files": {"type": "list", "required": False}, "text": {"type": "str", "required": False}}
    return flow(step("shape", "transform", params), inputs=inputs)


def test_several_outputs_have_an_expression_each(bench):
    given = shaped(outputs={"names": "files[].name", "total": "sum(files[].size)"})
    given["outputs"] = {"said": "${shape.total} in ${shape.names[0]}"}
    assert errors(bench, given) == []
    assert bench.run(given, files=FILES).outputs == {"said": "12 in b"}


def test_data_is_what_names_are_looked_up_in(bench):
    given = shaped(data="${files}", expression="[?size > 5].name")
    assert bench.run(given, files=FILES).outputs == {"result": ["b"]}
    given = shaped(data={"limit": 4}, expression="$.files[?size < `4`] | length(@)")
    assert bench.run(given, files=FILES).outputs == {"result": 1}


def test_a_transform_works_in_a_plain_program_and_on_the_command_line(bench):
    node, shared = Transform(), {"list": [1, 2]}
    node.set_params({"expression": "sum(list)"})
    node.run(shared)
    assert shared["result"] == 3
    node.set_params({})
    with pytest.raises(PflowError, match="expression is missing"):
        node.run(shared)
    outcome = bench.host.runner.run_node("transform", {"data": [1, 2], "expression": "sum(@)"})
    assert outcome.outcome.outputs == {"result": 3}


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("${shape.result.total}", None),
        ("${shape.result.totl}", "names no totl"),
        ("${shape.other}", "has no output other"),
    ],
)
def test_templates_into_what_a_transform_makes_are_checked(bench, template, problem):
    given = shaped(expression="{total: length(files)}", outputs={"names": "files[*].{n: name}"})
    given["nodes"].append(step("say", "echo", {"message": template}))
    found = errors(bench, given)
    assert found == [] if problem is None else problem in " ".join(found)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "has no expression"),
        ({"expression": "nothing.here"}, "nothing.here in node shape names an unknown value"),
        ({"expression": "files["}, "it ends too early"),
        ({"expression": 3, "outputs": {"a": 3}}, "Expected an expression, found a number"),
        ({"outputs": {"error": "files"}}, "The output name error is reserved"),
        ({"expression": "@", "outputs": {"result": "files"}}, "The output result of node shape is the value"),
    ],
)
def test_a_mistake_in_an_expression_is_found_before_a_run(bench, params, problem):
    assert any(problem in message for message in errors(bench, shaped(**params)))


def test_a_string_in_double_quotes_is_doubted(bench):
    given = shaped(expression='files[?name == "b"]')
    warnings = [it for it in bench.host.runner.validate(given) if it.severity == "warning"]
    assert "Write 'b' for the string" in [it.suggestion for it in warnings]


def test_a_secret_stays_redacted_when_an_expression_changes_it(bench):
    @bench.node("t-token", (), ["token"])
    class Token:
        def run(self, shared):
            shared["__run__"].add_secrets(["Sk-Abc-Def-123"])
            shared["token"] = "Sk-Abc-Def-123"

        def set_params(self, params):
            pass

    shown = {
        "upper(t.token)": "***",
        "t.token": "***",
        "to_json({a: t.token})": '{"a":"***"}',
        "split(t.token, '-')": ["Sk", "Abc", "Def", "123"],
    }
    outputs = dict(zip("abcd", shown, strict=True))
    outcome = bench.run(flow(step("t", "t-token"), step("shape", "transform", {"outputs": outputs})))
    assert outcome.outputs["a"] == "SK-ABC-DEF-123"
    assert [*trace_of(outcome)["steps"][1]["outputs"].values()] == [*shown.values()]


def large(when):
    return {"when": when, "action": "large"}


CASES = [large("size.result > $.limit"), {"when": "size.result == 0", "action": "empty"}]


def workflow(cases=None, edges=None, inputs=None):
    ways = [("", "some"), ("large", "large"), ("empty", "empty")] if edges is None else edges
    return flow(
        step("size", "transform", {"expression": "length(files)"}),
        step("decide", "branch", {"cases": CASES if cases is None else cases}),
        *(step(name, "echo", {"message": name}) for name in ("large", "empty", "some")),
        inputs=inputs or {"files": {"type": "list"}, "limit": {"type": "int", "default": 2}},
        edges=[edge("size", "decide"), *(edge("decide", to, action) for action, to in ways)],
    )


@pytest.mark.parametrize(("files", "way"), [([1, 2, 3], "large"), ([], "empty"), ([1], "some")])
def test_the_first_case_that_is_true_gives_the_action(bench, files, way):
    assert problems(bench, workflow()) == []
    outcome = bench.run(workflow(), files=files)
    assert outcome.outputs == {"message": way}
    steps = json.loads(outcome.trace_path.read_text())["steps"]
    assert [step["id"] for step in steps] == ["size", "decide", way]
    assert steps[1]["outputs"] == {"case": "default" if way == "some" else way}


def test_a_trace_shows_the_case_and_no_failure(bench):
    outcome = bench.run(workflow(), files=[])
    trace = bench.host.traces.read(outcome.trace_path)
    [line] = [line for line in _full(trace) if line.startswith("decide")]
    assert line.endswith("ms  ok, case empty")
    page = trace_page(trace)
    assert "case empty" in page
    assert 'class="step failed"' not in page
    assert trace["steps"][1]["details"] == {"branch": {"case": "empty", "when": "size.result == 0"}}


def test_a_branch_is_drawn_as_one_with_edges_unlike_failures_and_exported_as_it_is_written(bench):
    compiled = bench.host.runner.compile(workflow())
    assert compiled.workflow.certain == {"size", "decide"}
    whole = DrawnWorkflow.read(compiled.source, "w", lambda _: None)
    drawn = svg(whole)
    assert drawn.count("<polygon") == 1
    assert 'class="action"' in drawn
    assert " way" not in drawn
    assert 'n1{"decide<br>branch"}' in mermaid(whole)
    program = python_script(compiled, workflow())
    assert "size.result > $.limit" in program
    assert "decide - 'large' >> large" in program


def test_a_branch_works_in_a_plain_program():
    node = Branch()
    node.set_params({"cases": [{"when": "count > 3", "action": "many"}]})
    assert node.run({"count": 4}) == "many"
    assert node.run({"count": 3}) == "default"
    node.set_params({})
    with pytest.raises(PflowError, match="cases is missing"):
        node.run({})


@pytest.mark.parametrize(
    ("case", "place", "message"),
    [
        (large("size.reslt > 1"), ".when", "has no output reslt"),
        (large("some.message == 'x'"), ".when", "node some, which does not run before"),
        (large("length(files)"), ".when", "is a number, so it is always true"),
        ({"when": "size.result > 1"}, "", "action is missing"),
        ({**large("true"), "then": 1}, ".then", "Unknown key then"),
        ({"when": "true", "action": "timeout"}, ".action", "timeout is reserved for failed nodes"),
        ("large", "", "Expected an object, found a string"),
    ],
)
def test_a_mistake_in_a_case_is_an_error_at_its_place(bench, case, place, message):
    found = [it for it in problems(bench, workflow([case], [("large", "large")])) if it[0] == "error"]
    path = f"$.nodes[1].params.cases[0]{place}"
    assert any(it[1] == path and message in it[2] for it in found), found


@pytest.mark.parametrize(
    ("cases", "message"), [([], "has no cases"), ("${files}", "cases of node decide must be")]
)
def test_cases_must_be_there_and_not_a_template(bench, cases, message):
    assert any(message in it[2] for it in problems(bench, workflow(cases)))


@pytest.mark.parametrize("first", ["limit > 3", "true"])
def test_a_case_behind_one_that_holds_wherever_it_does_is_a_warning(bench, first):
    cases = [large(first), {"when": " limit > 3", "action": "empty"}]
    message = "The case is never taken: cases[0] holds wherever it does"
    assert problems(bench, workflow(cases)) == [("warning", "$.nodes[1].params.cases[1].when", message)]


def test_a_case_without_an_edge_is_a_warning_and_an_edge_without_a_case_an_error(bench):
    assert problems(bench, workflow(edges=[("large", "large"), ("emty", "empty"), ("", "some")])) == [
        ("error", "$.edges[2].action", "Node decide (branch) never takes the action emty"),
        (
            "warning",
            "$.nodes[1].params.cases[1].action",
            "No edge takes the case empty of node decide: the run would end there",
        ),
    ]


def test_a_loop_that_a_case_leaves_is_sound(bench):
    given = workflow([large("size.result > 2")], [("", "some"), ("large", "large")])
    given["edges"].append(edge("some", "size"))
    assert [it for it in problems(bench, given) if it[0] == "error"] == []


def test_a_branch_has_no_batch_and_its_result_is_not_kept(bench):
    given = workflow()
    given["nodes"][1] |= {"batch": {"items": [1]}, "cache": True}
    found = problems(bench, given)
    assert ("error", "$.nodes[1].batch", "A branch cannot have a batch") in found
    assert any("is never cached: its results are not kept" in it[2] for it in found)
