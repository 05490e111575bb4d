"""What an input says of its values is checked before anything runs, and shown wherever inputs are."""

import json

import attrs
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import UNKNOWN, PflowError
from pflow_mcp_plugin.host.workflow import bind_inputs
from pflow_mcp_plugin.host.workflow.document_reader import SCHEMA_FILE, read_document
from pflow_mcp_plugin.host.workflow.findings import Findings
from pflow_mcp_plugin.server.saved_workflow_tools import input_schema

SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
BOUNDED = {
    "size": {"enum": ["small", "large"], "description": "how large", "default": "small"},
    "count": {"type": "int", "minimum": 1, "maximum": 9},
    "code": {"type": "str", "pattern": r"^[a-z]+-\d{2}$"},
}
MESSAGE = {"message": "${size} ${count} ${code}"}


def document(*nodes, **inputs):
    return flow(*nodes or [step("a", "echo", MESSAGE)], inputs=inputs, outputs={"said": "${a.message}"})


def read(**spec):
    findings = Findings()
    found = read_document({"nodes": [{"id": "a", "type": "a"}], "inputs": {"it": spec}}, findings)
    return found, findings.problems


def bound(spec, value):
    """Return the value that a run starts with, or the message of why there is none."""
    found, problems = read(**spec)
    assert problems == []
    values, refused = bind_inputs(found, {"it": value})
    return refused[0].message if refused else values["it"]


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        ({"enum": ["x", 1, True]}, "true", True),
        ({"type": "int | None", "minimum": 1}, "", None),
        ({"type": "number", "minimum": -2, "maximum": -1}, "-1.5", -1.5),
        ({"type": "string", "pattern": r"^\$$"}, "$", "$"),
        # Texts are read in the declared type, and other values converted where nothing is lost.
        ({"type": "integer"}, 4.0, 4),
        ({"type": "array"}, '["a", 1]', ["a", 1]),
        ({"type": "dict"}, '{"a": null}', {"a": None}),
        ({"required": False, "stdin": True}, "7", "7"),
        ({}, UNKNOWN, UNKNOWN),
    ],
)
def test_a_value_that_fits_is_taken(spec, value, expected):
    found = bound(spec, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        ({"enum": ["a", "b"]}, "A", 'must be one of "a", "b", got str "A"'),
        ({"type": "str | None", "enum": ["a"]}, "", 'must be one of "a"'),
        ({"type": "int", "minimum": 1}, "0", "must be at least 1, got int 0"),
        ({"type": "int", "minimum": 1}, "many", "must be int, got str"),
        ({"type": "int", "maximum": 10**400}, 10**401, "must be at most"),
        ({"type": "str", "pattern": "^a$"}, "a\n", "must be a string that matches ^a$"),
        ({"type": "str", "pattern": r"^\d+$"}, "٣", "must be a string that matches"),
        ({"type": "str", "pattern": "^[a-z]+$"}, "a" * 1_000_000 + "!", "must be a string that matches"),
    ],
)
def test_a_value_beyond_its_bounds_is_refused(spec, value, message):
    assert message in str(bound(spec, value))


@pytest.mark.parametrize("spec", [{"type": "str", "pattern": "^x$"}, {"enum": ["x"]}])
def test_a_secret_value_is_not_in_the_message(spec):
    assert bound({**spec, "secret": True}, "canary").endswith("the value given is not")


@pytest.mark.parametrize(
    ("kind", "text", "step"),
    [
        ("integer", "many", "Write a whole number in digits, such as 12"),
        ("bool", "yes", "Write true or false"),
        ("array", "a,b", "Write it as JSON, it='[...]'"),
    ],
)
def test_of_a_text_that_does_not_fit_it_is_said_how_to_write_it(kind, text, step):
    ((problem,),) = bind_inputs(read(type=kind)[0], {"it": text})[1:]
    assert (problem.path, problem.suggestion) == ("$.inputs.it", step)
    assert problem.message == f'Input it must be {kind}, got str "{text}"'


