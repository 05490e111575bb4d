import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow import load_workflow
from pflow_mcp_plugin.host.workflow.workflow_text import is_yaml


def test_a_workflow_is_read_with_or_without_a_byte_order_mark():
    assert load_workflow('\ufeff{"nodes": []}', "wf.json") == {"nodes": []}


def test_a_syntax_error_names_file_line_and_column():
    with pytest.raises(PflowError) as caught:
        load_workflow('{\n  "nodes": [,]\n}', "wf.json")
    assert caught.value.message.startswith("wf.json is not valid JSON: Expecting value at line 2, column 13")
    assert caught.value.details == {"file": "wf.json", "line": 2, "column": 13}
    assert caught.value.kind == "validation"
    assert "no comma before a closing bracket" in caught.value.suggestions[0]


@pytest.mark.parametrize(
    "text", ["[]", "3", "null", '{"a": NaN}', '{"a": -1e999}', "[" * 100_000, "", '{"a": ' + "9" * 5000 + "}"]
)
def test_what_is_no_workflow_is_refused_by_name(text):
    with pytest.raises(PflowError, match=r"wf\.json"):
        load_workflow(text, "wf.json")


def test_every_key_that_stands_twice_is_named_with_its_place():
    nodes = """[
        {"id": "a", "params": {"x": 1}, "params": {"x": 2}, "id": "a"},
        {"id": "b", "params": {"deep": [{"k": 1, "k": 1, "k": 1}]}}
    ]"""
    with pytest.raises(PflowError) as caught:
        load_workflow(f'{{"nodes": {nodes}, "nodes": {nodes}}}', "wf.json")
    inside = {"$.nodes[0].params", "$.nodes[0].id", "$.nodes[1].params.deep[0].k"}
    assert {problem.path for problem in caught.value.problems} == {"$.nodes", *inside}
    assert caught.value.kind == "validation"


@pytest.mark.parametrize(
    ("origin", "text", "expected"),
    [
        ("wf.yaml", '{"a": 1}', True),
        ("wf.YML", "a: 1", True),
        ("wf.json", "a: 1", False),
        ("the given workflow", "a: 1", True),
        ("the given workflow", "{nodes: []}", True),
        ("the given workflow", "{}", False),
        ("the given workflow", "{", False),
        ("/dev/stdin", '\ufeff\n {"a": 1}', False),
    ],
)
def test_a_text_is_yaml_by_the_suffix_of_its_file_or_unless_it_begins_as_json(origin, text, expected):
    assert is_yaml(origin, text) is expected


@pytest.mark.slow
def test_a_workflow_of_many_parts_is_refused_soon(bench):
    node, inputs = step("a", "echo"), dict.fromkeys(map(str, range(20_000)), 1)
    for words, workflow in (
        ("20,000 nodes", flow(*[step(f"n{number}", "echo") for number in range(20_000)])),
        ("50,000 edges", flow(node, edges=[edge("a", "a")] * 50_000)),
        ("more than 10,000 problems", flow(node, inputs=inputs)),
    ):
        problems = bench.host.runner.validate(workflow)
        assert len(problems) <= 10_001
        assert [problem for problem in problems if words in problem.message and problem.severity == "error"]


def test_a_runner_reads_and_normalises_as_it_runs(bench):
    runner = bench.host.runner
    read = runner.read('{"nodes": [{"id": "echo"}]}', "wf")
    assert runner.normalise(read) == flow(step("echo", "echo"), ir_version="1.0", edges=[])
    with pytest.raises(PflowError, match=r"wf is not valid JSON: .* at line 1, column 2"):
        runner.read("{", "wf")
