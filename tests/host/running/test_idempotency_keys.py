"""A step with an idempotency key is run again after any failure, always with the key that was sent first."""

import re

import attrs
import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.running.run_record import RunRecord

UNKNOWN = PflowError("the connection was lost", ran="unknown")


@pytest.fixture
def sent(bench):
    """A node that pays `value`; what arrived, as value and key, and what fails next after that, by value."""
    arrived = []

    @bench.acts("t-send", ["value", "key"], ["value"])
    def pay(shared, params):
        current = shared["__run__"].current_step()
        key = (current and current.idempotency_key()) or params.get("key")
        if current:
            current.sending()
        arrived.append((params["value"], key))
        if (failure := bench.failing.get(params["value"])) is not None:
            raise failure
        shared["value"] = params["value"]

    getattr(bench.module, "t-send").announces_sending = True
    bench.known["t-send"] = attrs.evolve(bench.known["t-send"], idempotency_argument="key")
    return arrived


def paying(*values, **params):
    return flow(*(step(f"s-{value}", "t-send", {"value": value, **params}) for value in values))


def in_batch(items):
    return flow(step("all", "t-send", {"value": "${item}"}, batch={"items": items, "parallel": False}))


def test_an_unknown_step_is_run_again_with_its_key_and_nobody_is_asked(bench, sent, resumed):
    failed = bench.run_failing({"b": UNKNOWN}, paying("a", "b"))
    assert (failed.exit_code, "undecided" in failed.error.details) == (1, False)
    shown = resumed("--dry-run").data["steps"]
    assert {it["step"]: it["then"] for it in shown} == {"s-a": "keep", "s-b": "run again with its key"}
    assert resumed().error is None
    keys = [key for _, key in sent]
    assert [value for value, _ in sent] == ["a", "b", "b"]
    assert keys[1] == keys[2] != keys[0]
    assert all(re.fullmatch(r"[A-Za-z0-9_.:-]{16,255}", key) for key in keys)


@pytest.mark.parametrize("key", ["mine", "${time}"])
def test_a_key_that_the_step_was_given_is_sent_and_stays_as_it_was(bench, sent, resumed, key):
    workflow = {**paying("b", key=key), "inputs": {"time": {"type": "string", "required": False}}}
    bench.run_failing({"b": UNKNOWN}, workflow, time="monday")
    assert resumed("time=tuesday").error is None
    assert sent == [("b", "monday" if key == "${time}" else key)] * 2


def test_a_step_keeps_its_key_at_another_place_and_what_takes_its_place_gets_another(
    bench, sent, resumed, mended
):
    bench.run_failing({"b": UNKNOWN}, in_batch(["x", "b"]))
    words = mended(in_batch(["b", "c", "b"]))
    assert resumed(*words).error.action == "unmatched"
    assert resumed(*words, "--forget", "all[0]").error is None
    (_, _), (_, first), (_, again), _, (_, new) = sent
    assert first == again != new


def test_only_rerun_makes_a_new_key(bench, sent, resumed):
    bench.failing = {"c": ValueError("not now")}
    bench.run(paying("a", "c"))
    for words in ([], ["--rerun", "s-a"], [], ["--rerun", "s-a"]):
        resumed(*words)
    assert [value for value, _ in sent] == ["a", "c", "c", "a", "c", "c", "a", "c"]
    assert len({key for value, key in sent if value == "a"}) == 3
    assert len({key for value, key in sent if value == "c"}) == 1


def test_a_step_whose_tool_takes_no_key_any_more_is_not_repeated(bench, sent, resumed):
    failed = bench.run_failing({"b": UNKNOWN}, paying("b"))
    assert failed.error.suggestions[-1].endswith(f"pflow resume {failed.run_id}")
    bench.known["t-send"] = attrs.evolve(bench.known["t-send"], idempotency_argument="")
    assert "s-b was not begun" in resumed().error.message
    assert len(sent) == 1
    assert resumed(failed.run_id, "--assume-done", "s-b=1").error is None
    assert len(sent) == 1


def test_retries_send_the_same_key_also_if_nobody_knows_what_happened(bench, sent):
    bench.failing = {"b": UNKNOWN}
    workflow = paying("b")
    workflow["nodes"][0]["retry"] = {"max": 2, "wait": 0}
    assert not bench.run(workflow).success
    assert len(sent) == 3
    assert len(set(sent)) == 1


def test_what_may_have_happened_stays_unknown_if_its_retry_cannot_be_recorded(
    bench, sent, resumed, monkeypatch
):
    def sync_once(self):
        monkeypatch.setattr(RunRecord, "_sync", refuse)

    def refuse(self):
        raise OSError("no more")

    monkeypatch.setattr(RunRecord, "_sync", sync_once)
    bench.failing = {"b": UNKNOWN}
    workflow = paying("b")
    workflow["nodes"][0]["retry"] = {"max": 2, "wait": 0}
    assert "s-b was not begun" in bench.run(workflow).error.message
    assert len(sent) == 1
    bench.known["t-send"] = attrs.evolve(bench.known["t-send"], idempotency_argument="")
    assert "nobody knows whether it happened" in resumed().error.message


def test_a_run_without_a_record_has_no_key_of_its_own(bench, sent):
    workflow = paying("a", key="mine")
    assert bench.host.runner.run(workflow, {}, trace=False).success
    assert sent == [("a", "mine")]
