import pytest

from pflow_mcp_plugin.contract import PflowError, RunControl, RunOrigin
from pflow_mcp_plugin.host.workflow.templates import follow, parse_path


@pytest.fixture
def give(bench):
    @bench.acts("t-give", ["value", "count: int", "secret: str"], ["value"])
    def give_node(shared, params):
        shared["__run__"].add_secrets([params.get("secret", "none-at-all")])
        shared["value"] = params.get("value")
        shared["origin"] = shared["__run__"].origin.owner


def test_values_are_not_templates_and_every_path_can_be_one(bench, give):
    value = {"text": "${inputs.x} $${y}", "deep": [{"a b": [1, None]}, "${z}"], "n": 7}
    ran = bench.host.runner.run_node("t-give", {"value": value})
    assert (ran.node, ran.outcome.success) == ("t-give", True)
    assert ran.outcome.outputs["value"] == value
    samples = {place.path: (place.type, place.sample) for place in ran.structure}
    assert samples["value"] == ("dict", None)
    assert samples["value.text"] == ("str", "${inputs.x} $${y}")
    assert samples['value.deep[0]["a b"][0]'] == ("int", 1)
    for path, (_, sample) in samples.items():
        found = follow(dict(ran.outcome.outputs), parse_path(f"node.{path}")[1:], "node")
        assert sample in (found, None)


def test_samples_are_short_and_without_the_secrets_of_the_run(bench, give):
    secret = "s3cret-value-of-a-setting"
    value = {"long": "x" * 90 + secret + "y" * 100, "plain": f"is {secret}"}
    ran = bench.host.runner.run_node("t-give", {"value": value, "secret": secret})
    samples = {place.path: place.sample for place in ran.structure}
    assert "s3cret" not in str(samples)
    assert len(samples["value.long"]) < 110


def test_every_mistake_of_the_params_is_named_and_nothing_runs(bench, give):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(PflowError) as caught:
        bench.host.runner.run_node("t-give", {"valeu": 1, "count": "many", "value": deep})
    assert caught.value.kind == "usage"
    messages = [f"{problem.message} ({problem.suggestion})" for problem in caught.value.problems]
    assert len(messages) == 3
    assert "no parameter valeu (Did you mean value?)" in messages[0]
    assert "count of node t-give must be" in messages[1]
    assert "value of node t-give is nested too deeply" in messages[2]
    assert not bench.host.traces.paths()


def test_an_unknown_node_and_a_missing_param_are_refused(bench):
    with pytest.raises(PflowError) as caught:
        bench.host.runner.run_node("t-none", {})
    assert caught.value.kind == "not_found"
    with pytest.raises(PflowError, match="needs parameter message") as caught:
        bench.host.runner.run_node("echo", {})
    assert caught.value.kind == "usage"


def test_it_has_an_origin_and_a_control(bench, give):
    seen = []
    origin = RunOrigin(owner="ann")
    ran = bench.host.runner.run_node("t-give", {}, origin=origin, control=RunControl(seen.append))
    assert ran.outcome.outputs["origin"] == "ann"
    assert bench.host.traces.find(owner="ann") == ran.outcome.trace_path
    assert [progress.message for progress in seen] == ["node t-give", "node t-give done"]


def test_a_failure_has_a_checkpoint_that_is_short_and_without_secrets(bench, give):
    @bench.acts("t-fail")
    def fail(shared, params):
        shared["part"] = "half"
        shared["__run__"].add_secrets(["l4te-secret-value"])
        raise ValueError("no")

    long, batch = "x" * 5_000_000, {"items": [1, 2], "parallel": True}
    nodes = [
        {"id": "a", "type": "t-give", "params": {"value": {"key": "l4te-secret-value", "long": long}}},
        {"id": "b", "type": "t-give", "params": {"value": "${item}"}, "batch": batch},
        {"id": "c", "type": "t-fail"},
    ]
    outcome = bench.run({"nodes": nodes})
    assert not outcome.success
    assert "l4te-secret-value" not in str(outcome.checkpoint)
    assert len(str(outcome.checkpoint)) < 10_000
    assert set(outcome.checkpoint) == {"a", "b", "c"}
    assert [result["value"] for result in outcome.checkpoint["b"]["results"]] == [1, 2]
    assert outcome.checkpoint["c"]["part"] == "half"
    assert not bench.run({"nodes": nodes[:1]}).checkpoint


def test_of_a_loop_the_last_write_counts(bench):
    @bench.acts("t-count")
    def count(shared, params):
        shared["n"] = shared.get("n", 0) + 1
        if shared["n"] == 3:
            raise ValueError("enough")

    edges = [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}, {"from": "b", "to": "z", "action": "done"}]
    nodes = [{"id": name, "type": "t-count"} for name in ("a", "b", "z")]
    outcome = bench.run({"nodes": nodes, "edges": edges, "start_node": "a"})
    assert (outcome.checkpoint["a"]["n"], outcome.checkpoint["b"]["n"]) == (3, 2)
