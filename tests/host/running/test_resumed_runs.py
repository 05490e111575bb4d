"""A run that failed goes on where it ended: nothing is done twice, and nobody guesses what happened."""

import errno
import os
import sqlite3
import subprocess
import sys
from unittest.mock import patch

import attrs
import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import PflowError, RunControl
from pflow_mcp_plugin.host.running import resumption, run_record
from pflow_mcp_plugin.host.running.resumption import EarlierRun
from pflow_mcp_plugin.host.running.run_record import RunRecord
from pflow_mcp_plugin.storage import StoreError

NO = ValueError("not now")
FULL = sqlite3.OperationalError("database or disk is full")
UNKNOWN = PflowError("the connection was lost", ran="unknown")


def sending(*values):
    """Return a workflow of nodes, one after the other, that send values; their ids are `s-` and the value."""
    return flow(*(step(f"s-{value}", "t-send", {"value": value}) for value in values))


def in_batch(items, **settings):
    return flow(step("all", "t-send", {"value": "${item}"}, batch={"items": items, **settings}))


def runs(bench):
    return bench.host.paths.state / "runs"


def records(bench):
    return sorted(path.name for path in runs(bench).rglob("*.db"))


@pytest.mark.parametrize("failure", [NO, ValueError("no \udcff")], ids=["a failure", "not of UTF-8"])
def test_what_was_done_is_kept_and_the_rest_is_run(bench, sent, resumed, failure):
    failed = bench.run_failing({"b": failure}, sending("a", "b", "c"))
    assert (failed.exit_code, sent, len(records(bench))) == (1, ["a"], 1)
    assert "crashed" not in failed.error.message
    report = resumed(failed.run_id)
    assert (report.error, report.data["outputs"]) == (None, {"value": "c"})
    assert report.data["run_id"] == failed.run_id
    assert (sent, records(bench)) == (["a", "b", "c"], [])
    assert bench.run(sending("d")).success
    assert records(bench) == []


def test_a_step_of_unknown_outcome_is_not_repeated_before_somebody_has_decided(bench, sent, resumed):
    failed = bench.run_failing({"b": UNKNOWN}, sending("a", "b", "c"))
    (open_step,) = failed.error.details["undecided"]
    assert (open_step["step"], open_step["state"], open_step["params"]) == ("s-b", "unknown", {"value": "b"})
    assert failed.exit_code == 4
    done, not_done = failed.error.suggestions[-2:]
    assert "--assume-done s-b" in done
    assert "--assume-not-done s-b" in not_done
    report = resumed()
    assert (report.exit_code, report.error.details["undecided"], sent) == (4, [open_step], ["a"])


@pytest.mark.parametrize(
    ("words", "done", "outputs"),
    [
        (["--assume-not-done", "s-b"], ["a", "b", "c"], {"value": "b"}),
        (["--assume-done", 's-b={"value": 7}'], ["a", "c"], {"value": 7}),
        (["--assume-done", "s-b=a text"], ["a", "c"], {"result": "a text"}),
        (["--skip", "s-b"], ["a", "c"], {}),
        (["--forget", "s-b"], ["a", "c"], {}),  # it comes after all
    ],
)
def test_what_is_decided_about_a_step_is_what_later_ones_see(bench, sent, resumed, words, done, outputs):
    failed = bench.run_failing({"b": UNKNOWN}, sending("a", "b", "c"))
    report = resumed(failed.run_id, *words)
    assert (report.error, sent) == (None, done)
    steps = {it["id"]: it for it in trace_of(failed)["steps"]}
    assert list(steps) == ["s-a", "s-b", "s-c"]
    assert outputs.items() <= steps["s-b"]["outputs"].items()
    assert ("skipped" in steps["s-b"]["details"]) == (not outputs)


def test_a_step_that_is_safe_to_repeat_is_repeated(bench, sent, resumed):
    bench.known["t-send"] = attrs.evolve(bench.known["t-send"], purity="flow_safe")
    failed = bench.run_failing({"b": UNKNOWN}, sending("a", "b"))
    assert (failed.exit_code, "undecided" in failed.error.details) == (1, False)
    assert resumed().error is None
    assert sent == ["a", "b"]


