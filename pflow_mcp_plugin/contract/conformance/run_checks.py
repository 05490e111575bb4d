"""Conformance checks: what a host does in a run with injected parameters, contexts, failures and secrets."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace

from pflow_mcp_plugin.contract.conformance.sample_plugins import SECRET, Listening, Poems, plugin, poetry
from pflow_mcp_plugin.contract.conformance.trial import (
    Trial,
    assert_named,
    node,
    refusal,
    run_nodes,
    runner_of,
)
from pflow_mcp_plugin.contract.entries import UNKNOWN
from pflow_mcp_plugin.contract.problems import EXIT_CODES, PflowError, Problem
from pflow_mcp_plugin.contract.run_requests import THE_USER, RunControl, RunOrigin
from pflow_mcp_plugin.contract.runs import NodeRef, Run


def each_node_is_injected_once_and_knows_its_host(trial: Trial) -> None:
    """Run check: `pflow_inject_params` is called once per node; its result is in params and `injected`."""
    asked: list[NodeRef] = []

    def inject(node: NodeRef) -> Mapping[str, object]:
        asked.append(node)
        return {"__volume__": len(asked)}

    listening = Listening("a", [])
    with trial.open(poetry=poetry(), loud=plugin(pflow_inject_params=inject), a=listening) as subject:
        assert run_nodes(subject, node("one"), node("two", "poem-RECITE")).success
        assert [(node.id, node.type, node.entry.node) for node in asked] == [
            ("one", "poem-recite", "poem-recite"),
            ("two", "poem-RECITE", "poem-recite"),
        ]
        assert all(node.host is subject.host for node in asked)
    assert listening.run is not None
    assert [dict(node.injected) for node in listening.run.workflow.nodes] == [
        {"__volume__": 1},
        {"__volume__": 2},
    ]
    recited = [(params["__node_id__"], params["__volume__"]) for params in listening.run.resources["recited"]]
    assert recited == [("one", 1), ("two", 2)]


def _injecting(given: Mapping[str, object]) -> SimpleNamespace:
    return plugin(pflow_inject_params=lambda node: given)


def a_parameter_that_is_not_special_is_refused(trial: Trial) -> None:
    """Run check: only `__dunder__` names may be injected; otherwise nothing runs."""
    events: list[object] = []
    with trial.open(poetry=poetry(), pushy=_injecting({"text": "mine"}), a=Listening("a", events)) as subject:
        assert_named(refusal(subject, node()).message, "pushy", "text")
    assert not events


def two_plugins_that_inject_one_parameter_are_both_named(trial: Trial) -> None:
    """Run check: no plugin silently overwrites what another injected."""
    with trial.open(
        poetry=poetry(), loud=_injecting({"__volume__": 1}), quiet=_injecting({"__volume__": 2})
    ) as subject:
        assert_named(refusal(subject, node()).message, "loud", "quiet", "__volume__")


def a_plugin_that_fails_to_inject_stops_the_compilation(trial: Trial) -> None:
    """Run check: a node never runs without the parameters that it should get."""
    events: list[object] = []

    def fail(node: NodeRef) -> None:
        raise LookupError("no pitch")

    with trial.open(
        poetry=poetry(), broken=plugin(pflow_inject_params=fail), a=Listening("a", events)
    ) as subject:
        assert_named(refusal(subject, node()).message, "broken", "no pitch")
    assert not events


def a_withheld_node_is_refused_before_anything_runs(trial: Trial) -> None:
    """Run check: a workflow with a withheld entry is refused whole, with the reason and the next step."""
    events: list[object] = []
    reason = Problem(message="its verse changed", suggestion="Run: pflow poems approve")
    odes = poetry(Poems("odes", "ode-", withheld=reason))
    with trial.open(poetry=poetry(), odes=odes, a=Listening("a", events)) as subject:
        assert subject.host.registry.get("ode-recite").withheld == reason
        refused = refusal(subject, node("one"), node("two", "ode-recite"))
        assert_named(f"{refused} {refused.to_dict()}", reason.message, reason.suggestion)
        assert refused.exit_code == EXIT_CODES[reason.kind], "the exit code is that of the problem's kind"
    assert not events, "nothing runs, and no context is entered"


def a_use_that_its_source_rejects_is_refused_before_anything_runs(trial: Trial) -> None:
    """Run check: a source sees each use of its nodes before any node runs; an error there stops the run."""
    events: list[object] = []
    reason = Problem(message="it does not rhyme", path="text", suggestion="Find another word")
    odes = Poems("odes", "ode-", unfit=reason)
    given = {"said": "${one.said}", "all": ["${one.said}", "a rose"]}
    with trial.open(poetry=poetry(), odes=poetry(odes), a=Listening("a", events)) as subject:
        refused = refusal(subject, node("one"), node("two", "ode-recite", text=given))
        assert_named(f"{refused} {refused.to_dict()}", reason.message, reason.suggestion)
        assert odes.uses[0].entry.node == "ode-recite"
        assert odes.uses[0].params == {"text": {"said": UNKNOWN, "all": [UNKNOWN, "a rose"]}}
    assert not events, "nothing runs, and no context is entered"


def values_keep_their_types_from_node_to_node(trial: Trial) -> None:
    """Run check: a template alone in a param keeps the value's type; inputs are at the root of the store."""
    listening = Listening("a", [])
    with trial.open(poetry=poetry(), a=listening) as subject:
        first = {"id": "one", "type": "poem-recite"}
        outcome = run_nodes(subject, first, node("two", text="${one.said}"), text={"verses": [1, 2]})
        assert outcome.success, outcome.error
        assert outcome.steps == 2
    assert listening.run is not None
    assert listening.run.resources["recited"][1]["text"] == {"verses": [1, 2]}