def bind(given, **workflow):
    return bind_inputs(read_document(workflow, Findings()), given)


def test_a_default_of_null_is_none_where_the_type_does_not_take_it():
    inputs = {"a": {"type": "int", "default": None}, "b": {"type": "int | None", "default": None}}
    assert bind({}, inputs=inputs | {"c": {"default": None}}) == ({"b": None, "c": None}, [])


def test_unknown_and_missing_inputs_are_problems():
    _, problems = bind({"txt": "x"}, inputs={"text": {"type": "str", "description": "what to say"}})
    assert [(problem.message, problem.suggestion) for problem in problems] == [
        ("The workflow has no input txt", "Did you mean text?"),
        ("Input text is required (what to say)", "Pass text=..."),
    ]


def test_without_namespacing_what_is_not_declared_may_be_given_but_nothing_reserved():
    assert bind({"query": "x"}, enable_namespacing=False) == ({"query": "x"}, [])
    assert len(bind({"__run__": "x"}, enable_namespacing=False)[1]) == 1


@pytest.mark.parametrize(
    ("spec", "place", "message"),
    [
        ({"type": "int | str", "maximum": 1}, ".maximum", "maximum does not apply to the type int | str"),
        ({"type": "int", "minimum": 2, "maximum": 1}, ".minimum", "The minimum 2 is more than the maximum 1"),
        ({"type": "int", "minimum": "1"}, ".minimum", "Expected a number, found a string"),
        ({"type": "str", "pattern": "("}, ".pattern", "The pattern ( is not a regular expression: missing )"),
        ({"type": "str", "pattern": "(a+)+$"}, ".pattern", "may take more than linear time"),
        ({"type": "str", "pattern": "a" * 201}, ".pattern", "may take more than linear time"),
        ({"type": "str", "enum": []}, ".enum", "The enum is empty"),
        ({"type": "int", "enum": [1, "2"]}, ".enum[1]", "A value of the enum must be int"),
        ({"type": "str", "enum": ["a", "b", "a"]}, ".enum[2]", "A value of the enum is listed twice"),
        ({"enum": ["a", ["a"]]}, ".enum[1]", "A value of the enum must be a single value"),
        ({"type": "str", "enum": ["a"], "pattern": "^b"}, ".enum[0]", "must be a string that matches ^b"),
        ({"enum": ["a"], "default": "b"}, ".default", 'The default of input it must be one of "a"'),
    ],
)
def test_bounds_that_cannot_be_right_are_errors_with_places(spec, place, message):
    _, problems = read(**spec)
    assert [(it.path, it.severity) for it in problems] == [(f"$.inputs.it{place}", "error")]
    assert message in problems[0].message
    assert problems[0].suggestion


anything = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.text(max_size=3), st.lists(st.integers(0, 1), max_size=2)
)


@given(
    spec=st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["int", "str", "any", "float | None"]),
            "enum": st.one_of(anything, st.lists(anything, max_size=3)),
            "minimum": st.one_of(anything, st.floats(allow_nan=False)),
            "maximum": anything,
            "pattern": st.one_of(anything, st.text(alphabet="ab^$*+()[]\\d|{}1", max_size=8)),
            "default": anything,
        },
    ),
    value=anything,
)
def test_whatever_an_input_says_is_read_or_reported(spec, value):
    found, problems = read(**spec)
    if not problems:
        workflow = {"nodes": [{"id": "a", "type": "a"}], "inputs": {"it": spec}}
        jsonschema.Draft202012Validator(SCHEMA).validate(workflow)  # editors reject nothing that is right
    bind_inputs(found, {"it": value})