@pytest.mark.parametrize("parallel", [True, False])
def test_a_batch_goes_on_with_the_items_that_are_left(bench, sent, resumed, parallel):
    settings = {"parallel": parallel, "max_concurrent": 2, "error_handling": "fail_fast"}
    failed = bench.run_failing({3: NO}, in_batch(list(range(8)), **settings))
    before = list(sent)
    assert failed.error.suggestions[-1].endswith(f"pflow resume {failed.run_id}")
    report = resumed()
    assert report.error is None
    assert [it["value"] for it in report.data["outputs"]["results"]] == list(range(8))
    assert sorted(sent) == list(range(8))
    assert set(before) <= set(sent)


def test_a_failure_that_was_routed_keeps_its_route(bench, sent, resumed):
    workflow = sending("a", "b", "c")
    workflow["edges"] = [edge("s-a", "s-b", "error"), edge("s-a", "s-c"), edge("s-b", "s-c")]
    failed = bench.run_failing({"a": NO, "c": NO}, workflow)
    assert (failed.success, sent) == (False, ["b"])
    assert resumed().error is None
    assert sent == ["b", "c"]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside a batch"])
def test_a_run_that_succeeded_leaves_no_record_of_a_failure_that_an_edge_handled(bench, sent, inside):
    workflow = sending("a", "b")
    workflow["edges"] = [edge("s-a", "s-b", "error")]
    if inside:
        settings = {"items": [1, 2], "error_handling": "continue"}
        workflow = flow(step("each", "workflow", {"workflow": workflow}, batch=settings))
    assert bench.run_failing({"a": NO}, workflow).success
    assert (sent, records(bench)) == (["b"] * (2 if inside else 1), [])


@pytest.mark.parametrize("parallel", [True, False])
def test_an_item_that_is_gone_is_named_before_another_is_sent(bench, sent, resumed, mended, parallel):
    bench.run_failing({"d": NO}, in_batch(["a", "b", "c", "d"], error_handling="fail_fast"))
    shorter = mended(in_batch(["b", "c", "d"], parallel=parallel))
    report = resumed(*shorter)
    assert (sent, report.error.details["unmatched"][0]["step"]) == (["a", "b", "c"], "all[0]")
    assert report.error.suggestions[0].endswith("--forget 'all[0]'")  # which zsh would take for a pattern
    assert resumed(*shorter, "--forget", "all[0]").error is None
    assert sent == ["a", "b", "c", "d"]


def test_what_follows_a_step_that_is_repeated_follows_again_where_it_gets_something_else(
    bench, sent, resumed, mended
):
    @bench.acts("t-count", (), ["n"])
    def count(shared, params):
        shared["n"] = len(sent)

    steps = [("tell", "${count.n} sent"), ("same", "same"), ("b", "b")]
    workflow = flow(step("count", "t-count"), *(step(name, "t-send", {"value": it}) for name, it in steps))
    bench.run_failing({"b": NO}, workflow)
    shown = resumed("--rerun", "count", "--dry-run", *mended(workflow)).data["steps"]
    assert [it["then"] for it in shown] == ["run", "run if changed", "run if changed", "run"]
    assert resumed("--rerun", "count").error is None
    assert sent == ["0 sent", "same", "2 sent", "b"]


def test_inputs_are_those_of_the_run_unless_others_are_given_and_secret_ones_are_not_kept(
    bench, sent, resumed
):
    workflow = sending("${value}", "${value} ${token}")
    workflow["nodes"][0]["id"], workflow["nodes"][1]["id"] = "a", "b"
    workflow["inputs"] = {"value": {"required": True}, "token": {"required": True, "secret": True}}
    bench.run_failing({"first": NO}, workflow, value="first", token="planted-4711")
    (record,) = runs(bench).rglob("*.db")
    assert b"planted-4711" not in record.read_bytes()
    with pytest.raises(PflowError, match="token"):
        resumed()
    assert resumed("token=other").error is None
    assert sent == ["first", "first other"]


def test_a_large_result_is_kept_beside_the_record_and_goes_with_it(bench, sent, resumed):
    long = 'ä\ud800"' * 700_000
    values = {"a": long, "b": "b", "c": "${a.value}"}
    bench.run_failing({"b": NO}, flow(*(step(it, "t-send", {"value": values[it]}) for it in values)))
    (beside,) = runs(bench).rglob("*.json")
    assert beside.stat().st_mode & 0o777 == 0o600
    assert resumed().error is None
    assert sent == [long, "b", long]
    assert not list(runs(bench).rglob("*.json"))


