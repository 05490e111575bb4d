import subprocess
from functools import partial
from pathlib import Path

import pytest
from screen import run_on_terminal
from workflow_parts import flow, step


@pytest.fixture
def workflow(write):
    """Write a workflow with some inputs and outputs of the same names."""

    def written(**inputs):
        outputs = {name: f"${{{name}}}" for name in inputs}
        echo = step("e", "echo", {"message": "".join(outputs.values())})
        return write(flow(echo, inputs=inputs, outputs=outputs))

    return written


TEXT = {"type": "str"}
END_OF_FILE = "\x04"


def outputs(ran):
    assert ran.exit_code == 0, ran.stderr
    return ran.envelope["data"]["outputs"]


def test_a_value_comes_from_standard_input_or_a_file(pflow, workflow, tmp_path):
    (tmp_path / "b.txt").write_text("zwei\nZeilen\n")
    file = workflow(a=TEXT, b=TEXT, c=TEXT)
    ran = pflow("run", file, "a=-", "b=@b.txt", "c=@@b.txt", "--json", stdin="one line\n")
    assert outputs(ran) == {"a": "one line", "b": "zwei\nZeilen\n", "c": "@b.txt"}


def test_a_value_from_a_file_is_read_as_the_declared_type(pflow, workflow, tmp_path):
    (tmp_path / "n").write_text("[1, 2]\n")
    assert outputs(pflow("run", workflow(n={"type": "list"}), "n=@n", "--json")) == {"n": [1, 2]}
    refused = pflow("run", workflow(n={"type": "int"}), "n=@nowhere", "--json")
    assert (refused.exit_code, refused.envelope["error"]["message"]) == (2, "no such file: nowhere")


def test_a_missing_file_of_inputs_leads_to_the_nearest_one(pflow, workflow, tmp_path):
    (tmp_path / "inputs.yaml").write_text("n: 3\n")
    error = pflow("run", workflow(n=TEXT), "--inputs", "input.yaml", "--json").envelope["error"]
    assert error["message"] == "No such file: input.yaml"
    assert error["suggestions"] == ["Did you mean inputs.yaml?"]


JSON, YAML = '{"n": 3, "a": "given", "o": null}', "n: 3\na: given\no: null\n"


@pytest.mark.parametrize(("name", "text"), [("in.json", JSON), ("in.yaml", YAML), ("-", JSON), ("-", YAML)])
def test_an_object_of_inputs_comes_from_a_file_or_standard_input(pflow, workflow, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    file = workflow(n={"type": "int"}, a=TEXT, o={"type": "str", "default": "x"})
    ran = pflow("run", file, "a=typed", "--inputs", name, "--json", stdin=text)
    assert outputs(ran) == {"n": 3, "a": "typed", "o": "x"}


@pytest.mark.parametrize("text", ["[1]", '{"a": 1, "a": 2}', '{"a":', '{"nobody": 1}'])
def test_a_wrong_object_of_inputs_is_refused(pflow, workflow, tmp_path, text):
    (tmp_path / "in.json").write_text(text)
    refused = pflow("run", workflow(a=TEXT), "--inputs", "in.json", "--json")
    assert refused.exit_code == 2
    assert "in.json" in refused.stdout or "nobody" in refused.stdout


def test_only_one_value_comes_from_standard_input(pflow, workflow):
    file = workflow(a=TEXT, b=TEXT)
    for words in (["a=-", "b=-"], ["a=-", "--inputs", "-"]):
        refused = pflow("run", file, *words, "--json", stdin="x")
        assert refused.exit_code == 2
        assert refused.envelope["error"]["message"] == "Standard input can be the value of only one input"


def test_a_mistake_is_reported_without_waiting_for_standard_input(started, workflow):
    file = workflow(a=TEXT, b=TEXT)
    for words in (["a=-"], ["nobody=1", "--inputs", "-"]):
        program = started("run", file, *words, stdin=subprocess.PIPE)
        assert program.wait(60) == 2  # its standard input is still open


def test_a_setting_has_the_value_and_the_trace_does_not(pflow, workflow, tmp_path):
    file = workflow(to={**TEXT, "setting": "REPORT_TO"}, by={**TEXT, "setting": "BY", "default": "me"})
    refused = pflow("run", file, "--json")
    assert "pflow settings set REPORT_TO VALUE" in refused.stdout
    assert pflow("settings", "set", "REPORT_TO", "ann@example.org").exit_code == 0
    ran = pflow("run", file, "--json")
    assert outputs(ran) == {"to": "ann@example.org", "by": "me"}
    trace = Path(ran.envelope["trace_path"]).read_text()
    assert "ann@example.org" not in trace
    assert outputs(pflow("run", file, "--json", env={"REPORT_TO": "bob"}))["to"] == "bob"
    assert outputs(pflow("run", file, "to=eve", "--json"))["to"] == "eve"


def test_a_workflow_inside_another_takes_no_setting_and_hides_its_secrets(pflow, write):
    echo = step("e", "echo", {"message": "${pin}"})
    inner = {"workflow": flow(echo, inputs={"pin": {"type": "str", "setting": "PIN"}})}
    top = write(flow(step("sub", "workflow", inner)))
    assert pflow("run", top, env={"PIN": "987654321"}).exit_code == 2
    write(flow(step("sub", "workflow", {**inner, "pin": "${p}"}), inputs={"p": TEXT}))
    ran = pflow("run", top, "p=987654321", "--json")
    assert outputs(ran) == {"message": "987654321"}
    assert "987654321" not in Path(ran.envelope["trace_path"]).read_text()


@pytest.fixture
def asked(pflow_home, tmp_path):
    """Run a workflow on a terminal, and answer what it asks; an answer after a mistake is found by that."""
    return partial(run_on_terminal, "run", home=pflow_home, cwd=tmp_path)


def test_missing_inputs_are_asked_for_on_a_terminal_with_their_bounds(asked, workflow):
    number = {"type": "int", "description": "how many", "minimum": 1}
    size = {"enum": ["small", "large"]}
    file = workflow(n=number, pin={"type": "str", "secret": True}, size=size, o={"default": 1})
    answers = {
        "n (how many) [int, at least 1]:": "many",
        'n must be int, got str "many"': "0",
        "n must be at least 1, got int 0": "3",
        "pin:": "pass",
        'size [one of "small", "large"]:': "huge",
        'size must be one of "small", "large", got str "huge"': "large",
    }
    screen = asked(file, answers=answers)
    assert screen.exit_code == 0, screen
    assert screen.shown.count("pass") == 1  # in the outputs only
    assert "n: 3" in screen.shown
    assert "size: large" in screen.shown


@pytest.mark.parametrize("secret", [False, True])
def test_the_end_of_the_input_at_a_question_is_named_with_the_input_that_lacks(asked, workflow, secret):
    screen = asked(workflow(n={**TEXT, "secret": secret}), answers={"n:": END_OF_FILE})
    assert screen.exit_code == 2
    assert "Input n is required, and the input from the terminal ended" in screen.shown
    assert "Pass n=VALUE" in screen.shown
    assert "interrupted" not in screen.shown


def test_nothing_is_asked_of_a_workflow_with_mistakes(asked, workflow):
    screen = asked(workflow(n={"type": "int"}), "m=1")
    assert screen.exit_code == 2, screen
