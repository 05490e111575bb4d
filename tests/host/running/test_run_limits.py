"""A run stops before the call that its limits do not allow, and goes on with a higher one."""

import pytest
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import PflowError, RunOptions
from pflow_mcp_plugin.host.cli.config_commands import check_own_config


def batch(count, kind="t-send", **settings):
    return flow(step("all", kind, {"value": "${item}"}, batch={"items": list(range(count)), **settings}))


def limited(bench, workflow, **options):
    return bench.host.runner.with_options(RunOptions(**options)).run(workflow, {}, name="wf")


@pytest.mark.parametrize("parallel", [True, False])
def test_nothing_is_sent_beyond_a_limit_and_a_higher_one_goes_on(bench, sent, resumed, parallel):
    failed = limited(bench, batch(8, parallel=parallel, max_concurrent=3), max_calls=4)
    assert (failed.exit_code, len(sent)) == (1, 4)
    assert "the run has made 4 calls, its limit" in failed.error.message
    assert failed.error.details.items() >= {"limit": "max_calls", "value": 4}.items()
    assert failed.error.suggestions == (f"To allow more: pflow resume {failed.run_id} --max-calls 8",)
    assert "undecided" not in failed.error.details  # what had begun has ended
    (traced,) = trace_of(failed)["steps"]
    assert "its limit" in traced["error"]
    assert resumed(failed.run_id).exit_code == 1  # the calls of all parts count
    assert len(sent) == 4
    assert resumed(failed.run_id, "--max-calls", "6").exit_code == 1
    assert resumed(failed.run_id, "--max-calls", "8").error is None
    assert sorted(sent) == list(range(8))


def test_only_what_may_change_something_counts_as_a_write(bench, sent):
    writes = (step(value, "t-send", {"value": value}) for value in ("w", "x"))
    workflow = flow(step("read", "t-look", {"value": "r"}), *writes)
    failed = limited(bench, workflow, max_writes=1)
    assert (sent, failed.error.details["limit"]) == (["r", "w"], "max_writes")
    sent.clear()
    assert limited(bench, workflow, max_writes=0).exit_code == 1
    assert sent == ["r"]


def test_pflow_s_own_nodes_that_only_read_do_not_count(bench, sent):
    say = step("say", "echo", {"message": "x"})
    workflow = flow(say, step("look", "t-look", {"value": "${say.message}"}))
    assert limited(bench, workflow, max_calls=1).success


def test_a_retry_counts_and_so_do_those_of_earlier_parts(bench, sent, resumed):
    again = PflowError("busy", retryable=True, ran="not ran")
    bench.failing = {"a": [again, again]}
    retry = {"max": 3, "wait": 0}
    workflow = flow(step("a", "t-send", {"value": "a"}, retry=retry), step("b", "t-send", {"value": "b"}))
    assert limited(bench, workflow, max_calls=3).exit_code == 1
    assert sent == ["a"]
    assert resumed("--max-calls", "3").exit_code == 1
    assert resumed("--max-calls", "4").error is None
    assert sent == ["a", "b"]


def test_no_edge_leads_past_a_limit_from_inside_a_workflow_either(bench, sent, resumed):
    inner = flow(step("one", "t-send", {"value": 1}), step("two", "t-send", {"value": 2}))
    nodes = step("outer", "workflow", {"workflow": inner}), step("mend", "t-look", {"value": "mend"})
    workflow = flow(*nodes, edges=[edge("outer", "mend", "error")])
    failed = limited(bench, workflow, max_writes=1)
    assert (sent, failed.exit_code) == ([1], 1)
    assert "outer/two was not begun" in failed.error.message
    assert resumed("--max-writes", "2").error is None
    assert sent == [1, 2]


def test_a_run_without_a_record_is_limited_too(bench, sent):
    runner = bench.host.runner.with_options(RunOptions(max_calls=2))
    failed = runner.run(batch(3), {}, trace=False)
    assert (sent, failed.error.suggestions) == ([0, 1], ("To allow more: run it again with --max-calls 4",))


def test_the_limits_of_the_config_hold_for_each_run_and_node_type(bench, sent, resumed):
    bench.configure('[limits]\nmax_calls = 3\n[limits."t-send"]\nmax_calls = 1')
    assert bench.run(batch(4, "t-look")).error.details == {"limit": "max_calls", "node_type": "", "value": 3}
    sent.clear()
    failed = bench.run(batch(2))
    assert (sent, failed.error.details["node_type"]) == ([0], "t-send")
    (suggestion,) = failed.error.suggestions
    assert suggestion == f"Raise max_calls of t-send in pflow.toml, then: pflow resume {failed.run_id}"
    bench.configure('[limits."t-send"]\nmax_calls = 2')
    assert resumed(failed.run_id).error is None
    assert sent == [0, 1]


@pytest.mark.parametrize(
    ("text", "path", "says"),
    [
        ("[limits]\nmax_call = 3", "limits.max_call", "Unknown key max_call"),
        ("[limits]\nmax_calls = -1", "limits.max_calls", "whole number, 0 or more"),
        ('[limits."t-send"]\nmax_calls = 1.5', "limits.t-send.max_calls", "whole number, 0 or more"),
    ],
)
def test_a_mistake_is_named_and_no_run_goes_without_its_limits(bench, sent, text, path, says):
    bench.configure(text)
    (problem,) = check_own_config(bench.host)
    assert problem.path == path
    assert says in problem.message
    with pytest.raises(PflowError, match=says):
        bench.run(batch(1))
    assert sent == []


def test_a_limit_for_a_node_type_that_is_not_there_is_a_warning(bench, sent):
    bench.configure("[limits.shel]\nmax_calls = 3\n[limits.echo]\nmax_calls = 3\n")
    (problem,) = check_own_config(bench.host)
    told = (problem.severity, problem.path, problem.suggestion)
    assert told == ("warning", "limits.shel", "Did you mean shell?")
    bench.run(batch(1))
    assert sent == [0]
