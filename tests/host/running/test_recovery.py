import asyncio

import pocketflow
import pytest


class Limited(pocketflow.Node):
    def prep(self, shared):
        return shared["log"]

    def exec(self, log):
        log.append("call")
        return "limited" if log.count("call") < 3 else "answer"

    def post(self, shared, prep_res, exec_res):
        if exec_res == "limited":
            shared["error"] = "slow down"
            return "rate_limited"
        shared["answer"] = exec_res
        shared["error"] = None
        return "default"


class BackOff(pocketflow.Node):
    def post(self, shared, prep_res, exec_res):
        shared["log"].append("wait")


WAYS = ["call", "wait", "call", "wait", "call"]


def test_in_a_workflow_edges_lead_to_the_handler_and_back(bench):
    bench.node("t-limited", outputs=["answer"], actions=("default", "rate_limited"))(Limited)
    bench.node("t-back-off")(BackOff)
    bench.node("t-end")(pocketflow.Node)
    workflow = {
        "inputs": {"log": {"type": "list"}},
        "nodes": [
            {"id": "search", "type": "t-limited"},
            {"id": "retry_handler", "type": "t-back-off"},
            {"id": "end", "type": "t-end"},
        ],
        "edges": [
            {"from": "search", "to": "end"},
            {"from": "search", "to": "retry_handler", "action": "rate_limited"},
            {"from": "retry_handler", "to": "search"},
        ],
        "outputs": {"answer": "${search.answer}"},
    }
    log = []
    outcome = bench.run(workflow, log=log)
    assert outcome.outputs == {"answer": "answer"}
    assert log == WAYS
    assert outcome.steps == 6


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
    nodes = [{"id": "a", "type": "t-raises", **batch}, {"id": "z", "type": "t-end"}]
    edges = [{"from": "a", "to": "z", "action": "error"}]
    outcome = bench.run({"nodes": nodes, "edges": edges, "outputs": {"why": "${a.error}"}})
    assert (outcome.success, outcome.steps) == (True, 2)
    assert outcome.exit_code == 0
    failed = bench.run({"nodes": nodes[:1]})
    assert failed.exit_code == 1
    assert "Node a (t-raises) failed" in failed.error.message
    assert f"{type(raised).__name__}: enough" in failed.error.message
