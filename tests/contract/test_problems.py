"""Errors and border types cross to another process, and are copied, with all that they hold."""

import copy
import importlib
import inspect
import pickle
import pkgutil
import sys

import attrs
import pytest

import pflow_mcp_plugin
from pflow_mcp_plugin import errors, exchange, types
from pflow_mcp_plugin.client.deadlines import Deadline
from pflow_mcp_plugin.client.request_failures import Exchange
from pflow_mcp_plugin.contract import (
    Entry,
    NodeRef,
    PflowError,
    Problem,
    hosts,
    libraries,
    run_requests,
    runners,
    suggestions,
)
from pflow_mcp_plugin.contract.problems import described, is_interruption, problem_of
from pflow_mcp_plugin.host.plugins import Plugin
from pflow_mcp_plugin.host.workflow.templates import MissingValue
from pflow_mcp_plugin.network.egress import Refusal

CROSSINGS = {"copied": copy.deepcopy, "pickled": lambda value: pickle.loads(pickle.dumps(value, 2))}
WHERE = errors.Where(server="demo", tool="add", phase="call")
ENTRY = Entry(node="x", class_name="X", module="m", labels={"server": "demo"})
SAMPLES = {
    "details": {"code": 7, "list": [1, {"a": None}]},
    "suggestions": ("Do this", "or that"),
    "problems": (Problem(message="One", path="$.a"), Problem(message="Two")),
    "where": WHERE,
    "kind": "config",
    "retry_after": 2.5,
    "given": {"where": WHERE, "ran": "unknown"},
    "choice": "not done",
    "facts": {"status": 429, "stderr": "gone"},
    "deadline": Deadline(seconds=1.5, name="call_timeout"),
    "exchange": Exchange(status=502, body="bad gateway", resumes=2),
    "refusal": Refusal(message="It is denied", next_step="Remove it", host="a.example"),
    "plugin": Plugin("shout", module=sys),
    "error": ValueError("why"),
    # border types
    "entry": ENTRY,
    "nodes": (NodeRef(id="n", type="x", entry=ENTRY, host=None),),
    "success": False,
    "server": types.Server(name="demo", command="run", env={"A": "${B}"}),
    "tool": types.Tool(name="add", input_schema={"type": "object"}),
    "load": "module:attribute",
    "confidence": 0.5,
    "matches": (libraries.Match(item=ENTRY, confidence=1, reason="contains x"),),
}
"""What a parameter may be given, by its name; others take any text."""
PARTICULAR = {
    hosts.Command: {"path": ("mcp", "add")},
    hosts.Report: {"error": errors.CallFailed("no", where=WHERE, code=1)},
    run_requests.Outcome: {"error": PflowError("no", details={"a": 1})},
    exchange.CallResult: {"content": ({"type": "text", "text": "x"},), "structured": {"a": 1}},
    suggestions.Suggestion: {"value": "--flag", "type": "stem"},
    runners.ValuePath: {"path": "result.items[0]", "type": "str", "sample": "x"},
}


def _classes():
    for found in pkgutil.walk_packages(pflow_mcp_plugin.__path__, "pflow_mcp_plugin."):
        if not found.name.endswith(("__main__", "reaper_process")):  # programs, not to be imported
            yield from filter(inspect.isclass, vars(importlib.import_module(found.name)).values())


def _below(kind):
    """Return every subclass that is loaded, also one that no module names."""
    return {kind}.union(*map(_below, type.__subclasses__(kind)))