def contexts_are_entered_in_order_and_left_in_reverse(trial: Trial) -> None:
    """Run check: contexts are entered in the order of the plugins, around the nodes."""
    events: list[object] = []
    with trial.open(poetry=poetry(), a=Listening("a", events), b=Listening("b", events)) as subject:
        assert run_nodes(subject, node()).success
        assert events == ["a in", "b in", "b out", "a out"]


def a_failure_reaches_every_context_and_none_can_undo_it(trial: Trial) -> None:
    """Run check: `__exit__` receives the failure as a `PflowError`; returning true changes nothing."""
    events: list[object] = []
    with trial.open(
        poetry=poetry(), a=Listening("a", events), b=Listening("b", events, swallow=True)
    ) as subject:
        outcome = run_nodes(subject, node(fail="action"))
        assert not outcome.success
        failures = [event for event in events if isinstance(event, BaseException)]
        assert [event for event in events if isinstance(event, str)] == ["a in", "b in", "b out", "a out"]
        assert len(failures) == 2, "each context receives the failure"
        assert all(isinstance(error, PflowError) and "hoarse" in error.message for error in failures)


def a_context_that_cannot_be_entered_fails_the_run(trial: Trial) -> None:
    """Run check: contexts entered before one that fails are exited, and no node runs."""
    events: list[object] = []

    @contextmanager
    def closed(run: Run) -> Iterator[None]:
        raise OSError("no stage")
        yield

    first = Listening("a", events)
    with trial.open(poetry=poetry(), a=first, broken=plugin(pflow_run_context=closed)) as subject:
        outcome = run_nodes(subject, node())
        assert not outcome.success
        assert outcome.error is not None
        assert_named(outcome.error.message, "broken", "no stage")
        assert outcome.steps == 0
    assert events[:2] == ["a in", "a out"]
    assert first.run is not None
    assert "recited" not in first.run.resources


def a_context_that_fails_to_close_is_reported_and_changes_nothing(trial: Trial) -> None:
    """Run check: a context that fails to close does not undo the run; the others are exited nevertheless."""
    events: list[object] = []

    @contextmanager
    def stuck(run: Run) -> Iterator[None]:
        yield
        raise OSError("no exit")

    with trial.open(
        poetry=poetry(), a=Listening("a", events), broken=plugin(pflow_run_context=stuck)
    ) as subject:
        assert run_nodes(subject, node()).success
        assert_named(subject.warnings(), "broken", "no exit")
    assert events == ["a in", "a out"]


