"""Values that the types of the contract refuse, and what those of runs do."""

import threading
from contextlib import nullcontext

import attrs
import pytest

from pflow_mcp_plugin import contract
from pflow_mcp_plugin.contract import (
    Command,
    Entry,
    Field,
    Interface,
    NodeRef,
    PflowError,
    Problem,
    Report,
    RunControl,
    RunOptions,
    Sketch,
    Workflow,
)
from pflow_mcp_plugin.server_preset import ServerPreset

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


def _takes(*params, piped=""):
    return Interface(params=params, piped=piped)


@pytest.mark.parametrize(
    ("outputs", "named", "key"),
    [
        ("result other", "other", "other"),
        ("result other", "", "result"),
        *(("other", "", "other"), ("other more", "", ""), ("", "", "")),
    ],
)
def test_the_result_is_the_named_output_then_the_one_called_result_then_the_only_one(outputs, named, key):
    fields = [Field(key=name) for name in outputs.split()]
    assert Interface(outputs=fields, result=named).result_key == key


TITLE, BODY = (Field(key=key, type="str", required=True) for key in ("title", "body"))
COUNT = Field(key="count", type="int", required=True)
PROMPT, CONTEXT = Field(key="prompt", required=True), Field(key="context", type="str")
LINE = Field(key="command", type="str", required=True, shell_line=True)


@pytest.mark.parametrize(
    ("params", "named", "given", "key"),
    [
        # The only required text that lacks a value.
        ([TITLE, COUNT], "", (), "title"),
        ([TITLE, BODY], "", (), ""),
        ([TITLE, BODY], "", {"title"}, "body"),
        # The named one, unless it has a value.
        ([PROMPT, CONTEXT], "context", {"prompt"}, "context"),
        ([PROMPT, CONTEXT], "context", (), "prompt"),
        ([PROMPT, CONTEXT], "context", {"prompt", "context"}, ""),
        # Never a shell line.
        ([LINE], "", (), ""),
        ([LINE, Field(key="stdin")], "stdin", (), "stdin"),
    ],
)
def test_what_is_piped_goes_to_one_parameter_or_none(params, named, given, key):
    assert _takes(*params, piped=named).piped_key(given) == key


def test_the_result_and_the_piped_parameter_must_be_fields_and_survive_json():
    with pytest.raises(ValueError, match=r"Interface\.result names no field: 'b'"):
        Interface(outputs=(Field(key="a"),), result="b")
    with pytest.raises(ValueError, match=r"Interface\.piped names no field: 'b'"):
        _takes(Field(key="a"), piped="b")
    whole = Interface(
        params=(Field(key="a"),), outputs=(Field(key="b"), Field(key="c")), result="b", piped="a"
    )
    assert Interface.from_dict(whole.to_dict()) == whole


def test_a_field_names_its_choices_and_whether_it_needs_a_value():
    listed = Field(key="a", required=True, schema={"enum": ["x", 2]})
    assert (listed.choices, listed.needs_value) == (("x", 2), True)
    defaulted = Field(key="a", required=True, schema={"default": 1, "enum": "x"})
    assert (defaulted.choices, defaulted.needs_value) == ((), False)
    assert (Field(key="a", schema=True).choices, Field(key="a").needs_value) == ((), False)


BORDER_TYPES = [
    ServerPreset,
    *(
        kind
        for name in contract.__all__
        if isinstance(kind := getattr(contract, name), type) and attrs.has(kind) and kind is not Sketch
    ),
]


def wrong_for(field):
    """Return values that a field must refuse."""
    if field.type in ("str", "bool", "Mapping[str, str]"):
        return None, 7, b"x", ["x"]
    if field.type == "Kind" or field.type.startswith("Literal["):
        return None, 7, "neither"
    if field.type.startswith("tuple["):
        return (7,), (object(),), "text"
    return (7, "x") if field.type in ("Entry", "Interface", "Problem | None", "bool | None") else ()


@pytest.mark.parametrize("kind", BORDER_TYPES)
def test_every_text_switch_list_and_choice_of_a_border_type_refuses_another_value_and_names_the_field(kind):
    for field in attrs.fields(kind):
        for wrong in wrong_for(field):
            with pytest.raises((TypeError, ValueError), match=field.name):
                field.validator(None, field, wrong)