@pytest.mark.parametrize("error", [FULL, OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))])
def test_a_run_that_finds_a_full_disk_goes_on_up_to_the_first_step_that_may_do_harm(
    bench, sent, unrecorded, error
):
    unrecorded(error)
    outcome = bench.run(flow(step("a", "t-look", {"value": "a"}), step("b", "t-send", {"value": "b"})))
    assert (sent, records(bench), outcome.error.ran) == (["a"], [], "not ran")
    assert outcome.error.message.startswith("b was not begun, as the record of the run cannot")
    assert outcome.error.suggestions == ("Free some disk space first",)


def test_a_step_whose_record_does_not_reach_the_disk_is_known_not_to_have_happened(
    bench, sent, resumed, monkeypatch
):
    def refuse(self):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "_sync", refuse)
        error = bench.run(sending("a", "b")).error
    assert (sent, error.ran, error.suggestions) == ([], "not ran", ())
    assert resumed("--list").data[0]["open"] == []
    assert resumed().error is None
    assert sent == ["a", "b"]


def test_a_step_that_cannot_be_recorded_is_not_begun(bench, sent, monkeypatch):
    def refuse(self, steps):
        if [step.place for step in steps] == ["s-b"]:
            raise StoreError(self.path, str(FULL)) from FULL
        return usual(self, steps)

    usual = RunRecord.sent
    monkeypatch.setattr(RunRecord, "sent", refuse)
    workflow = sending("a", "b", "c")
    workflow["edges"] = [edge("s-a", "s-b"), edge("s-b", "s-c"), edge("s-b", "s-c", "error")]
    outcome = bench.run(workflow)
    assert (sent, outcome.error.ran) == (["a"], "not ran")
    assert "disk is full" in outcome.error.message


def test_a_run_that_leaves_no_record_does_not_offer_to_resume_it(bench, sent, monkeypatch):
    def refuse(self, *_, **options):
        raise StoreError(self.path, str(FULL)) from FULL

    for name in ("sent", "ended"):
        monkeypatch.setattr(RunRecord, name, refuse)
    outcome = bench.run(flow(step("a", "t-look", {"value": "a"}), step("b", "t-send", {"value": "b"})))
    assert (sent, records(bench)) == (["a"], [])
    assert outcome.error.message.startswith("b was not begun, as the record of the run cannot")
    assert outcome.error.suggestions == ("Free some disk space first",)


def test_a_result_that_is_no_json_is_said_and_its_step_stays_done(bench, sent, resumed):
    bench.acts("t-object", (), ["made"])(lambda shared, params: shared.update(made=object()))
    bench.run_failing({"b": NO}, flow(step("o", "t-object"), *sending("b")["nodes"]))
    assert any("cannot be resumed past o" in it.message for it in bench.warnings)
    with pytest.raises(PflowError, match="o was done, but the record does not have its result"):
        raise resumed().error


@pytest.fixture
def unrecorded(monkeypatch):
    """Let the creation of each record fail for a reason."""

    def fail(error):
        def refuse(path, *, is_new):
            raise error

        monkeypatch.setattr(run_record, "_connected", refuse)

    return fail


def test_a_run_whose_record_cannot_be_created_says_so_goes_on_and_leaves_no_file(bench, sent, unrecorded):
    unrecorded(sqlite3.OperationalError("attempt to write a readonly database"))
    assert bench.run(sending("a", "b")).success
    assert (sent, records(bench)) == (["a", "b"], [])
    (warning,) = bench.warnings
    assert "cannot be resumed" in warning.message


def test_a_run_that_is_going_on_is_not_resumed(bench, sent, resumed):
    newest = max(bench.run_failing({"b": NO}, sending("a", "b")).run_id for _ in range(2))
    assert resumed("--list").data[0]["state"] == "failed"
    with EarlierRun.opened(runs(bench), newest) as holder:
        holder.begin(())
        for words in ([], [newest], [newest, "--abandon"], [newest, "--dry-run"]):
            with pytest.raises(PflowError, match="is going on"):
                resumed(*words)
        assert resumed("--list").data[0]["state"] == "going on"
    assert resumed("--list").data[0]["state"] == "failed"


