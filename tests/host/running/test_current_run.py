from pflow_mcp_plugin.host.running.current_run import ProgressInside, RunProgress


def told(expected, *calls):
    """Return what is reported in a run of some nodes, one report for each call."""
    reports = []
    progress = RunProgress(
        reports.append, lambda text: text.replace("secret", "***"), expected, reports.append
    )
    for call in calls:
        call(progress)
    return [(it.done, it.total, it.message) for it in reports]


def test_progress_counts_the_nodes_and_the_part_of_the_one_that_runs():
    assert told(
        2,
        lambda it: it.begin("a"),
        lambda it: it.within(1, 4, f"a secret {'x' * 300}"),
        lambda it: it.within(4, 4, "all"),
        lambda it: it.end("a"),
        lambda it: it.begin("b"),
        lambda it: it.begin("c"),
        lambda it: it.begin("d"),
        lambda it: it.within(3, 4, "most"),
    ) == [
        (0.0, 2, "node a"),
        (0.25, 2, f"a *** {'x' * 194}"),
        (1.0, 2, "all"),
        (1.0, 2, "node a done"),
        (1.0, 2, "node b"),
        (1.0, 3, "node c"),
        (1.0, 4, "node d"),
        (1.75, 4, "most"),
    ]


def test_a_share_that_makes_no_sense_counts_as_none_and_progress_never_goes_back():
    odd = [(5, 4), (-1, 4), (1, None), (1, 0), (1, 4)]
    calls = [lambda it, pair=pair: it.within(*pair, "") for pair in [(2, 4), *odd]]
    assert told(0, *calls) == [(0.5, None, "")] * 6


def test_what_runs_inside_a_node_is_a_part_of_that_node():
    def inside(progress):
        inner = ProgressInside(progress, 2)
        inner.begin("in")
        inner.within(1, 2, "half")
        inner.within(2, 1, "too much")
        inner.end("in")
        inner.within(0, 4, "none")
        inner.within(4, 4, "all")
        inner.end("on")
        inner.end("more than were expected")
        ProgressInside(progress, 0).end("silent")

    assert told(1, lambda it: it.begin("w"), inside) == [
        (0.0, 1, "node w"),
        (0.0, 1, "node in"),
        (0.25, 1, "half"),
        (0.25, 1, "too much"),
        (0.5, 1, "node in done"),
        (0.5, 1, "none"),
        (1.0, 1, "all"),
        (1.0, 1, "node on done"),
        (1.0, 1, "node more than were expected done"),
    ]
