"""Workflows run and resumed from Python."""

import json
import sqlite3
from itertools import pairwise

import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError, RunControl
from pflow_mcp_plugin.workflows import FORGET, NOT_DONE, RERUN, SKIP, answer, done, resume, run_workflow


@pytest.fixture(autouse=True)
def folder(tmp_path, pflow_home, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(folder):
    return folder / "log"


def logged(*names, ready="ready"):
    """Return a workflow of steps that write their names into `log`; the last needs a file."""
    commands = [f"echo {name} >> log" for name in names]
    commands[-1] = f"test -e {ready} && {commands[-1]}"
    nodes = [
        step(name, "shell", {"command": command, "check": True})
        for name, command in zip(names, commands, strict=True)
    ]
    edges = [edge(one, other) for one, other in pairwise(names)]
    return flow(*nodes, edges=edges, inputs={"who": {"default": "all"}}, outputs={"who": "${who}"})


def failed(workflow):
    inputs = {"who": "ann"} if "inputs" in workflow else {}
    with pytest.raises(PflowError) as caught:
        run_workflow(workflow, inputs)
    return caught.value


def open_step(folder, place):
    """Let the record of the run look as if it had been killed while a step acted."""
    (path,) = folder.rglob("*.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE step SET state = 'sent', outputs = NULL WHERE place = ?", (place,))
    connection.close()


def test_a_workflow_runs_from_a_dictionary_a_file_and_a_name(folder):
    workflow = flow(step("say", "echo", {"message": "${who}"}), inputs={"who": {"required": True}})
    (folder / "say.json").write_text(json.dumps(workflow))
    for given in (workflow, "say.json", folder / "say.json"):
        outcome = run_workflow(given, {"who": "ann"})
        assert (outcome.outputs["message"], outcome.trace_path.stem) == ("ann", outcome.run_id)
    with pytest.raises(PflowError) as caught:
        run_workflow("sey.json")
    assert (caught.value.kind, caught.value.suggestions) == ("not_found", ("Did you mean say.json?",))
    with pytest.raises(PflowError, match="who"):
        run_workflow(workflow)


def test_a_failed_run_goes_on_with_its_inputs_and_does_nothing_twice(folder, log):
    error = failed(logged("a", "b"))
    assert ("Node b" in error.message, log.read_text()) == (True, "a\n")
    (folder / "ready").touch()
    outcome = resume(error.details["run_id"])
    assert (outcome.outputs, log.read_text()) == ({"who": "ann"}, "a\nb\n")
    with pytest.raises(PflowError, match="no run to resume"):
        resume()


@pytest.mark.parametrize(
    ("decision", "did"),
    [(NOT_DONE, "a\na\nb\n"), (done({"exit_code": 0}), "a\nb\n"), (SKIP, "a\nb\n"), (RERUN, "a\na\nb\n")],
)
def test_what_a_program_decides_about_a_step_counts(folder, log, decision, did):
    run = failed(logged("a", "b")).details["run_id"]
    open_step(folder, "a")
    (folder / "ready").touch()
    with pytest.raises(PflowError) as caught:
        resume(run)
    assert [it["step"] for it in caught.value.details["undecided"]] == ["a"]
    with pytest.raises(PflowError, match="x is no step"):
        resume(run, decisions={"x": FORGET})
    resume(run, {"who": "bob"}, decisions={"a": decision})
    assert log.read_text() == did


def test_a_program_answers_what_a_node_asks(log):
    asking = flow(
        step("sure", "ask", {"question": "Send it?"}),
        step("send", "shell", {"command": "echo sent >> log"}),
        edges=[edge("sure", "send")],
    )
    error = failed(asking)
    assert (error.details["question"], log.exists()) == ("Send it?", False)
    resume(error.details["run_id"], decisions={"sure": answer("yes")})
    assert log.read_text() == "sent\n"


def test_what_is_no_input_or_decision_is_refused():
    run = failed(flow(step("sure", "ask", {"question": "Send it?"}))).details["run_id"]
    for inputs, decisions, problem in (
        ({}, {"sure": answer(5)}, "5 is no answer to sure"),
        ({}, {"sure": "yes"}, "What is decided about sure is a str, not a decision"),
        ({}, {1: SKIP}, "1 is no step of the run"),
        ({1: 2}, {"sure": answer("yes")}, "The workflow has no input 1"),
    ):
        with pytest.raises(PflowError, match=problem):
            resume(run, inputs, decisions=decisions)


def test_a_run_is_resumed_where_it_was_started_and_can_be_cancelled(folder, log, tmp_path, monkeypatch):
    run = failed(logged("a", "b")).details["run_id"]
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(PflowError, match="another folder"):
        resume(run)
    monkeypatch.chdir(folder)
    control = RunControl()
    control.cancel()
    with pytest.raises(PflowError) as caught:
        resume(run, control=control)
    assert (caught.value.kind, log.read_text()) == ("interrupted", "a\n")
