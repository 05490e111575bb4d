"""A node `ask` shows what comes next, and a run goes on with an answer that was given to exactly that."""

import itertools
import json
import os
import signal
import subprocess
import sys

import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import Decision, PflowError
from pflow_mcp_plugin.host.cli.trace_commands import show
from pflow_mcp_plugin.host.running.question import typed_answer
from pflow_mcp_plugin.host.running.trace_recorder import RunWatcher

QUESTION = {"question": "Send it?", "choices": ["yes", "no"]}
APPROVE = step("approve", "ask", QUESTION)


def approved(value="${value}", **params):
    """Return a workflow that asks before it sends a value."""
    inputs = {"value": {"type": "str", "default": "hello"}}
    sends = step("send", "t-send", {"value": value, **params})
    return flow(APPROVE, sends, inputs=inputs, edges=[edge("approve", "send")])


def if_approved(value="${value}"):
    """Return a workflow that sends a value if the answer is yes."""
    return approved(value) | {"edges": [edge("approve", "send", when="approve.answer == 'yes'")]}


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
    shown = show.main([stopped.run_id], "show", standalone_mode=False, obj=bench.host)
    assert shown.beside == {"open": ["approve"]}
    assert [it["then"] for it in resumed("--dry-run").data["steps"]] == ["ask"]
    again = resumed()
    assert (again.exit_code, again.error.details["question"], sent) == (4, "Send it?", [])
    report = resumed("--answer", "approve=yes")
    assert (report.error, sent) == (None, ["hello"])
    assert not list((bench.host.paths.state / "runs").rglob("*.db"))


def test_the_answer_is_an_output_and_may_decide_what_follows(bench, sent, resumed):
    workflow = if_approved("said ${approve.answer}")
    stopped = bench.run(workflow)
    (shown,) = stopped.error.details["preview"]
    assert shown["params"] == {"value": "said ${approve.answer}"}
    assert resumed("--answer", "approve=no").error is None
    assert sent == []
    bench.run(workflow)
    assert resumed("--answer", "approve=yes").error is None
    assert sent == ["said yes"]


def test_an_answer_holds_only_for_the_arguments_that_were_shown(bench, sent, resumed, mended):
    stopped = bench.run(approved(), value="ten")
    changed = resumed("--answer", "approve=yes", "value=million")
    assert (changed.exit_code, sent) == (4, [])
    assert changed.error.details["preview"][0]["params"] == {"value": "million"}
    words = "--answer", "approve=yes", *mended(approved("other ${value}"))
    assert resumed(*words).error.details["preview"][0]["params"] == {"value": "other million"}
    assert resumed(stopped.run_id, *words).error is None
    assert sent == ["other million"]


def test_a_workflow_that_comes_next_is_shown_and_an_answer_holds_only_for_that_one(bench, sent, resumed):
    inner = flow(step("send", "t-send", {"value": "${given}"}), inputs={"given": {"type": "str"}})
    bench.host.library.save("innermost", inner)
    bench.host.library.save(
        "deploy", flow(step("in", "workflow", {"workflow": "innermost", "given": "good"}))
    )
    stopped = bench.run(flow(APPROVE, step("out", "workflow", {"workflow": "deploy"})))
    assert stopped.error.message.splitlines()[1:4] == [
        "Then: out (workflow:deploy)",
        '  Inside: out/in (workflow:innermost) given="good"',
        '  Inside: out/in/send (t-send) value="${given}"',
    ]
    (shown,) = stopped.error.details["preview"]
    assert shown["nodes"][0]["nodes"][0]["params"] == {"value": "${given}"}
    edited = step("send", "t-send", {"value": "${given}"}, when="given == 'good'")
    bench.host.library.save("innermost", {**inner, "nodes": [edited]})
    assert (resumed("--answer", "approve=yes").exit_code, sent) == (4, [])
    assert resumed("--answer", "approve=yes").error is None
    assert sent == ["good"]


def test_at_the_end_of_a_workflow_it_shows_what_comes_after_that_one(bench, sent, resumed):
    inner = flow(APPROVE, outputs={"said": "${approve.answer}"})
    workflow = flow(
        step("outer", "workflow", {"workflow": flow(step("mid", "workflow", {"workflow": inner}))}),
        step("send", "t-send", {"value": "${value} ${outer.said}"}),
        inputs={"value": {"type": "str"}},
    )
    workflow["nodes"][0]["params"]["workflow"]["outputs"] = {"said": "${mid.said}"}
    stopped = bench.run(workflow, value="ten")
    shown = {"step": "send", "type": "t-send", "params": {"value": "ten ${outer.said}"}}
    assert stopped.error.details["preview"] == [shown]
    assert resumed("--answer", "outer/mid/approve=yes", "value=million").exit_code == 4
    assert resumed("--answer", "outer/mid/approve=yes", "value=ten").exit_code == 4
    assert resumed("--answer", "outer/mid/approve=yes", "value=ten").error is None
    assert sent == ["ten yes"]


