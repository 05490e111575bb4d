"""A node `ask` shows what comes next, and a run goes on with an answer that was given to exactly that."""

import json
import os
import subprocess
import sys

import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import Decision, PflowError
from pflow_mcp_plugin.host.cli.trace_commands import show
from pflow_mcp_plugin.host.running.recorded_run import runs_folder
from pflow_mcp_plugin.host.running.resumption import EarlierRun

QUESTION = {"question": "Send it?", "choices": ["yes", "no"]}


@pytest.fixture
def sent(bench):
    """A node that sends `value` and returns it; what was sent, in order."""
    done = []

    @bench.acts("t-send", ["value: str!", "more"], ["value"])
    def send(shared, params):
        done.append(params["value"])
        shared["value"] = params["value"]

    return done


def approved(value="${value}", when="", **params):
    """Return a workflow that asks before it sends a value."""
    following = edge("approve", "send") | ({"when": when} if when else {})
    return flow(
        step("approve", "ask", QUESTION),
        step("send", "t-send", {"value": value, **params}),
        edges=[following],
        inputs={"value": {"type": "str", "default": "hello"}},
    )


def test_without_a_terminal_the_run_stops_shows_what_comes_next_and_goes_on_with_the_answer(
    bench, sent, resumed
):
    stopped = bench.run(approved(more=[1, {"a": "${value}"}]))
    assert (stopped.exit_code, sent) == (4, [])
    next_step = {"step": "send", "type": "t-send", "params": {"value": "hello", "more": [1, {"a": "hello"}]}}
    assert stopped.error.details.items() >= {**QUESTION, "preview": [next_step], "step": "approve"}.items()
    assert stopped.error.message.startswith(
        'approve asks: Send it?\nThen: send (t-send) value="hello", more=[1, {"a": "hello"}]'
    )
    (suggestion,) = stopped.error.suggestions
    assert suggestion.endswith(f"(yes, no) and go on: pflow resume {stopped.run_id} --answer approve=VALUE")
    (listed,) = resumed("--list").data
    assert (listed["state"], listed["open"]) == ("failed", ["approve"])
    assert show.main([stopped.run_id], "show", standalone_mode=False, obj=bench.host).beside == {
        "open": ["approve"]
    }
    assert [it["then"] for it in resumed("--dry-run").data["steps"]] == ["ask"]
    again = resumed()
    assert (again.exit_code, again.error.details["question"], sent) == (4, "Send it?", [])
    report = resumed("--answer", "approve=yes")
    assert (report.error, sent) == (None, ["hello"])
    assert not list((bench.host.paths.state / "runs").rglob("*.db"))


def test_the_answer_is_an_output_and_may_decide_what_follows(bench, sent, resumed):
    workflow = approved("said ${approve.answer}", when="approve.answer == 'yes'")
    stopped = bench.run(workflow)
    (shown,) = stopped.error.details["preview"]
    assert shown["params"] == {"value": "said ${approve.answer}"}
    assert resumed("--answer", "approve=no").error is None
    assert sent == []
    bench.run(workflow)
    assert resumed("--answer", "approve=yes").error is None
    assert sent == ["said yes"]


def test_an_answer_holds_only_for_the_arguments_that_were_shown(bench, sent, resumed, tmp_path):
    stopped = bench.run(approved(), value="ten")
    changed = resumed("--answer", "approve=yes", "value=million")
    assert (changed.exit_code, sent) == (4, [])
    assert changed.error.details["preview"][0]["params"] == {"value": "million"}
    mended = tmp_path / "mended.json"
    mended.write_text(json.dumps(approved("other ${value}")))
    again = resumed("--answer", "approve=yes", "--workflow", str(mended))
    assert again.error.details["preview"][0]["params"] == {"value": "other million"}
    assert resumed(stopped.run_id, "--answer", "approve=yes", "--workflow", str(mended)).error is None
    assert sent == ["other million"]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("approve", "has no answer"),
        ("approve=maybe", "maybe is no answer to approve"),
        ("send=yes", "send is no step of the run"),
        ("first=yes", "first asks nothing"),
    ],
)
def test_a_wrong_answer_is_refused_and_nothing_is_recorded(bench, sent, resumed, word, says):
    workflow = approved()
    workflow["nodes"].insert(0, step("first", "t-send", {"value": "first"}))
    workflow["edges"].insert(0, edge("first", "approve"))
    bench.run(workflow)
    with pytest.raises(PflowError, match=says) as refused:
        resumed("--answer", word)
    assert refused.value.kind == "usage"
    assert (resumed().exit_code, sent) == (4, ["first"])


def test_a_program_answers_by_a_decision(bench, sent):
    stopped = bench.run(approved())
    with EarlierRun.opened(runs_folder(bench.host), stopped.run_id) as earlier:
        earlier.decide([("approve", Decision(choice="answer", result="yes"))])
        workflow = earlier.workflow
        compiled = bench.host.runner.compile(workflow, "wf", {})
        assert bench.host.runner.run_compiled(compiled, {}, resumed=earlier.resumed()).success
    assert sent == ["hello"]


