"""How the text of a workflow is read, in JSON and YAML, and where its problems are."""

import json
import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.host.workflow.findings import refusal
from pflow_mcp_plugin.host.workflow.workflow_text import (
    YamlText,
    is_yaml,
    json_places,
    load_workflow,
    located,
    locating,
    read_workflow,
    to_yaml,
)


def loaded(text):
    return load_workflow(text, "wf.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("2024-01-31", "2024-01-31"), ("007", "007"), ("0x1F", "0x1F"), ("1_000", "1_000"),
        ("12", 12), ("-1.5e3", -1500.0), ("true", True), ("~", None), ("!!str 12", "12"),
    ],
)  # fmt: skip
def test_values_are_those_of_json(text, value):
    assert loaded(f"a: {text}\n") == {"a": value}


QUOTES = 'Put quotes around what has ${...} in line 2: "${name}"'


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("a:\n  - {b: ${x}, c: 'd'}\n", QUOTES),
        ("a: 1\nb: ${x}: y\n", QUOTES),
        ("a: [\"${x}\", '${y}' b]\n", "Fix line 1 of wf.yaml"),  # these templates are not to blame
        ("a:\n\t- b\n", "Replace the tabs in line 2 by spaces: YAML is indented with spaces only"),
        ("a:\n  - b\n\t c: d\n", "Replace the tabs in line 3 by spaces: YAML is indented with spaces only"),
    ],
)
def test_of_a_mistake_its_likely_cause_is_named_with_its_line(text, step):
    with pytest.raises(PflowError, match="not valid YAML") as caught:
        loaded(text)
    assert caught.value.suggestions == (step,)


def test_keys_are_strings_and_aliases_repeat_a_value():
    text = "1: &x [a, {on: 2}]\ntrue: *x\nnull: &y z\nw: *y\n"
    assert loaded(text) == {"1": ["a", {"on": 2}], "true": ["a", {"on": 2}], "null": "z", "w": "z"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\n---\nb: 2", "more than one document at line 2, column 1"),
        ("a: !!python/object:os.system x", "tags such as tag:yaml.org,2002:python/object:os.system"),
        ("a: !!timestamp 2024-01-31", "are not supported at line 1, column 4"),
        ("a: &x 1\n<<: *x", "merge keys (<<) are not supported at line 2, column 1"),
        ("[a, b]: 1", "a key must be a string at line 1, column 1"),
        ("a: &x [*x]", "*x refers to no earlier anchor"),
        ("&a x: 1\n*a : 2", "*a refers to no earlier anchor"),
        ("a: .inf", ".inf is not a JSON value at line 1, column 4"),
        ("a: 1e999", "too large a number"),
        (f"a: {'9' * 5000}", "a whole number of 5,000 digits"),
        ("[" * 200, "nested deeper than 100 levels"),
        ("- 1", "a workflow is a JSON object, this is a list"),
        ("a: \x00", "not valid YAML: control characters are not allowed at line 1, column 4"),
        ("a: éé\nc: é\x07", "not valid YAML: control characters are not allowed at line 2, column 5"),
        ("a:\n  b: 1\n  b: 2\n", "$.a.b: Duplicate key b in $.a"),
    ],
)
def test_what_json_has_no_form_for_is_refused_with_its_place(text, reason):
    with pytest.raises(PflowError) as caught:
        loaded(text)
    assert reason in caught.value.message
    assert caught.value.kind == "validation"
    place = re.search(r" at line (\d+), column (\d+)$", reason)
    assert not place or place.groups() == (
        str(caught.value.details["line"]),
        str(caught.value.details["column"]),
    )


def test_aliases_that_multiply_are_refused_at_once():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    began = time.perf_counter()
    with pytest.raises(PflowError, match="more than 500,000 values, those of aliases included"):
        loaded("\n".join(lines))
    assert time.perf_counter() - began < 5


keys = st.text(alphabet='abc_-$. é"\\', max_size=4)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.text(alphabet="ab:-#&*!|>'\"\n\t é1", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


@given(value=st.dictionaries(keys, values, max_size=4), indent=st.sampled_from([None, 2]))
def test_json_is_the_same_document_with_the_same_places(value, indent):
    text = json.dumps(value, indent=indent)
    read = YamlText(text, "wf.yaml")
    assert read.value == value
    assert read.places == json_places(text)


@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"# \n\t<?,~1.", max_size=40))
def test_any_text_is_a_value_or_one_of_our_errors(text):
    with suppress(PflowError):
        json.dumps(YamlText(text, "wf.yaml").value)


_ODD = ["1e3", "yes", "007", "2024-01-31", "~", "a\nb\n", "a \nb", ".5", "0x1", "1_0", "- a"]


@given(value=st.text() | st.sampled_from(_ODD) | st.floats(allow_nan=False, allow_infinity=False) | values)
def test_yaml_that_is_written_is_read_as_the_same_value(value):
    for whole in (value, {"a": [value]}):
        assert YamlText(to_yaml(whole), "wf.yaml").value == whole


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
        ("the given workflow", "{", False),
        ("/dev/stdin", '\ufeff\n {"a": 1}', False),
    ],
)
def test_a_text_is_yaml_by_the_suffix_of_its_file_or_unless_it_begins_as_json(origin, text, expected):
    assert is_yaml(origin, text) is expected


@pytest.mark.slow
def test_a_workflow_of_many_parts_is_refused_soon(bench):
    node, inputs = step("a", "echo"), dict.fromkeys(map(str, range(10_001)), 1)
    for words, workflow in (
        ("10,001 nodes", flow(*[step(f"n{number}", "echo") for number in range(10_001)])),
        ("50,001 edges", flow(node, edges=[edge("a", "a")] * 50_001)),
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
    with pytest.raises(PflowError), locating(tmp_path / "wf.json"):
        raise error
    assert error.args == (error.message,) == ("Workflow wf: $.nodes[0].id (line 2, column 13): wrong",)


def test_a_file_that_cannot_be_read_as_a_workflow_is_told_with_a_step(tmp_path):
    file = tmp_path / "greet.json"
    file.write_text('\ufeff{"nodes": []}')  # a byte order mark does no harm
    assert read_workflow(file) == {"nodes": []}
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xff"}')
    for name, kind, next_step in (
        ("gret.yaml", "not_found", f"Did you mean {file}?"),
        ("none/greet.json", "not_found", ""),
        ("latin.json", "validation", "Save it as UTF-8"),
    ):
        with pytest.raises(PflowError) as caught:
            read_workflow(tmp_path / name)
        assert (caught.value.kind, "".join(caught.value.suggestions)) == (kind, next_step)