def test_a_run_that_another_process_resumes_at_the_same_time_is_going_on(bench, sent, resumed, monkeypatch):
    run = bench.run_failing({"b": NO}, sending("a", "b")).run_id
    found = [run_record.records(runs(bench))]  # before the other process moves it
    with EarlierRun.opened(runs(bench), run) as holder:
        holder.begin(())
        listed = lambda folder: found.pop() if found else run_record.records(folder)  # noqa: E731
        monkeypatch.setattr(resumption, "records", listed)
        with pytest.raises(PflowError, match="is going on"):
            resumed(run)
    assert found == []


def test_a_run_that_has_sent_something_is_not_resumed_by_another_process(bench, sent):
    opens = "import sys; from pathlib import Path; RunRecord.open(Path(sys.argv[1]))"
    program = f"from {RunRecord.__module__} import RunRecord; {opens}"

    @bench.acts("t-look", ["value"], ["said"])
    def look(shared, params):
        (path,) = runs(bench).rglob("*.db")
        command = [sys.executable, "-c", program, str(path)]
        shared["said"] = subprocess.run(command, capture_output=True, text=True, check=False).stderr

    outcome = bench.run(flow(*sending("a", "b")["nodes"], step("look", "t-look")))
    assert "is going on" in outcome.outputs["said"]


def test_runs_and_their_steps_are_listed(bench, sent, resumed):
    failed = bench.run_failing({"b": UNKNOWN}, sending("a", "b", "c"))
    assert resumed("--list").data == [
        {"run": failed.run_id, "workflow": "wf", "state": "failed", "done": 1, "open": ["s-b"]}
    ]
    shown = resumed("--dry-run")
    assert [(it["step"], it["then"]) for it in shown.data["steps"]] == [("s-a", "keep"), ("s-b", "decide")]
    shown = resumed("--dry-run", "--assume-not-done", "s-b")
    assert [it["then"] for it in shown.data["steps"]] == ["keep", "run"]
    assert resumed("--dry-run").data["steps"][1]["then"] == "decide"
    assert sent == ["a"]


def test_an_open_step_is_shown_with_what_it_reads_from_the_shared_store(bench, sent, resumed):
    @bench.acts("t-read", inputs=("value",))
    def read(shared, params):
        raise UNKNOWN

    batch = {"items": ["a", "b"], "as": "value", "error_handling": "continue"}
    failed = bench.run(flow(step("all", "t-read", batch=batch)))
    assert [it["params"] for it in failed.error.details["undecided"]] == [{"value": "a"}, {"value": "b"}]


@pytest.mark.parametrize("words", [[], ["--only-failed"], ["--dry-run"]], ids=" ".join)
def test_an_empty_id_is_not_the_last_run(bench, sent, resumed, words):
    bench.run_failing({"b": NO}, sending("a", "b"))
    with pytest.raises(PflowError, match='There is no run "" to resume') as unknown:
        resumed("", *words)
    assert unknown.value.exit_code == 2
    with pytest.raises(PflowError, match='There is no run ""'):
        bench.host.runner.resume("", {})
    assert sent == ["a"]


def test_a_run_that_nobody_wants_to_go_on_with_is_abandoned_by_its_id(bench, sent, resumed):
    failed = bench.run_failing({"b": UNKNOWN}, sending("a", "b"))
    with pytest.raises(PflowError, match="needs the id"):
        resumed("--abandon")
    with pytest.raises(PflowError, match="--dry-run"):
        resumed(failed.run_id, "--abandon", "--dry-run")
    assert len(records(bench)) == 1
    resumed(failed.run_id, "--abandon")
    assert records(bench) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--assume-done", "s-b"], "has no result"),
        (["--assume-done", "s-b={'a': 1}"], "The result of s-b is not JSON"),
        (["--assume-done", "s-b=RESULT"], "The result of s-b is not JSON"),
        (["--assume-not-done", "s-x"], "s-x is no step of the run"),
        (["--skip", "s-a"], "s-a has no open step"),
        (["20260101-000000-00000000"], "There is no run 20260101-000000-00000000"),
    ],
)
def test_a_wrong_decision_is_refused(bench, sent, resumed, words, says):
    bench.run_failing({"b": UNKNOWN}, sending("a", "b"))
    with pytest.raises(PflowError, match=says) as caught:
        resumed(*words)
    assert caught.value.kind in ("usage", "not_found")
    assert f"Did you mean {words[-1]}?" not in caught.value.suggestions