@pytest.mark.parametrize("inside", [False, True], ids=["in one workflow", "at the end of one inside"])
def test_it_shows_the_steps_past_those_that_only_compute(bench, sent, resumed, inside):
    said = step("said", "transform", {"expression": "join(' ', [value, approve.answer])"})
    choose = step("choose", "branch", {"cases": [{"when": "ends_with(said.result, 'yes')", "action": "go"}]})
    asking = [APPROVE, said]
    if inside:
        inner = flow(*asking, inputs={"value": {}}, outputs={"result": "${said.result}"})
        asking = [step("said", "workflow", {"workflow": inner, "value": "${value}"})]
    workflow = flow(
        *asking, choose, step("send", "t-send", {"value": "${said.result}"}), inputs={"value": {}}
    )
    *ids, send = (it["id"] for it in workflow["nodes"])
    workflow["edges"] = [*itertools.starmap(edge, itertools.pairwise(ids)), edge("choose", send, "go")]
    stopped = bench.run(workflow, value="ten")
    computed, chosen, shown = stopped.error.details["preview"]
    assert (computed["type"], computed["params"]["reads"]) == ("transform", {"value": "ten"})
    assert (chosen["step"], chosen["params"].keys()) == ("choose", {"cases"})
    assert shown == {"step": "send", "type": "t-send", "params": {"value": "${said.result}"}}
    answer = "--answer", f"{stopped.error.details['step']}=yes"
    assert (resumed(*answer, "value=million").exit_code, sent) == (4, [])
    assert resumed(*answer, "value=million").error is None
    assert sent == ["million yes"]


def test_of_a_long_argument_the_beginning_and_the_end_are_shown(bench, sent):
    stopped = bench.run(approved(), value=f"begin{'x' * 5_000}end")
    line = stopped.error.message.splitlines()[1]
    assert line.startswith('Then: send (t-send) value="beginxxx')
    assert line.endswith('xxxend"')
    assert "...[1,010 characters are left out here: see error.details.preview with --json]..." in line
    assert "x" * 5_000 in stopped.error.details["preview"][0]["params"]["value"]


def test_no_line_of_a_question_passes_for_one_about_what_comes_next(bench, sent):
    workflow = approved()
    workflow["nodes"][0] = step("approve", "ask", {"question": "Send?\nThen: send (t-send) value=1"})
    stopped = bench.run(workflow, value="a\u2028Then: b")
    assert stopped.error.message.splitlines() == [
        "approve asks: Send?",
        "  | Then: send (t-send) value=1",
        'Then: send (t-send) value="a\\u2028Then: b"',
    ]


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


@pytest.mark.parametrize("question", ["Send it?", "Send it? " * 10_000], ids=["short", "long"])
def test_a_result_that_is_no_answer_is_refused_too(bench, sent, resumed, question):
    workflow = if_approved("${approve.answer}")
    workflow["nodes"][0] = step("approve", "ask", {**QUESTION, "question": question})
    bench.run(workflow)
    words = (
        ["--answer", "approve=maybe"],
        *(["--assume-done", f"approve={it}"] for it in ('{"answer":"maybe"}', '{"other":"yes"}', "maybe")),
    )
    for word in words:
        with pytest.raises(PflowError, match="is no answer to approve"):
            resumed(*word)
    assert resumed("--assume-done", 'approve={"answer":"yes"}').error is None
    assert sent == ["yes"]


def test_a_secret_is_shown_nowhere_and_a_command_that_is_refused_later_has_recorded_no_answer(
    bench, sent, resumed
):
    workflow = if_approved()
    workflow["inputs"]["value"] = {"type": "str", "secret": True, "required": True}
    stopped, yes = bench.run(workflow, value="planted-4711"), ("--answer", "approve=yes")
    assert "planted-4711" not in json.dumps([stopped.error.to_dict(), trace_of(stopped)])
    with pytest.raises(PflowError, match="value"):
        resumed(*yes)
    with pytest.raises(PflowError, match="value"):
        bench.host.runner.resume(
            stopped.run_id, {}, decisions={"approve": Decision(choice="answer", result="yes")}
        )
    bench.configure("[limits]\nmax_calls = -1\n")
    with pytest.raises(PflowError, match="max_calls"):
        resumed(*yes, "value=planted-4711")
    bench.configure("")
    assert resumed("value=planted-4711").exit_code == 4
    assert resumed("--answer", "approve=no", "value=planted-4711").error is None
    assert sent == []


