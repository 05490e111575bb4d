import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from programs import until
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import PflowError, RunControl, RunOrigin, Workflow
from pflow_mcp_plugin.host.running.current_run import CurrentRun, RunProgress
from pflow_mcp_plugin.host.running.resumption import EarlierRun

SOON = 10.0
"""Seconds within which what is cancelled must have ended; a node here would take ten times as long."""


@pytest.fixture
def cancelled(bench):
    """Run a workflow in another thread and cancel it once `begun()` is true; return the outcome."""

    def cancelled(workflow, begun):
        control = RunControl()
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(bench.host.runner.run, workflow, {}, control=control)
            until(begun)
            began = time.monotonic()
            control.cancel()
            outcome = running.result(60)
        assert time.monotonic() - began < SOON
        assert (outcome.success, outcome.exit_code, outcome.error.kind) == (False, 130, "interrupted")
        assert trace_of(outcome)["error"]["type"] == "interrupted"
        return outcome

    return cancelled


def test_no_further_step_begins_and_the_failure_of_a_stopped_node_is_not_routed(bench, cancelled):
    begun, stopped = threading.Event(), threading.Event()

    @bench.acts("t-wait", (), ["n"])
    def wait_node(shared, params):
        shared["n"] = None
        shared["__run__"].on_cancel(stopped.set)
        begun.set()
        assert stopped.wait(100)
        raise ValueError("stopped")

    workflow = flow(step("a", "t-wait"), step("b", "t-wait"), edges=[edge("a", "b", "error")])
    outcome = cancelled(workflow, begun.is_set)
    assert outcome.error.message.startswith("The run was interrupted at node a")
    assert outcome.steps == 1
    assert outcome.checkpoint["a"]["n"] is None


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("batch", [None, {"items": [1, 2], "parallel": True, "error_handling": "continue"}])
def test_nobody_knows_how_far_a_command_came_that_was_ended_with_its_run(
    bench, cancelled, tmp_path, check, batch
):
    command = "echo part; echo >> begun; sleep 100"
    node = step("a", "shell", {"command": command, "check": check, "cwd": str(tmp_path)})
    begun, count = tmp_path / "begun", 2 if batch else 1
    workflow = flow({**node, "batch": batch} if batch else node)
    cancelled(workflow, lambda: begun.exists() and len(begun.read_text()) == count)
    with EarlierRun.opened(bench.host.paths.state / "runs") as earlier:
        assert sorted(it.place for it in earlier.undecided) == (["a[0]", "a[1]"] if batch else ["a"])


def test_an_item_that_cannot_be_stopped_does_not_keep_its_run(bench, cancelled):
    begun, end = threading.Event(), threading.Event()

    @bench.acts("t-deaf")
    def deaf(shared, params):
        begun.set()
        end.wait(100)

    node = step("b", "t-deaf", batch={"items": [1, 2], "parallel": True})
    cancelled(flow(node), begun.is_set)
    end.set()


def test_the_wait_before_a_retry_ends(bench, cancelled):
    begun = threading.Event()

    @bench.acts("t-fail")
    def fail(shared, params):
        begun.set()
        raise PflowError("busy", ran="not ran", retryable=True, retry_after=100)

    node = step("a", "t-fail", retry={"max": 3, "wait": 100})
    assert cancelled(flow(node), begun.is_set).steps == 1


def test_a_run_that_is_cancelled_before_it_begins_runs_nothing_and_one_that_is_over_cannot_be(bench):
    told, workflow = [], flow(step("a", "echo", {"message": "x"}))

    @contextmanager
    def context(run):
        told.append("entered")
        run.on_cancel(lambda: told.append("stopped"))
        yield

    bench.plug(pflow_run_context=context)
    control, early = RunControl(), RunControl()
    early.cancel()
    outcome = bench.host.runner.run(workflow, {}, control=early)
    assert (outcome.exit_code, outcome.steps, told) == (130, 0, [])
    assert "before its first node" in outcome.error.message
    assert bench.host.runner.run(workflow, {}, control=control).success
    control.cancel()
    assert told == ["entered"]


def test_a_listener_that_fails_does_not_fail_the_run(bench):
    calls = []

    def listen(progress):
        calls.append(progress)
        raise OSError("nobody listens")

    workflow = flow(step("a", "echo", {"message": "x"}))
    assert bench.host.runner.run(workflow, {}, control=RunControl(listen)).success
    assert len(calls) == 1
    assert "nobody listens" in bench.warnings[0].message


def test_a_run_has_its_origin_and_its_trace_the_owner(bench):
    origins = []

    @bench.acts("t-origin")
    def origin_node(shared, params):
        origins.append(shared["__run__"].origin)

    origin = RunOrigin(owner='an "owner" of\nruns', above=("x",), trace_parent="00-1-2-3")
    workflow = flow(step("a", "t-origin"))
    outcome = bench.host.runner.run(workflow, {}, origin=origin)
    assert origins == [origin]
    assert trace_of(outcome)["owner"] == origin.owner
    assert "owner" not in trace_of(bench.host.runner.run(workflow, {}))
    traces = bench.host.traces
    assert traces.find(owner=origin.owner) == outcome.trace_path
    assert traces.find(owner="") != outcome.trace_path


def told(expected, *calls):
    """Return what is reported in a run of some nodes, one report for each call."""
    reports = []
    progress = RunProgress(expected, lambda *report: reports.append(report))
    for call in calls:
        call(progress)
    return reports


def test_a_message_is_redacted_and_cut(bench):
    reports = []
    control = RunControl(reports.append)
    run = CurrentRun(bench.host, Workflow(name="wf", nodes=()), control=control, expected=2)
    run.add_secrets(["hunter2hunter2"])
    run.progress.within(1, 4, f"a hunter2hunter2 {'x' * 300}")
    [report] = reports
    assert (report.done, report.total, report.message) == (0.25, 2, f"a *** {'x' * 194}")


def test_progress_counts_the_nodes_and_the_part_of_the_one_that_runs():
    assert told(
        2,
        lambda it: it.begin("a"),
        lambda it: it.within(1, 4, "some"),
        lambda it: it.end("a"),
        lambda it: it.begin("b"),
        lambda it: it.begin("c"),
    ) == [
        (0.0, 2, "node a"),
        (0.25, 2, "some"),
        (1.0, 2, "node a done"),
        (1.0, 2, "node b"),
        (1.0, 3, "node c"),
    ]


def test_a_share_that_makes_no_sense_counts_as_none_and_progress_never_goes_back():
    odd = [(5, 4), (-1, 4), (1, None), (1, 0), (1, 4)]
    calls = [lambda it, pair=pair: it.within(*pair, "") for pair in [(2, 4), *odd]]
    assert told(0, *calls) == [(0.5, None, "")] * 6


def test_what_runs_inside_a_node_is_a_part_of_that_node():
    def inside(progress):
        inner = progress.inside(2)
        inner.begin("in")
        inner.within(1, 2, "half")
        inner.within(2, 1, "too much")
        inner.end("in")
        inner.within(0, 4, "none")
        inner.end("more than were expected")
        progress.inside(0).end("silent")

    assert told(1, lambda it: it.begin("w"), inside) == [
        (0.0, 1, "node w"),
        (0.0, 1, "node in"),
        (0.25, 1, "half"),
        (0.25, 1, "too much"),
        (0.5, 1, "node in done"),
        (0.5, 1, "none"),
        (1.0, 1, "node more than were expected done"),
    ]
