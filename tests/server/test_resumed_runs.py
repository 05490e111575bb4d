"""An agent goes on with its own runs; what nobody knows is decided by the user, unless they allow it."""

import sqlite3
from typing import Any

import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import Decision, RunOrigin


@pytest.fixture
def log(root, monkeypatch):
    """What the steps of `workflow` did; the second fails until a file `ready` is there."""
    monkeypatch.chdir(root)
    return root / "log"


def workflow() -> Any:
    return flow(
        step("a", "shell", {"command": "echo a >> log"}),
        step("b", "shell", {"command": "test -e ready && echo b >> log", "check": True}),
        edges=[edge("a", "b")],
        outputs={"code": "${b.exit_code}"},
    )


@pytest.fixture
def failed(served, log):
    """The id of a run whose second step failed."""
    error = served.error("workflow_execute", workflow=workflow())
    assert log.read_text() == "a\n"
    (log.parent / "ready").touch()
    run: str = error["details"]["run_id"]
    assert error["suggestions"][-1].endswith(f"call workflow_execute with resume {run}")
    return run


@pytest.fixture
def unknown(served, failed):
    """The id of a run that was killed while its first step acted."""
    (path,) = (served.pflow.host.paths.state / "runs").rglob("*.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE step SET state = 'sent', outputs = NULL WHERE place = 'a'")
        connection.execute("DELETE FROM step WHERE place = 'b'")
    connection.close()
    return failed


def test_a_run_that_failed_with_nothing_done_has_no_record_and_is_to_be_run_again(served, log):
    reads = flow(
        step("a", "read-file", {"file_path": "absent"}), step("b", "shell", {"command": "echo b >> log"})
    )
    run = served.error("workflow_execute", workflow=reads)["details"]["run_id"]
    error = served.error("workflow_execute", resume=run)
    assert f"There is no run {run} to resume" in error["message"]
    assert "had done nothing to keep" in error["message"]
    assert error["suggestions"] == ["If it failed with nothing done, run its workflow again"]


def test_a_question_is_answered_by_the_user_or_by_clients_where_they_may(served, log):
    asking = flow(
        step("sure", "ask", {"question": "Send it?", "choices": ["yes", "no"]}),
        step("send", "shell", {"command": "echo sent >> log"}),
        edges=[edge("sure", "send")],
    )
    error = served.error("workflow_execute", workflow=asking)
    run = error["details"]["run_id"]
    assert error["details"]["question"] == "Send it?"
    assert any(f"pflow resume {run} --answer sure=VALUE" in it for it in error["suggestions"])
    answer = {"resume": run, "decisions": {"sure": {"answer": "yes"}}}
    assert "Only the user" in served.error("workflow_execute", **answer)["message"]
    served.options["allow_decisions"] = lambda: True
    again = served.error("workflow_execute", resume=run)
    assert f'resume {run} and decisions {{"sure": {{"answer": "TEXT"}}}}' in again["suggestions"][-1]
    wrong = {"resume": run, "decisions": {"sure": {"answer": "perhaps"}}}
    assert "is no answer to sure" in served.error("workflow_execute", **wrong)["message"]
    assert not log.exists()
    assert served.call("workflow_execute", **answer)["success"]
    assert log.read_text() == "sent\n"


def test_what_the_user_was_asked_stays_as_it_was_shown_when_the_client_resumes_the_run(served, log):
    asking = flow(
        step("sure", "ask", {"question": "Send it?"}),
        step("send", "shell", {"command": "echo ${text} >> log"}),
        inputs={"text": {"type": "str"}},
        edges=[edge("sure", "send")],
    )
    shown = served.error("workflow_execute", workflow=asking, parameters={"text": "small"})
    run = shown["details"]["run_id"]
    error = served.error("workflow_execute", resume=run, parameters={"text": "million"})
    assert error["message"] == f"The run waits for the user's answer: {shown['message']}"
    assert any(it.endswith(f"pflow resume {run}") for it in error["suggestions"])
    runner = served.pflow.host.runner
    assert runner.resume(run, {}, decisions={"sure": Decision(choice="answer", result="yes")}).success
    assert log.read_text() == "small\n"


def of(owner: str) -> dict[str, Any]:
    return {"caller": lambda _: RunOrigin(owner=owner)}