def test_validation_and_runs_say_what_is_wrong_before_anything_runs(bench):
    ran = []

    @bench.acts("t-go")
    def go(shared, params):
        ran.append(1)

    workflow = document(step("go", "t-go"), step("a", "echo", MESSAGE), **BOUNDED)
    with pytest.raises(PflowError) as caught:
        bench.run(workflow, size="smal", count="0", code="x")
    problems = {it.path: (it.message, it.suggestion) for it in caught.value.problems}
    assert problems.keys() == {"$.inputs.size", "$.inputs.count", "$.inputs.code"}
    assert problems["$.inputs.size"][1] == "Did you mean small?"
    assert problems["$.inputs.count"][1] == "It is int, at least 1, at most 9"
    assert ran == []
    assert bench.run(workflow, count="9", code="ab-12").outputs == {"said": "small 9 ab-12"}


def test_a_workflow_that_runs_as_a_node_checks_what_it_is_given(bench):
    inner = document(**BOUNDED)

    def outer(**params):
        node = step("in", "workflow", {"workflow": inner, "code": "a-11", **params})
        return flow(node, inputs={"n": {"type": "int", "default": 3}}, outputs={"said": "${in.said}"})

    for params, message in (
        ({"size": "huge", "count": 1}, 'Parameter size of node in must be one of "small", "large"'),
        ({"count": 10}, "Parameter count of node in must be at most 9, got int 10"),
        ({"count": 1, "code": "x"}, "Parameter code of node in must be a string that matches"),
    ):
        (found,) = [it for it in bench.host.runner.validate(outer(**params)) if it.severity == "error"]
        assert message in found.message
    workflow = outer(count="${n}")
    assert bench.run(workflow, n=9).outputs == {"said": "small 9 a-11"}
    failed = bench.run(workflow, n=10)
    assert "Input count must be at most 9, got int 10" in failed.error.message
    assert failed.error.ran == "not ran"


def test_the_schema_of_a_typed_tool_has_the_bounds(bench):
    inputs = {**BOUNDED, "mode": {"type": "str | None", "enum": ["x"], "default": None}}
    params = {"message": "${size} ${count} ${code} ${mode}"}
    schema = input_schema(bench.host.runner.interface(document(step("a", "echo", params), **inputs)))
    jsonschema.Draft202012Validator.check_schema(schema)
    size, count, code, mode = (schema["properties"][name] for name in inputs)
    assert size.pop("description") == "how large"
    assert size == {"type": "string", "enum": ["small", "large"], "default": "small"}
    assert count == {"type": "integer", "minimum": 1, "maximum": 9}
    assert code == {"type": "string", "pattern": r"^[a-z]+-\d{2}$"}
    assert mode == {"type": ["string", "null"], "enum": ["x", None], "default": None}
    assert schema["required"] == ["count", "code"]


SHOWN = ('how large, str, one of "small", "large", default "small"', "int, at least 1, at most 9")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bounded.json"
    path.write_text(json.dumps(document(**BOUNDED)))
    return path


def test_the_help_of_a_run_has_the_inputs_of_its_workflow(pflow, file):
    shown = " ".join(pflow("run", str(file), "--help").stdout.split())
    assert f"Inputs of {file}" in shown
    assert all(bounds in shown for bounds in SHOWN)
    assert r"a string that matches ^[a-z]+-\d{2}$" in shown
    for words in ([], ["no-such-file.json"]):
        bare = pflow("run", "--help", *words)
        assert (bare.exit_code, "Usage:" in bare.stdout, "Inputs of" in bare.stdout) == (0, True, False)
    file.write_text("{")
    assert pflow("run", str(file), "--help").exit_code == 0


def test_a_cached_workflow_with_a_condition_on_the_time_is_not_reused(bench):
    bench.known["t-pure"] = attrs.evolve(bench.declare("t-pure", outputs=["x"]), purity="flow_safe")
    nodes = (step("a", "t-pure"), step("b", "t-pure"))
    for when, severity in (("now () > '2026'", "warning"), ("a.x == 'now'", None)):
        inner = flow(*nodes, edges=[edge("a", "b", when=when)], outputs={"x": "${a.x}"})
        outer = flow(step("in", "workflow", {"workflow": inner}, cache=True))
        found = [it.severity for it in bench.host.runner.validate(outer) if "cache" in it.path]
        assert found == ([severity] if severity else [])