def _name(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


OURS = {kind for kind in _classes() if kind.__module__.startswith("pflow_mcp_plugin.")}
ERRORS = sorted(
    (kind for kind in _below(BaseException) if kind.__module__.startswith("pflow_mcp_plugin.")), key=_name
)
BORDER = sorted(
    (
        kind
        for kind in OURS
        if (attrs.has(kind) or issubclass(kind, tuple))
        and kind.__module__.split(".")[1] in ("contract", "types", "exchange", "errors")
        and ".conformance" not in kind.__module__
    ),
    key=_name,
)


def _made(kind, *, whole):
    """Make one with a sample for every parameter, or for those that must be given."""
    samples = {**SAMPLES, **PARTICULAR.get(kind, {})}
    given, named = [], {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += samples[name]
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= samples[name]
        elif not (whole or parameter.default is parameter.empty or name in PARTICULAR.get(kind, {})):
            continue
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = samples.get(name, name)
        else:
            given.append(samples.get(name, name))
    return kind(*given, **named)


def _error(kind):
    takes_anything = not any("__init__" in vars(base) for base in kind.__mro__ if base in ERRORS)
    return kind("a", 1) if takes_anything else _made(kind, whole=True)


def test_errors_and_border_types_are_found():
    assert {PflowError, errors.CallFailed, MissingValue} < {*ERRORS}
    assert {Problem, types.Tool, exchange.CallResult, errors.Where} < {*BORDER}


@pytest.mark.parametrize("crossing", CROSSINGS)
@pytest.mark.parametrize("kind", ERRORS, ids=_name)
def test_an_error_keeps_its_fields(kind, crossing):
    error = _error(kind)
    error.add_note("seen")
    again = CROSSINGS[crossing](error)
    assert type(again) is kind
    assert (str(again), again.args) == (str(error), error.args)
    assert repr(vars(again)) == repr(vars(error))
    if isinstance(error, PflowError):
        assert again.to_dict() == error.to_dict()


def test_an_error_of_a_plugin_keeps_its_fields_whatever_its_arguments():
    again = pickle.loads(pickle.dumps(Shy("red", depth=3)))
    assert (again.message, again.colour, again.depth) == ("red is shy", "red", 3)


class Shy(PflowError):
    """As another plugin may define it."""

    def __init__(self, colour, *, depth):
        super().__init__(f"{colour} is shy")
        self.colour = colour
        self.depth = depth


@pytest.mark.parametrize("crossing", CROSSINGS)
@pytest.mark.parametrize("kind", BORDER, ids=_name)
def test_a_border_type_keeps_its_fields(kind, crossing):
    value = _made(kind, whole=False)
    again = CROSSINGS[crossing](value)
    assert type(again) is kind
    assert repr(again) == repr(value)


class Speechless(Exception):
    """Cannot be formatted."""

    def __str__(self):
        raise SystemExit(3)


class Interrupted(Exception):
    """Is interrupted while it is formatted."""

    def __str__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no"), "ValueError: no"),
        (Speechless("no"), "Speechless"),
        (BaseExceptionGroup("two", [SystemExit(1)]), "BaseExceptionGroup: two (1 sub-exception)"),
    ],
)
def test_an_exception_is_described_by_its_class_and_what_it_can_say(error, words):
    assert described(error) == words


def test_ctrl_c_while_an_exception_is_described_is_an_interruption():
    with pytest.raises(KeyboardInterrupt):
        described(Interrupted())


def test_only_a_keyboard_interrupt_is_an_interruption_wherever_it_is():
    caused = ValueError()
    caused.__cause__ = KeyboardInterrupt()
    inside = BaseExceptionGroup("a", [ValueError(), BaseExceptionGroup("b", [KeyboardInterrupt()])])
    assert all(map(is_interruption, (KeyboardInterrupt(), caused, inside)))
    others = (SystemExit(130), GeneratorExit(), EOFError(), BaseExceptionGroup("a", [SystemExit()]))
    assert not any(map(is_interruption, others))


PLACE = {"line": 2, "column": 3}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "gone"),
        ({"path": "$.a"}, "$.a: gone"),
        (PLACE, "line 2, column 3: gone"),
        ({"path": "$.a", **PLACE}, "$.a (line 2, column 3): gone"),
        ({"suggestion": "Look"}, "gone (Look)"),
    ],
)
def test_a_problem_says_where_it_is_and_what_to_do(fields, shown):
    assert str(Problem(message="gone", **fields)) == shown
    usual = {"message": "gone", "severity": "error", "kind": "validation"}
    assert Problem(message="gone", **fields).to_dict() == {**usual, **fields}


def test_a_failure_has_one_form_with_its_outcome_and_problems():
    one, other = Problem(message="one"), Problem(message="other", path="$.b")
    error = PflowError("two wrong", kind="connection", problems=(one, other), suggestions=("Wait", "Look"))
    assert (str(error), error.exit_code) == ("two wrong\n  one\n  $.b: other", 3)
    assert str(PflowError("wrong", problems=(one,))) == "wrong"
    assert error.to_dict() == {
        "type": "connection",
        "message": "two wrong",
        "details": {"problems": [one.to_dict(), other.to_dict()]},
        "suggestions": ["Wait", "Look"],
    }
    outcome = {"action": "timeout", "ran": "ran", "retryable": True, "retry_after": 2.5}
    assert PflowError("late", details={"a": 1}, **outcome).to_dict()["details"] == {"a": 1, **outcome}
    assert problem_of(error, path="$.c") == Problem(
        message="two wrong", suggestion="Wait", kind="connection", path="$.c"
    )
    assert problem_of(PflowError("x")).suggestion == ""


def test_values_are_compared_hashed_and_shown_by_their_fields():
    one = Problem(message="gone", line=1)
    assert {one, Problem(message="gone", line=1)} == {one}
    assert one != Problem(message="gone")
    assert one != "gone"
    assert repr(hosts.Report(data=1)).startswith("Report(data=1, text='', is_data=False, error=None")