def test_a_run_that_failed_goes_on_where_it_ended(served, failed, log):
    answered = served.data("workflow_execute", resume=failed)
    assert (answered["outputs"], answered["run_id"]) == ({"code": 0}, failed)
    assert log.read_text() == "a\nb\n"
    assert "There is no run" in served.error("workflow_execute", resume=failed)["message"]


def test_a_run_has_either_a_workflow_or_what_it_resumes(served, failed):
    for given in ({}, {"workflow": workflow(), "resume": failed}):
        error = served.error("workflow_execute", **given)
        assert (error["type"], "either workflow or resume" in error["message"]) == ("validation", True)
    error = served.error("workflow_execute", workflow=workflow(), decisions={"a": "skip"})
    assert "pass resume" in error["message"]


def test_a_run_that_is_resumed_with_other_parameters_names_those_and_what_can_be_decided(served, log):
    first = step("a", "shell", {"command": ["sh", "-c", "echo $1 >> log", "-", "${n}"]})
    given = flow(first, *workflow()["nodes"][1:], edges=[edge("a", "b")], inputs={"n": {"type": "int"}})
    run = served.error("workflow_execute", workflow=given, parameters={"n": 4})["details"]["run_id"]
    decided = {False: f"pflow resume {run} --forget a", True: f'resume {run} and decisions {{"a": "forget"}}'}
    for allowed, words in decided.items():
        served.options["allow_decisions"] = lambda allowed=allowed: allowed
        for error in (
            served.error("workflow_execute", resume=run, parameters={"n": 9}),
            served.data("trace_read", trace_file=run)["error"],
        ):
            assert error["suggestions"][0] == "Pass the parameters that the run had"
            assert any(words in it for it in error["suggestions"])
    (log.parent / "ready").touch()
    assert served.call("workflow_execute", resume=run, parameters={"n": 4})["success"]
    assert log.read_text() == "4\nb\n"


def test_what_nobody_knows_is_named_and_the_user_decides(served, unknown, log):
    error = served.error("workflow_execute", resume=unknown)
    assert [it["step"] for it in error["details"]["undecided"]] == ["a"]
    assert any(f"pflow resume {unknown} --assume-done a" in it for it in error["suggestions"])
    assert any("--allow-decisions" in it for it in error["suggestions"])
    refused = served.error("workflow_execute", resume=unknown, decisions={"a": "not done"})
    assert (refused["type"], "Only the user" in refused["message"]) == ("usage", True)
    assert log.read_text() == "a\n"


@pytest.mark.parametrize(("decision", "did"), [("not done", "a\na\nb\n"), ({"done": 1}, "a\nb\n")])
def test_a_client_decides_where_the_user_allows_it(served, unknown, log, decision, did):
    served.options["allow_decisions"] = lambda: True
    suggestions = served.error("workflow_execute", resume=unknown)["suggestions"]
    assert any(f'resume {unknown} and decisions {{"a": "not done"}}' in it for it in suggestions)
    for wrong in ("perhaps", {"done": 1, "else": 2}, 7):
        error = served.error("workflow_execute", resume=unknown, decisions={"a": wrong})
        assert "The decision about a must be" in error["message"]
    error = served.error("workflow_execute", resume=unknown, decisions={"x": "skip"})
    assert "x is no step of the run" in error["message"]
    answered = served.call("workflow_execute", resume=unknown, decisions={"a": decision})
    assert (answered["success"], log.read_text()) == (True, did)


def test_a_caller_resumes_only_runs_of_their_own(served, log):
    failed = served.call("workflow_execute", of("ann"), workflow=workflow())["error"]["details"]["run_id"]
    (log.parent / "ready").touch()
    for other in ("bob", ""):
        error = served.call("workflow_execute", of(other), resume=failed)["error"]
        assert (error["type"], failed in str(error["suggestions"])) == ("not_found", False)
    unnamed = served.call("workflow_execute", of("ann"), resume="")["error"]
    assert unnamed["type"] == "not_found"
    assert log.read_text() == "a\n"
    assert served.call("workflow_execute", of("ann"), resume=failed)["success"]
    assert served.call("trace_read", of("ann"), trace_file=failed)["data"]["success"]


def test_a_run_that_was_started_in_another_folder_is_left_to_the_user(served, failed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = served.error("workflow_execute", resume=failed)
    assert (error["type"], error["suggestions"][0]) == ("usage", f"Resume it with: pflow resume {failed}")