@pytest.mark.parametrize(
    ("words", "done"),
    [(["--assume-not-done", "s-b"], ["b"]), (["--skip", "s-b"], []), (["--assume-done", "s-b={}"], [])],
)
def test_the_id_of_a_loops_node_means_its_open_pass_not_an_earlier_one_that_failed(
    bench, sent, resumed, words, done
):
    bench.failing = {"b": [KeyboardInterrupt(), NO]}  # the last is raised first
    node = step("s-b", "t-send", {"value": "b"})
    loop = flow(
        node, step("s-w", "t-look", {"value": "w"}), edges=[edge("s-b", "s-w", "error"), edge("s-w", "s-b")]
    )
    failed = bench.run(loop)
    assert [it["step"] for it in failed.error.details["undecided"]] == ["s-b#2"]
    with pytest.raises(PflowError, match="There are two decisions about s-b#2"):
        resumed(failed.run_id, *words, "--skip", "s-b#2", "--assume-not-done", "s-b#2")
    report = resumed(failed.run_id, *words)
    assert (report.error, sent) == (None, ["w", *done])


def test_with_a_decision_about_a_later_pass_the_id_of_a_loops_node_means_the_first(bench, sent, resumed):
    bench.failing = {"b": [KeyboardInterrupt(), NO]}
    node = step("s-b", "t-send", {"value": "b"})
    pause = step("s-w", "t-look", {"value": "w"})
    bench.run(flow(node, pause, edges=[edge("s-b", "s-w", "error"), edge("s-w", "s-b")]))
    shown = resumed("--skip", "s-b", "--assume-done", "s-b#2={}", "--dry-run").data
    assert {it["step"]: it["state"] for it in shown["steps"] if it["step"] != "s-w"} == {
        "s-b": "skipped",
        "s-b#2": "done",
    }


def test_a_list_opens_no_record_that_it_knows(bench, sent, resumed):
    failing = {"b": NO, "c": UNKNOWN}
    ran = [bench.run_failing(failing, sending("a", last)).run_id for last in "bc"]
    with EarlierRun.opened(runs(bench), ran[0]) as earlier:
        earlier.begin(())  # and is killed: the next list looks into the record, for the last time
    first = resumed("--list").data
    assert {it["run"]: it["open"] for it in first} == {ran[0]: [], ran[1]: ["s-c"]}
    assert {it["state"] for it in first} == {"failed"}
    for path in runs(bench).rglob("*.db"):
        path.write_text("no database any more")
    assert resumed("--list").data == first


def test_the_record_of_a_run_that_goes_on_is_among_those_that_are_kept(bench, sent, resumed):
    bench.failing = {"b": NO}
    run = bench.run(sending("a" * (2 << 20), "b")).run_id
    names = {run, f"{run}.db"}
    ended, going_on = runs(bench) / "ended", runs(bench) / "open"
    assert [path.parent for path in runs(bench).rglob("*.db")] == [ended]
    with EarlierRun.opened(runs(bench), run) as earlier:
        earlier.begin(())
        assert {path.name for path in going_on.iterdir() if "-wal" not in path.name} == names
    resumed(run)
    assert {path.name for path in ended.iterdir()} == {*names, f"{run}.summary"}
    assert list(going_on.iterdir()) == []
    resumed(run, "--abandon")
    assert [path for path in runs(bench).rglob("*") if path.is_file()] == []


def test_now_is_when_the_run_first_began(bench, sent, resumed):
    steps = [step("early", "transform", {"expression": "now()"}), *sending("a", "b")["nodes"]]
    steps += [step("late", "transform", {"expression": "now()"}, when="now() == early.result")]
    failed = bench.run_failing(
        {"b": NO}, flow(*steps, outputs={"early": "${early.result}", "late": "${late.result}"})
    )
    assert failed.exit_code == 1
    long_ago = f"20010203-040506-{failed.run_id[-8:]}"
    for path in runs(bench).rglob(f"{failed.run_id}*"):
        path.rename(path.with_name(path.name.replace(failed.run_id, long_ago)))
    report = resumed(long_ago)
    assert sent == ["a", "b"]
    assert report.data["outputs"]["late"] == "2001-02-03T04:05:06+00:00"
    assert report.data["outputs"]["early"] == report.data["outputs"]["late"]


