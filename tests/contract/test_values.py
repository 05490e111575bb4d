"""Values that the types of the contract refuse, and what those of runs do."""

import threading
from contextlib import nullcontext

import pytest

from pflow_mcp_plugin.contract import (
    Command,
    Entry,
    Field,
    NodeRef,
    PflowError,
    Problem,
    Report,
    RunControl,
    RunOptions,
    Workflow,
)

NODE = {"node": "n", "class_name": "N", "module": "m"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: Command(path="mcp add", help="x", load="m:a"),
            "Command.path must be a list or tuple, got 'mcp add'",
        ),
        (lambda: Command(path=("mcp add",), help="x", load="m:a"), "Command.path"),
        (lambda: Command(path=("--x",), help="x", load="m:a"), "Command.path"),
        (lambda: Command(path=("a",), help="", load="m:a"), "Command.help"),
        (lambda: Command(path=("a",), help="x", load="m.a"), "Command.load"),
        (lambda: Report(error="no"), "Report.error"),
        (lambda: Report(exit_code=256), "Report.exit_code"),
        (lambda: Report(exit_code=True), "Report.exit_code"),
        (lambda: Entry(**NODE, purity="maybe"), "Entry.purity must be one of impure, flow_safe, got 'maybe'"),
        (lambda: Entry(**NODE, extra={"node": "other", "x": 1}), "Entry.extra may not hold node"),
        (lambda: Entry(**NODE, effects=("explosive",)), "Entry.effects must be a list of untrusted_output"),
        (
            lambda: Entry(**NODE, withheld=Problem(message="changed", severity="warning")),
            "Entry.withheld must be None or a problem that is an error",
        ),
        (lambda: Entry(**{**NODE, "node": ""}), "Entry.node"),
        (lambda: Field(key="a", schema="int"), "Field.schema"),
        (lambda: PflowError("x", kind="bad"), "PflowError.kind"),
        (lambda: PflowError("x", ran="maybe"), "PflowError.ran"),
        (lambda: NodeRef(id="a", type="b", entry=None, host=None), "NodeRef.entry"),
        (lambda: Workflow(name="w", nodes=["a"]), "Workflow.nodes must be NodeRef objects"),
    ],
)
def test_a_wrong_value_is_rejected_and_its_field_named(make, said):
    with pytest.raises((ValueError, TypeError), match=None) as caught:
        make()
    assert said in str(caught.value)


def test_a_node_of_a_compiled_workflow_equals_only_itself_and_may_be_a_key():
    one, other = (NodeRef(id="n", type="n", entry=Entry(**NODE), host=None, params={"a": []}) for _ in "ab")
    assert {one: 1, other: 2}[one] == 1


def test_what_is_registered_is_stopped_once_and_what_comes_later_at_once():
    control, stopped = RunControl(), []
    control.on_cancel(lambda: stopped.append("a"))
    assert (control.cancelled, stopped) == (False, [])
    control.cancel()
    control.cancel()
    control.on_cancel(lambda: stopped.append("b"))
    assert (control.cancelled, stopped) == (True, ["a", "b"])


def test_who_waits_learns_of_the_cancellation():
    control = RunControl()
    assert not control.wait(0)
    threading.Timer(0.01, control.cancel).start()
    assert control.wait(30)


def test_the_secrets_of_a_run_are_collected():
    control = RunControl()
    control.add_secrets(["a", "b"])
    control.add_secrets(iter(["b", "c"]))
    assert control.secrets == {"a", "b", "c"}
    assert RunControl().secrets == frozenset()


@pytest.mark.parametrize(
    ("cache", "no_cache", "accepted"), [(60, True, False), (60, False, True), (None, True, True)]
)
def test_results_are_reused_or_not(cache, no_cache, accepted):
    with nullcontext() if accepted else pytest.raises(PflowError, match="exclude each other"):
        RunOptions(cache=cache, no_cache=no_cache)
