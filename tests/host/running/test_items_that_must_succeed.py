"""A run ends as failed if items that must succeed did not, or if nobody knows whether one happened."""

import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError, RunOptions
from pflow_mcp_plugin.host.cli.run_commands import run
from pflow_mcp_plugin.host.cli.trace_commands import show

NO = ValueError("no")
UNKNOWN = PflowError("the connection was lost", ran="unknown", action="timeout")
MUST = RunOptions(items_must_succeed=True)


def then_last(edges=("default",), **settings):
    """Return a workflow of a batch and a node after it."""
    batch = {"items": [0, 1, 2, 3], **settings}
    return flow(
        step("all", "t-send", {"value": "${item}"}, batch=batch),
        step("last", "t-send", {"value": "last"}),
        edges=[edge("all", "last", action) for action in edges],
    )


def test_the_run_goes_on_to_its_end_and_fails_with_what_to_do_next(bench, sent, resumed):
    bench.failing = {1: NO, 3: NO}
    failed = bench.host.runner.with_options(MUST).run(then_last(error_handling="continue"), {})
    assert (failed.exit_code, sent) == (1, [0, 2, "last"])
    assert failed.outputs == {"value": "last"}
    assert failed.error.message.startswith("2 items of batches failed: all (2 of 4)")
    assert failed.error.suggestions == (
        f"To run the failed items again: pflow resume {failed.run_id} --only-failed",
    )
    bench.failing = {3: NO}
    again = resumed(failed.run_id, "--only-failed")
    assert (again.exit_code, sent) == (1, [0, 2, "last", 1])
    assert {it["step"]: it["then"] for it in resumed("--dry-run").data["steps"]}["last"] == "keep"
    bench.failing = {}
    kept = resumed()  # it asks for nothing else, and still fails
    assert (kept.exit_code, kept.error.details["failed"]) == (1, 1)
    assert resumed("--only-failed").error is None
    assert sent == [0, 2, "last", 1, 3]


def test_a_run_may_be_asked_only_when_it_is_resumed(bench, sent, resumed):
    ended = bench.run_failing({1: NO}, then_last(error_handling="continue"))
    assert ended.success
    bench.failing = {1: NO}
    assert resumed(ended.run_id, "--items-must-succeed").exit_code == 1


def test_the_command_says_it_too(bench, sent, mended):
    (_, path), bench.failing = mended(then_last(error_handling="continue")), {1: NO}
    report = run.main([path, "--items-must-succeed"], "run", standalone_mode=False, obj=bench.host)
    assert (report.exit_code, report.data["outputs"]) == (1, {"value": "last"})


@pytest.mark.parametrize("parallel", [True, False])
def test_a_batch_fails_after_all_its_items_ran(bench, sent, resumed, parallel):
    failed = bench.run_failing({1: NO, 2: NO}, then_last(on_failed_items="fail", parallel=parallel))
    assert (failed.exit_code, sorted(sent)) == (1, [0, 3])
    assert "2 of which failed" in failed.error.message
    assert failed.error.suggestions[-1].endswith(f"pflow resume {failed.run_id} --only-failed")
    assert resumed(failed.run_id, "--only-failed").error is None
    assert sorted(map(str, sent)) == ["0", "1", "2", "3", "last"]


def of_workflows(**settings):
    """Return a batch that runs a workflow for each item: it sends the item, and `fin-` and the item."""
    inner = flow(
        step("one", "t-send", {"value": "${item}"}),
        step("fin", "t-send", {"value": "fin-${item}"}),
        edges=[edge("one", "fin"), edge("one", "fin", "error")],
        inputs={"item": {"type": "any"}},
    )
    items = {"items": ["a", "b", "c"], "error_handling": "continue", **settings}
    each = step("all", "workflow", {"workflow": inner, "item": "${item}"}, batch=items)
    return flow(each, step("last", "t-send", {"value": "last"}))


@pytest.mark.parametrize("parallel", [True, False])
def test_a_failed_item_is_kept_also_where_it_ran_a_workflow(bench, sent, resumed, parallel):
    failed = bench.run_failing({"fin-b": NO, "last": NO}, of_workflows(parallel=parallel))
    before = sorted(sent)
    assert before == ["a", "b", "c", "fin-a", "fin-c"]
    assert resumed(failed.run_id).error is None
    assert sorted(sent) == [*before, "last"]


def test_only_what_failed_an_item_runs_again_not_what_it_handled(bench, sent, resumed):
    bench.failing = {"b": NO, "fin-c": NO}
    ended = bench.host.runner.with_options(MUST).run(of_workflows(), {})
    before = list(sent)
    assert before == ["a", "fin-a", "fin-b", "c", "last"]
    bench.failing = {}
    assert resumed(ended.run_id, "--only-failed").error is None
    assert sent == [*before, "fin-c"]