def a_failing_node_fails_the_run_with_its_own_fields(trial: Trial) -> None:
    """Run check: after an unrouted failure the error keeps its kind, details, `ran` and `retryable`."""
    with trial.open(poetry=poetry()) as subject:
        outcome = run_nodes(subject, node(fail="raise"))
        assert not outcome.success
        assert outcome.exit_code == 1
        error = outcome.error
        assert error is not None
        assert_named(error.message, "one", "no voice")
        assert (error.kind, error.ran, error.retryable) == ("execution", "ran", True)
        assert "key" in error.details


def a_node_runs_exactly_once(trial: Trial) -> None:
    """Run check: even a retryable failure is not retried unless the workflow says so."""
    listening = Listening("a", [])
    with trial.open(poetry=poetry(), a=listening) as subject:
        assert not run_nodes(subject, node(fail="raise")).success
    assert listening.run is not None
    assert len(listening.run.resources["recited"]) == 1


def secrets_of_a_run_are_redacted(trial: Trial) -> None:
    """Run check: values passed to `add_secrets` do not appear in any error of the run."""
    with trial.open(poetry=poetry()) as subject:
        outcome = run_nodes(subject, node(fail="raise"))
        assert outcome.error is not None
        assert SECRET not in f"{outcome.error} {outcome.error.to_dict()}"


def the_origin_of_a_run_reaches_nodes_and_plugins(trial: Trial) -> None:
    """Run check: `Run.origin` is what the caller of `run` gave, the user by default."""
    listening = Listening("a", [])
    origin = RunOrigin(owner="ann", above=("outer",), trace_parent="00-1-2-01")
    with trial.open(poetry=poetry(), a=listening) as subject:
        assert run_nodes(subject, node()).success
        assert listening.run is not None
        assert listening.run.origin == THE_USER
        assert runner_of(subject).run({"nodes": [node()]}, {}, origin=origin).success
    assert listening.run.origin == origin


def a_run_that_is_cancelled_begins_no_node_and_is_interrupted(trial: Trial) -> None:
    """Run check: `RunControl.cancel` in another thread stops what plugins registered, and ends the run.

    A host that cannot do that leaves `Run.on_cancel` as it is.
    """
    control, stopped = RunControl(), []

    @contextmanager
    def cancelling(run: Run) -> Iterator[None]:
        run.on_cancel(lambda: stopped.append(run))
        thread = threading.Thread(target=control.cancel)
        thread.start()
        thread.join()
        yield

    listening = Listening("a", [])
    hooks = plugin(pflow_run_context=cancelling)
    with trial.open(poetry=poetry(), a=listening, cancelling=hooks) as subject:
        outcome = runner_of(subject).run({"nodes": [node()]}, {}, control=control)
        assert listening.run is not None
        if type(listening.run).on_cancel is Run.on_cancel:
            return
        assert (outcome.success, outcome.exit_code) == (False, EXIT_CODES["interrupted"])
        assert outcome.error is not None
        assert outcome.error.kind == "interrupted"
        assert stopped == [listening.run]
        assert listening.run.cancelled()
        assert "recited" not in listening.run.resources


def a_failure_shows_what_each_node_had_written(trial: Trial) -> None:
    """Run check: after a failure `checkpoint` has the outputs by node id, without secrets; else nothing."""
    with trial.open(poetry=poetry()) as subject:
        first = node("one", text=f"{SECRET} and a rose")
        assert not run_nodes(subject, first).checkpoint
        outcome = run_nodes(subject, first, node("two", fail="raise"))
        written = outcome.checkpoint["one"]
        assert isinstance(written, Mapping)
        assert str(written["said"]).endswith(" and a rose")
        assert SECRET not in str(outcome.checkpoint)
