from pflow_mcp_plugin.contract import RunControl, Workflow
from pflow_mcp_plugin.host.running.current_run import CurrentRun, RunProgress


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