def test_each_item_of_a_batch_asks_on_its_own(bench, sent, resumed):
    inner = approved("${item}")
    inner["inputs"] = {"item": {"type": "str"}}
    batch = {"items": ["a", "b"], "parallel": True}
    workflow = flow(step("outer", "workflow", {"workflow": inner, "item": "${item}"}, batch=batch))
    assert bench.run(workflow).exit_code == 4
    assert set(resumed("--list").data[0]["open"]) <= {"outer[0]/approve", "outer[1]/approve"}
    words = ["--answer", f"{resumed('--list').data[0]['open'][0]}=yes"]
    report = resumed(*words)
    if report.error:
        assert resumed("--answer", f"{report.error.details['step']}=yes").error is None
    assert sorted(sent) == ["a", "b"]


def test_each_pass_of_a_loop_asks_on_its_own(bench, sent, resumed):
    workflow = approved(when="approve.answer == 'yes'")
    workflow["edges"].append(edge("send", "approve"))
    bench.run(workflow)
    for number in (1, 2):
        report = resumed("--answer", f"approve{'#2' if number == 2 else ''}=yes")
        assert (report.exit_code, len(sent)) == (4, number)
    assert resumed("--answer", "approve#3=no").error is None
    assert sent == ["hello", "hello"]


def test_no_edge_leads_past_a_question(bench, sent):
    workflow = approved()
    workflow["nodes"].append(step("else", "t-send", {"value": "else"}))
    workflow["edges"].append(edge("approve", "else", "error"))
    assert bench.run(workflow).exit_code == 4
    assert sent == []


def test_a_batch_of_questions_is_refused_before_the_run(bench, sent):
    workflow = flow(step("approve", "ask", QUESTION, batch={"items": [1, 2]}))
    with pytest.raises(PflowError, match="An ask cannot have a batch"):
        bench.run(workflow)


def test_a_run_that_leaves_no_record_says_why_nobody_can_answer(bench, sent):
    failed = bench.host.runner.run(approved(), {}, trace=False)
    assert (failed.exit_code, sent) == (1, [])
    assert "without --no-trace" in failed.error.suggestions[0]


def test_a_secret_is_shown_nowhere(bench, sent, resumed):
    workflow = approved()
    workflow["inputs"]["value"] = {"type": "str", "secret": True, "required": True}
    stopped = bench.run(workflow, value="planted-4711")
    told = json.dumps(stopped.error.to_dict()) + json.dumps(trace_of(stopped))
    assert "planted-4711" not in told
    assert resumed("--answer", "approve=yes", "value=planted-4711").error is None
    assert sent == ["planted-4711"]


@pytest.fixture
def program(pflow_home, tmp_path):
    """A workflow file that writes a file after it asked, and what starts the real program on it."""
    path, made = tmp_path / "wf.json", tmp_path / "made"
    write = step("write", "write-file", {"file_path": str(made), "content": "x"})
    path.write_text(
        json.dumps(flow(step("approve", "ask", QUESTION), write, edges=[edge("approve", "write")]))
    )

    def start(*words, **pipes):
        command = [sys.executable, "-P", "-m", "pflow_mcp_plugin", *words]
        return subprocess.Popen(
            command, env={**os.environ, "PFLOW_HOME": str(pflow_home)}, cwd=tmp_path, **pipes
        )

    return start, path, made


@pytest.mark.programs
def test_the_program_stops_with_4_and_goes_on_in_another_process(program):
    start, path, made = program
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start("run", str(path), "--json", **pipes) as run:
        out, _ = run.communicate(timeout=60)
    assert (run.returncode, made.exists()) == (4, False)
    error = json.loads(out)["error"]
    assert error["details"]["choices"] == ["yes", "no"]
    assert error["details"]["preview"][0]["params"] == {"file_path": str(made), "content": "x"}
    with start("resume", "--answer", "approve=yes", **pipes) as run:
        _, told = run.communicate(timeout=60)
    assert run.returncode == 0, told
    assert made.read_text() == "x"


@pytest.mark.programs
@pytest.mark.parametrize(("typed", "code"), [(b"maybe\nyes\n", 0), (b"\x04", 4)], ids=["answer", "end"])
def test_on_a_terminal_it_is_answered_there(program, typed, code):
    start, path, made = program
    ours, theirs = os.openpty()
    with start("run", str(path), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as run:
        os.close(theirs)
        said = b""
        while b"Answer (yes, no)" not in said:
            said += os.read(ours, 4096)
        assert b"Then: write (write-file)" in said
        os.write(ours, typed)
        out, _ = run.communicate(timeout=60)
    os.close(ours)
    assert (run.returncode, made.exists()) == (code, code == 0)
    assert b"Send it?" not in out
