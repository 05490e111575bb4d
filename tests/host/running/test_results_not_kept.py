"""What a node returns can be left out of the record; then nothing is done twice for it, either."""

import attrs
import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError, RunControl

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
