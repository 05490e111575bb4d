import pytest
from workflow_parts import flow, step, trace_of

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.nodes.value_nodes import Transform

FILES = [{"name": "b", "size": 9}, {"name": "a", "size": 3}]


def shaped(**params):
    inputs = {"files": {"type": "list", "required": False}, "text": {"type": "str", "required": False}}
    return flow(step("shape", "transform", params), inputs=inputs)


def errors(bench, workflow):
    return [it.message for it in bench.host.runner.validate(workflow) if it.severity == "error"]


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


def test_a_transform_runs_for_each_item(bench):
    given = shaped(expression="item.name")
    given["nodes"][0]["batch"] = {"items": "${files}"}
    assert errors(bench, given) == []
    assert bench.run(given, files=FILES).outputs["results"] == [{"result": "b"}, {"result": "a"}]


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
        ("${shape.result.total.x}", "has no members"),
        ("${shape.names[0].n}", None),
        ("${shape.names[0].m}", "names no m"),
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
        ({"expression": "length(text) == 'x'"}, "a number is compared with a string"),
        ({"expression": "files.name"}, "name is looked up in a list"),
        ({"expression": "files["}, "it ends too early"),
        ({"expression": 3, "outputs": {"a": 3}}, "Expected an expression, found a number"),
        ({"outputs": {"error": "files"}}, "The output name error is reserved"),
        ({"expression": "@", "outputs": {"result": "files"}}, "The output result of node shape is the value"),
        ({"expression": "$.fils"}, "fils in node shape names an unknown value"),
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
