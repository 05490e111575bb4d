"""Large results of a batch are read from the record where they are needed, and nobody sees the difference."""

import json

import pytest
from workflow_parts import flow, step, trace_of

from pflow_mcp_plugin.host.running import run_record

READS = {
    "all": "${many.results}",
    "one": "${many.results[1].value}",
    "an item": "${many.items[0].result.value}",
    "whole": "${many}",
    "in a text": "they are ${many.results}",
    "failed": "${many.errors}",
}
EXPRESSIONS = {
    "each": "many.results[*].value.n",
    "the node": "keys(many)",
    "everything": "length($.many.results)",
    "a count and a result": "[many.succeeded, many.results[0].value.n]",
    "in quotes": '"many".results[0].value.n',
    "by escaped letters": '"m\\u0061ny".results[0].value.n',
    "by the current value": "@.many.results[0].value.n",
    "all nodes": "*.count",
    "a name that ends so": "[many.errors, keys(many)]",
}


@pytest.fixture
def batch(bench):
    """A node that returns an object with a number, and fails for the number 2."""

    @bench.acts("t-many", ["n"], ["value"])
    def many(shared, params):
        if params["n"] == 2:
            raise ValueError("no twos")
        shared["value"] = {"n": params["n"], "long": "x" * 5_000}

    return step(
        "many", "t-many", {"n": "${item}"}, batch={"items": [0, 1, 2, 3], "error_handling": "continue"}
    )


def read(bench, batch, last, large, monkeypatch):
    """Return what the last step has, with results above so many bytes kept on the disk, and the trace."""
    monkeypatch.setattr(run_record, "LARGE", large)
    outcome = bench.run(flow(batch, last))
    assert outcome.success, outcome.error
    shown = [
        (it["params"], it["outputs"], it["details"].get("batch", {}).get("errors"))
        for it in trace_of(outcome)["steps"]
    ]
    return outcome.outputs, json.loads(json.dumps(shown).replace(outcome.run_id, "RUN"))


STEPS = [
    *(pytest.param("echo", {"message": template}, id=name) for name, template in READS.items()),
    *(pytest.param("transform", {"expression": text}, id=name) for name, text in EXPRESSIONS.items()),
]


@pytest.mark.parametrize(("node_type", "params"), STEPS)
def test_what_a_step_reads_is_what_it_would_read_in_memory(bench, batch, monkeypatch, node_type, params):
    last = step("last", node_type, params)
    stored, shown = read(bench, batch, last, 0, monkeypatch)
    assert (stored, shown) == read(bench, batch, last, 1 << 30, monkeypatch)
    assert "StoredValue" not in str(stored)


def test_what_the_trace_leaves_out_is_whole_in_its_file_and_in_the_outputs(bench, monkeypatch):
    monkeypatch.setattr(run_record, "LARGE", 0)
    bench.acts("t-long", ["n"], ["value"])(lambda shared, params: shared.update(value=[params["n"]] * 3_000))
    outcome = bench.run(flow(step("many", "t-long", {"n": "${item}"}, batch={"items": [5, 6, 7, 8, 9]})))
    whole = [{"value": [n] * 3_000} for n in (5, 6, 7, 8, 9)]
    assert json.loads(json.dumps(outcome.outputs))["results"] == whole
    files = (bench.host.paths.state / "artifacts").rglob("*.json")
    found = [it for it in files if json.loads(it.read_text()) == whole]  # the step's, and the run's
    assert [str(it) in outcome.trace_path.read_text() for it in found] == [True] * 2
    assert {it.stat().st_mode & 0o777 for it in found} == {0o600}


def test_a_resumed_batch_has_the_results_of_both_parts(bench, sent, monkeypatch, resumed):
    monkeypatch.setattr(run_record, "LARGE", 0)
    items = {"items": [0, 1, 2], "error_handling": "fail_fast"}
    many = step("many", "t-send", {"value": "${item}"}, batch=items)
    workflow = flow(many, step("last", "echo", {"message": "${many.results}"}))
    assert not bench.run_failing({1: ValueError("no")}, workflow).success
    report = resumed()
    assert report.error is None
    assert [it["value"] for it in report.data["outputs"]["message"]] == [0, 1, 2]