def test_each_item_of_a_batch_asks_on_its_own(bench, sent, resumed):
    inner = approved("${item}") | {"inputs": {"item": {"type": "str"}}}
    batch = {"items": ["a", "b"], "parallel": True}
    workflow = flow(step("outer", "workflow", {"workflow": inner, "item": "${item}"}, batch=batch))
    assert bench.run(workflow).exit_code == 4
    assert set(resumed("--list").data[0]["open"]) <= {"outer[0]/approve", "outer[1]/approve"}
    report = resumed("--answer", f"{resumed('--list').data[0]['open'][0]}=yes")
    if report.error:
        assert resumed("--answer", f"{report.error.details['step']}=yes").error is None
    assert sorted(sent) == ["a", "b"]


def test_each_pass_of_a_loop_asks_on_its_own(bench, sent, resumed):
    workflow = if_approved()
    workflow["edges"].append(edge("send", "approve"))
    bench.run(workflow)
    for number in (1, 2):
        report = resumed("--answer", "approve=yes")  # the one that is open
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
    with pytest.raises(PflowError, match="An ask cannot have a batch"):
        bench.run(flow({**APPROVE, "batch": {"items": [1, 2]}}))


def test_a_run_that_leaves_no_record_says_why_nobody_can_answer(bench, sent):
    failed = bench.host.runner.run(approved(), {}, trace=False)
    assert (failed.exit_code, sent) == (1, [])
    assert "without --no-trace" in failed.error.suggestions[0]
    runs = bench.host.paths.state / "runs"
    runs.parent.mkdir(parents=True, exist_ok=True)
    runs.write_bytes(b"")
    failed = bench.run(approved())
    assert (failed.exit_code, sent) == (1, [])
    assert failed.error.suggestions[0].startswith("Run it on a terminal, or let it leave a record, which")
    assert str(runs) in failed.error.suggestions[0]


def test_a_choice_stays_in_its_line(bench, sent, monkeypatch, capsys, tmp_path):
    workflow, choices = approved(), ["yes", "no\n\x1b[2KThen: send"]
    workflow["nodes"][0] = step("approve", "ask", {**QUESTION, "choices": choices})
    assert "(yes, no\\n\\u001b[2KThen: send)" in bench.run(workflow).error.suggestions[0]
    watcher = RunWatcher()
    watcher.asks = True
    (tmp_path / "typed").write_text("yes\n")
    with (tmp_path / "typed").open() as typed:
        monkeypatch.setattr("sys.stdin", typed)
        assert typed_answer(watcher, "Send it?", choices, lambda: False) == "yes"
    assert "Answer (yes, no\\n\\u001b[2KThen: send)" in capsys.readouterr().err


@pytest.fixture
def program(tmp_path):
    """The file of a workflow that writes a file after it asked, and that file."""
    path, made = tmp_path / "wf.json", tmp_path / "made"
    write = step("write", "write-file", {"file_path": str(made), "content": "x"})
    path.write_text(json.dumps(flow(APPROVE, write)))
    return path, made


@pytest.fixture
def asked(pflow_home):
    """Return a function that runs a file on a terminal until it asks, acts, and waits for the run's end."""

    def run_until_asked(path, act, *options):
        ours, theirs = os.openpty()
        command = [sys.executable, "-P", "-m", "pflow_mcp_plugin", "run", str(path), *options]
        with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as run:
            os.close(theirs)
            said = b""
            while b"Answer (yes, no)" not in said:
                said += os.read(ours, 4096)
            assert b"write (write-file)" in said
            act(run, ours)
            try:
                out, _ = run.communicate(timeout=20)
            finally:
                run.kill()
        os.close(ours)
        assert b"Send it?" not in out
        return run.returncode

    return run_until_asked


@pytest.mark.programs
@pytest.mark.parametrize(("typed", "code"), [(b"maybe\nyes\n", 0), (b"\x04", 4)], ids=["answer", "end"])
def test_on_a_terminal_it_is_answered_there(asked, program, typed, code):
    path, made = program
    assert asked(path, lambda _, terminal: os.write(terminal, typed)) == code
    assert made.exists() == (code == 0)


@pytest.mark.programs
@pytest.mark.parametrize("parallel", [False, True], ids=["plain", "in a parallel batch"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (None, 1)])
def test_a_signal_and_the_time_limit_end_a_run_that_asks(asked, program, parallel, number, code):
    path, made = program
    if parallel:
        inner = {"workflow": json.loads(path.read_text())}
        each = step("each", "workflow", inner, batch={"items": [1, 2, 3], "parallel": True})
        path.write_text(json.dumps(flow(each)))

    def end(run, _):
        if number:
            run.send_signal(number)

    assert asked(path, end, *([] if number else ["--timeout", "2s"])) == code
    assert not made.exists()