def test_failed_items_that_a_run_no_longer_comes_to_are_failed_no_more(bench, sent, resumed):
    one = then_last(error_handling="continue")["nodes"][0]
    failed = bench.run_failing({1: NO}, flow(one, {**one, "id": "again", "when": "all.failed > `0`"}))
    assert (failed.error, sent) == (None, [0, 2, 3, 0, 2, 3])
    assert resumed(failed.run_id, "--only-failed").error is None
    with pytest.raises(PflowError, match="There is no run"):
        resumed(failed.run_id, "--only-failed")
    assert sent == [0, 2, 3, 0, 2, 3, 1]


@pytest.mark.parametrize("inside", [False, True])
def test_what_follows_failed_items_follows_again_with_what_they_return_then(bench, sent, resumed, inside):
    one, *others = then_last(error_handling="continue")["nodes"]
    count = step("count", "t-send", {"value": "${all.failed} failed"})
    workflow = flow(one, count, step("tell", "t-send", {"value": "so ${count.value}"}), *others)
    workflow = flow(step("outer", "workflow", {"workflow": workflow})) if inside else workflow
    failed = bench.run_failing({1: NO}, workflow)
    before = [0, 2, 3, "1 failed", "so 1 failed", "last"]
    assert (failed.error, sent) == (None, before)
    shown = resumed(failed.run_id, "--only-failed", "--dry-run").data["steps"]
    assert [it["then"] for it in shown] == ["keep", "run", "keep", "keep", *["run if changed"] * 3]
    bench.failing = {"so 0 failed": NO}
    assert resumed(failed.run_id, "--only-failed").exit_code == 1
    bench.failing, bench.warnings[:] = {}, []
    assert (resumed().error, sent) == (None, [*before, 1, "0 failed", "so 0 failed"])
    assert bench.warnings == []


def test_that_failure_is_routed_as_any_other(bench, sent):
    assert bench.run_failing({1: NO}, then_last(edges=["error"], on_failed_items="fail")).success
    assert sent == [0, 2, 3, "last"]


@pytest.mark.parametrize("others", [{}, {0: NO}, {3: NO}])
@pytest.mark.parametrize("parallel", [True, False])
def test_an_unknown_item_ends_the_run_with_4_whether_or_not_others_failed(
    bench, sent, resumed, others, parallel
):
    bench.failing = {1: UNKNOWN, **others}
    failed = bench.run(then_last(error_handling="continue", parallel=parallel))
    assert (failed.exit_code, "last" in sent) == (4, False)
    assert [it["step"] for it in failed.error.details["undecided"]] == ["all[1]"]
    bench.failing = {}
    assert resumed().exit_code == 4
    with pytest.raises(PflowError, match=r"two decisions about all\[1\]"):
        resumed("--assume-not-done", "all[1]", "--skip", "all[1]")
    assert resumed("--assume-not-done", "all[1]").error is None
    assert sent[-2:] == [1, "last"]
    assert len(sent) == 5 - len(others)  # items that failed are kept


def test_a_run_whose_unknown_step_was_routed_has_ended_and_names_it_as_open(bench, sent, resumed):
    bench.failing = {1: UNKNOWN}
    ended = bench.run(then_last(edges=["timeout"], error_handling="continue"))
    assert (ended.success, ended.exit_code, sent) == (True, 0, [0, 2, 3, "last"])
    (listed,) = resumed("--list").data
    assert (listed["state"], listed["open"]) == ("ended", ["all[1]"])
    shown = show.main([ended.run_id], "show", standalone_mode=False, obj=bench.host)
    assert shown.beside == {"open": ["all[1]"]}
    assert f"Open: all[1]; decide with: pflow resume {ended.run_id}" in shown.render()
    with pytest.raises(PflowError, match="no run to resume"):
        resumed()
    assert resumed(ended.run_id).exit_code == 4
    bench.failing = {}
    assert resumed(ended.run_id, "--assume-done", 'all[1]={"value": 1}').error is None
    assert sent == [0, 2, 3, "last"]


def test_what_runs_failed_items_again_and_is_stopped_goes_on_with_the_rest_of_them(bench, sent, resumed):
    bench.failing = {0: [NO], 1: [NO], 2: [NO]}
    ended = bench.run(then_last(error_handling="continue"))
    assert (ended.success, sent) == (True, [3, "last"])
    stopped = resumed(ended.run_id, "--only-failed", "--max-writes", "7")  # five at first, and two now
    assert (stopped.exit_code, sent) == (1, [3, "last", 0, 1])
    shown = {it["step"]: it["then"] for it in resumed(ended.run_id, "--dry-run").data["steps"]}
    assert (shown["all[2]"], shown["last"]) == ("run", "run if changed")
    assert resumed(ended.run_id, "--max-writes", "9").error is None
    assert sent == [3, "last", 0, 1, 2]
