import json

import pytest

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.host.workflow.findings import refusal
from pflow_mcp_plugin.host.workflow.workflow_text import (
    is_descriptor,
    json_places,
    locate,
    located,
    read_workflow,
)

JSON_TEXT = """{
  "nodes": [
    {"id": "a", "type": "echo",
     "params": {"massage": "${b.x}"}},
\t{"id": "x", "type": "ecko", "params": {"message": ""}}
  ]
}
"""
YAML_TEXT = """\
nodes:
  - id: a
    type: echo
    params:
      massage: ${b.x}
  - {id: x, type: ecko, params: {message: x}}
"""


@pytest.mark.parametrize(
    ("command", "name", "text", "places"),
    [
        ("run", "wf.json", JSON_TEXT, [(4, 17), (4, 6), (4, 17), (5, 14)]),
        ("validate", "wf.yaml", YAML_TEXT, [(5, 7), (4, 5), (5, 7), (6, 13)]),
    ],
)
def test_each_problem_names_line_and_column(pflow, tmp_path, command, name, text, places):
    (tmp_path / name).write_text(text)
    refused = pflow(command, name, "--json")
    assert refused.exit_code == 2
    problems = refused.envelope["error"]["details"]["problems"]
    errors = [problem for problem in problems if problem["severity"] == "error"]
    assert [(it["line"], it["column"]) for it in errors] == places
    line, column = places[0]
    assert f"$.nodes[0].params.massage (line {line}, column {column}): " in pflow(command, name).stderr


def test_a_workflow_in_yaml_runs_with_another_inside(pflow, tmp_path):
    (tmp_path / "top.yml").write_text(
        "inputs: {name: {type: str}}\n"
        "nodes:\n"
        "  - {id: sub, type: workflow, params: {workflow: sub.yaml, name: '${name}'}}\n"
    )
    sub = "inputs:\n  name: {}\nnodes:\n  - id: e\n    type: echo\n    params: {message: 'hi ${name}'}\n"
    (tmp_path / "sub.yaml").write_text(sub)
    assert pflow("run", "top.yml", "name=Ann").stdout == "hi Ann\n"
    (tmp_path / "sub.yaml").write_text(sub.replace("message", "massage"))
    found = pflow("validate", "top.yml", "--json").envelope["error"]["details"]["problems"]
    assert [(it["line"], it["source"].endswith("sub.yaml")) for it in found] == [(6, True), (6, True)]


def test_a_missing_part_has_the_place_of_what_it_is_missing_from(tmp_path):
    (tmp_path / "wf.json").write_text('{\n "nodes": [\n  {"id": "a"}]}')
    paths = ["$.nodes[0].params.x", '$.nodes[0].params["a b"].c', "$.nodes[1]", "$.inputs.n", "$", ""]
    found = located([Problem(message="m", path=path) for path in paths], tmp_path / "wf.json")
    assert [(it.line, it.column) for it in found] == [(3, 3), (3, 3), (2, 2), (1, 1), (1, 1), (0, 0)]


def test_a_file_that_is_gone_or_broken_has_no_places(tmp_path):
    (tmp_path / "wf.yaml").write_text("a: [")
    for file in (None, tmp_path / "wf.json", tmp_path / "wf.yaml"):
        [found] = located([Problem(message="m", path="$.a")], file)
        assert (found.line, "line" in found.to_dict(), str(found)) == (0, False, "$.a: m")
    json.dumps(json_places('}{]][,,:"a'))


def test_the_place_of_a_single_problem_is_in_the_arguments_of_its_error_too(tmp_path):
    (tmp_path / "wf.json").write_text('{\n "nodes": [{"id": "a"}]}')
    error = refusal("wf", [Problem(message="wrong", path="$.nodes[0].id")])
    locate(error, tmp_path / "wf.json")
    assert error.args == (error.message,) == ("Workflow wf: $.nodes[0].id (line 2, column 13): wrong",)


def test_a_file_that_cannot_be_read_as_a_workflow_is_told_with_a_step(tmp_path):
    file = tmp_path / "greet.json"
    file.write_text('{"nodes": []}')
    assert read_workflow(file) == {"nodes": []}
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xff"}')
    for name, kind, step in (
        ("gret.yaml", "not_found", f"Did you mean {file}?"),
        ("none/greet.json", "not_found", ""),
        ("latin.json", "validation", "Save it as UTF-8"),
    ):
        with pytest.raises(PflowError) as caught:
            read_workflow(tmp_path / name)
        assert (caught.value.kind, "".join(caught.value.suggestions)) == (kind, step)


def test_only_what_the_shell_opens_is_a_descriptor():
    assert all(map(is_descriptor, ("/dev/stdin", "/dev/fd/63", "/proc/self/fd/0")))
    assert not any(map(is_descriptor, ("wf.json", "/dev/null", "/dev/fd/x")))
