import asyncio

import pocketflow
import pytest
from workflow_parts import edge, flow, step


@pytest.mark.parametrize(
    "raised",
    [
        asyncio.CancelledError("enough"),
        GeneratorExit("enough"),
        SystemExit("enough"),
        BaseExceptionGroup("enough", [GeneratorExit()]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("batch", [{}, {"batch": {"items": [1, 2], "parallel": True}}])
def test_whatever_a_node_raises_takes_the_edge_of_its_failures(bench, raised, batch):
    @bench.acts("t-raises", actions=("default", "error"))
    def raises(shared, params):
        raise raised

    bench.node("t-end")(pocketflow.Node)
    nodes = [step("a", "t-raises", **batch), step("z", "t-end")]
    edges = [edge("a", "z", "error")]
    outcome = bench.run(flow(*nodes, edges=edges, outputs={"why": "${a.error}"}))
    assert (outcome.success, outcome.steps) == (True, 2)
    assert outcome.exit_code == 0
    failed = bench.run(flow(*nodes[:1]))
    assert failed.exit_code == 1
    assert "Node a (t-raises) failed" in failed.error.message
    assert f"{type(raised).__name__}: enough" in failed.error.message
