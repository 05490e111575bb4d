import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError


@pytest.fixture
def give(bench):
    @bench.acts("t-give", ["value", "count: int", "secret: str"], ["value"])
    def give_node(shared, params):
        shared["__run__"].add_secrets([params.get("secret", "none-at-all")])
        shared["value"] = params.get("value")


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
    assert "3 problems" in caught.value.message
    assert [(it.message, it.suggestion) for it in caught.value.problems] == [
        ("Node t-give has no parameter valeu", "Did you mean value?"),
        ('Parameter count of node t-give must be int, got str "many"', "Run: pflow registry describe t-give"),
        ("Parameter value of node t-give is nested too deeply", "Flatten it"),
    ]
    assert caught.value.suggestions == ()
    assert not bench.host.traces.paths()
    with pytest.raises(PflowError) as caught:
        bench.host.runner.run_node("t-give", {"valeu": 1})
    assert caught.value.suggestions == ("Did you mean value?",)


def test_a_missing_param_is_refused(bench):
    with pytest.raises(PflowError, match="needs parameter message") as caught:
        bench.host.runner.run_node("echo", {})
    assert caught.value.suggestions == ("Give message=...; run: pflow registry describe echo",)
    bench.declare("t-two", ["one: str!", "two: str!", "three: str"])
    with pytest.raises(PflowError, match=r"needs parameters one, two$") as caught:
        bench.host.runner.run_node("t-two", {"three": "x"})
    assert [it.suggestion[:12] for it in caught.value.problems] == ["Give one=..."]


def test_a_failure_has_a_checkpoint_that_is_short_and_without_secrets(bench, give):
    @bench.acts("t-fail")
    def fail(shared, params):
        shared["part"] = "half"
        shared["__run__"].add_secrets(["l4te-secret-value"])
        raise ValueError("no")

    long, batch = "x" * 5_000_000, {"items": [1, 2], "parallel": True}
    nodes = [
        step("a", "t-give", {"value": {"key": "l4te-secret-value", "long": long}}),
        step("b", "t-give", {"value": "${item}"}, batch=batch),
        step("c", "t-fail"),
    ]
    outcome = bench.run(flow(*nodes))
    assert not outcome.success
    assert "l4te-secret-value" not in str(outcome.checkpoint)
    assert len(str(outcome.checkpoint)) < 10_000
    assert set(outcome.checkpoint) == {"a", "b", "c"}
    assert [result["value"] for result in outcome.checkpoint["b"]["results"]] == [1, 2]
    assert outcome.checkpoint["c"]["part"] == "half"
    assert not bench.run(flow(*nodes[:1])).checkpoint