SECRET = "planted-4711"


WORKFLOW = flow(step("log-in", "t-token", keep=False), step("send", "t-send", {"value": "${log-in.token}"}))


@pytest.fixture
def fails(bench, sent):
    """Run the workflow: it makes a token, which is among what was sent, and cannot send it."""

    @bench.acts("t-token", (), ["token"])
    def token(shared, params):
        sent.append("token")
        shared["token"] = SECRET

    return lambda workflow=WORKFLOW: bench.run_failing({SECRET: ValueError("not now")}, workflow)


@pytest.mark.parametrize("batch", [{}, {"batch": {"items": [1, 2]}}], ids=["step", "batch"])
def test_neither_the_record_nor_the_trace_has_it_nor_a_later_step_that_was_given_it(bench, fails, batch):
    first, last = WORKFLOW["nodes"]
    later = {"value": "${log-in.results[0].token}"} if batch else last["params"]
    given = step("look", "t-look", {"value": 1, "more": later["value"]})
    fails(flow({**first, **batch}, given, {**last, "params": later}))
    kept = {it: it.read_bytes() for it in bench.host.paths.state.rglob("*") if it.suffix in (".db", ".json")}
    assert {path.parent.name for path in kept} >= {"ended", "traces"}
    assert [path for path, content in kept.items() if SECRET.encode() in content] == []
    assert bench.run(flow(first, outputs={"token": "${log-in.token}"})).outputs == {"token": SECRET}


def test_what_a_function_makes_of_it_is_not_kept_either_but_returned(bench, fails):
    control = RunControl()
    upper = step("upper", "transform", {"expression": 'upper("log-in".token)'})
    workflow = flow(WORKFLOW["nodes"][0], upper, outputs={"upper": "${upper.result}"})
    ended = bench.host.runner.run(workflow, {}, name="wf", control=control)
    assert (ended.outputs, control.secrets) == ({"upper": SECRET.upper()}, frozenset())
    assert SECRET.upper() not in ended.trace_path.read_text()


@pytest.mark.parametrize(
    ("words", "sends"),
    [
        (["--rerun", "log-in"], ["token", "token", SECRET]),
        (["--assume-done", f'log-in={{"token": "{SECRET}"}}'], ["token", SECRET]),
    ],
)
def test_a_run_is_not_resumed_past_what_may_have_done_harm_without_its_result(
    fails, sent, resumed, words, sends
):
    assert fails().exit_code == 1
    refused = resumed()
    assert (refused.exit_code, sent) == (1, ["token"])
    assert refused.error.message.startswith("log-in was done, but the record does not have its result")
    options = ("--assume-done log-in=RESULT", "--rerun log-in")
    assert all(one in shown for one, shown in zip(options, refused.error.suggestions, strict=True))
    assert resumed(*words).error is None
    assert sent == sends


def test_a_result_that_is_given_for_it_is_not_kept_either(bench, fails, sent, resumed):
    fails()
    given = ("--assume-done", f'log-in={{"token": "{SECRET}"}}')
    with patch.object(bench, "failing", {SECRET: ValueError("not now either")}):
        assert "not now either" in resumed(*given).error.message
    [record] = runs(bench).rglob("*.db")
    assert SECRET.encode() not in record.read_bytes()
    assert resumed().error.message.startswith("log-in was done, but the record does not have its result")
    assert resumed(*given).error is None
    assert sent == ["token", SECRET]


def test_what_only_reads_is_run_again(bench, fails, sent, resumed):
    bench.known["t-token"] = attrs.evolve(bench.known["t-token"], purity="flow_safe")
    fails()
    assert resumed().error is None
    assert sent == ["token", "token", SECRET]


def test_it_has_no_effect_on_a_workflow_that_a_node_runs_which_is_said(bench, fails):
    problems = bench.host.runner.validate(flow(step("outer", "workflow", {"workflow": WORKFLOW}, keep=False)))
    assert ["which are kept" in it.message for it in problems] == [True]


def test_another_value_is_refused(bench, fails):
    with pytest.raises(PflowError, match="Expected true or false"):
        bench.run(flow(step("log-in", "t-token", keep="no")))
