"""What the nodes of a run share."""

import asyncio
import re

import attrs
import pluggy
import pytest

from pflow_mcp_plugin import mcp_hookspecs
from pflow_mcp_plugin.contract import PflowError, RunStep, hookimpl
from pflow_mcp_plugin.errors import CallFailed, CallRefused, McpError, Where
from pflow_mcp_plugin.exchange import CallResult, Listing
from pflow_mcp_plugin.types import ServerInfo, Tool

SUM = {"a": 1, "b": 2}
OTHER = CallResult(content=({"type": "text", "text": "other"},))


def hooked(bench, *functions):
    """Return a runtime with a plugin for each of these hooks."""
    manager = pluggy.PluginManager("pflow")
    manager.add_hookspecs(mcp_hookspecs)
    for number, function in enumerate(functions):
        plugin = type("Plugin", (), {function.__name__: staticmethod(function)})
        manager.register(plugin, name=f"p{number}")
    return bench.new_runtime(manager.hook)


def test_a_call_reaches_its_server_with_secrets_expanded_and_reported(bench):
    bench.add("calc", env={"KEY": "${TOKEN}"})
    answer = bench.runtime.call(bench.runtime.target("calc", "add-up"), SUM, "n1", "r1")
    assert answer is bench.answer
    (call,) = bench.calls
    assert (call.server, call.tool, call.arguments) == ("calc", "add_up", SUM)
    assert (call.node_id, call.run_id) == ("n1", "r1")
    assert bench.launches[0].server.env == {"KEY": "s3cret!"}
    assert "s3cret!" in bench.secrets


@pytest.mark.parametrize(
    ("annotations", "trust", "repeatable"),
    [
        ({"idempotentHint": True}, {}, False),
        ({"idempotentHint": True}, {"trust_idempotent": True}, True),
        ({"readOnlyHint": True}, {"trust_readonly": True}, True),
        ({}, {"trust_readonly": True, "trust_idempotent": True}, False),
    ],
)
def test_a_call_may_go_twice_where_the_tool_claims_so_and_the_user_trusts_it(
    bench, annotations, trust, repeatable
):
    bench.add("calc", Tool(name="add_up", annotations=annotations), **trust)
    bench.runtime.call(bench.runtime.target("calc", "add_up"), SUM)
    assert bench.repeatable is repeatable


PAY = Tool(
    name="pay",
    input_schema={
        "type": "object",
        "properties": {"sum": {"type": "integer"}, "key": {"type": "string"}},
        "required": ["sum", "key"],
        "additionalProperties": False,
    },
)


class Keyed(RunStep):
    def idempotency_key(self):
        return "the key of the step"


def test_a_call_gets_the_key_of_its_step_or_one_of_its_own_and_may_go_twice(bench):
    bench.add("bank", PAY, idempotency_argument={"pay": "key"})
    target = bench.runtime.target("bank", "pay")
    for arguments, step in [({"sum": 1}, Keyed()), ({"sum": 1, "key": "mine"}, Keyed()), ({"sum": 1}, None)]:
        bench.runtime.call(target, arguments, step=step)
        assert bench.repeatable
    bench.runtime.call(target, {"sum": 1, "key": None}, step=RunStep())
    bench.runtime.call(target, {"sum": 1, "key": "mine"})
    keys = [call.arguments["key"] for call in bench.calls]
    assert keys[:2] + keys[4:] == ["the key of the step"] * 2 + ["mine"]
    assert keys[2] != keys[3]
    assert all(re.fullmatch(r"[A-Za-z0-9_.:-]{16,255}", key) for key in keys[2:4])


def test_a_tool_that_does_not_take_its_key_is_not_called(bench):
    bench.add("bank", PAY, idempotency_argument={"pay": "id"})
    with pytest.raises(McpError, match="takes no argument id") as caught:
        bench.runtime.target("bank", "pay")
    assert "idempotency_argument of server bank" in caught.value.suggestions[0]


def test_what_is_needed_for_a_call_is_read_once_in_a_run(bench):
    bench.add()
    bench.runtime.call(bench.runtime.target("calc", "add_up"), SUM)
    bench.store.path.unlink()
    bench.forget("calc")
    bench.runtime.call(bench.runtime.target("calc", "add_up"), SUM)
    bench.runtime.prepare("calc")
    assert bench.launches[0] is bench.launches[2]


def test_unknown_servers_and_tools_are_told_by_name(bench):
    bench.add()
    with pytest.raises(McpError, match="Server clc not configured"):
        bench.runtime.call(bench.runtime.target("clc", "add_up"), {})
    bench.catalog.save("calc", Listing(info=ServerInfo(), tools=(Tool(name="add_all"),)), "")
    with pytest.raises(
        McpError, match="Tool add_up not found on server calc: it no longer existed when"
    ) as caught:
        bench.runtime.call(bench.runtime.target("calc", "add-up"), {})
    assert "add_all" in caught.value.suggestions[0]


def test_a_server_that_was_never_synced_is_called_without_a_check(bench):
    bench.store.add({"calc": {"command": "x"}})
    bench.runtime.call(bench.runtime.target("calc", "anything"), {"x": 1})
    assert bench.calls[0].tool == "anything"


def test_a_config_or_version_that_changed_since_the_sync_is_said_once(bench):
    bench.add()
    bench.store.add({"calc": {"command": "y"}})
    bench.answer = attrs.evolve(bench.answer, info=ServerInfo(version="2"))
    bench.runtime.call(bench.runtime.target("calc", "add_up"), SUM)
    bench.runtime.call(bench.runtime.target("calc", "add_up"), SUM)
    assert len(bench.warnings) == 2
    assert all("pflow mcp sync calc" in line for line in bench.warnings)


def test_plugins_change_a_call_and_its_server_one_after_the_other(bench):
    bench.add()
    bench.add("calc2")

    @hookimpl
    def pflow_mcp_prepare_call(call):
        return attrs.evolve(call, server="calc2", arguments={**call.arguments, "b": call.arguments["b"] * 10})

    @hookimpl(specname="pflow_mcp_prepare_call")
    def leave():
        return None

    runtime = hooked(bench, pflow_mcp_prepare_call, leave, pflow_mcp_prepare_call)
    runtime.call(runtime.target("calc", "add_up"), SUM)
    assert bench.calls[0].arguments == {"a": 1, "b": 200}
    assert bench.launches[0].server.name == "calc2"


@pytest.mark.parametrize("name", ["pflow_mcp_prepare_call", "pflow_mcp_call_tool"])
def test_what_a_plugin_does_to_the_arguments_in_place_reaches_nobody(bench, name):
    bench.add()

    @hookimpl
    def hook(call):
        call.arguments["more"]["token"] = "mine"
        call.arguments["a"] = "no number"

    @hookimpl(wrapper=True)
    def around(call):
        hook(call)
        return (yield)

    hook.__name__ = around.__name__ = name
    runtime = hooked(bench, hook, *([around] if name == "pflow_mcp_call_tool" else []))
    arguments = {**SUM, "more": {"x": 1}}
    runtime.call(runtime.target("calc", "add_up"), arguments)
    assert bench.calls[0].arguments == arguments == {**SUM, "more": {"x": 1}}


def test_what_a_plugin_returns_with_changed_arguments_is_sent_and_changes_nothing_else(bench):
    bench.add()

    @hookimpl
    def pflow_mcp_prepare_call(call):
        call.arguments["more"]["token"] = "mine"
        return call

    runtime = hooked(bench, pflow_mcp_prepare_call)
    arguments = {**SUM, "more": {"x": 1}}
    runtime.call(runtime.target("calc", "add_up"), arguments)
    assert bench.calls[0].arguments == {**SUM, "more": {"x": 1, "token": "mine"}}
    assert arguments == {**SUM, "more": {"x": 1}}


def test_a_veto_and_a_failing_plugin_stop_the_call(bench):
    bench.add()

    @hookimpl
    def pflow_mcp_prepare_call(call):
        if call.arguments["a"] == 1:
            raise CallRefused("not today", where=Where(server=call.server))
        return 1 / 0 if call.arguments["a"] == 2 else "nonsense"

    runtime = hooked(bench, pflow_mcp_prepare_call)
    for a, message in ((1, "not today"), (2, "p0.*ZeroDivisionError"), (3, "p0.*returned str")):
        with pytest.raises(CallFailed, match=message) as caught:
            runtime.call(runtime.target("calc", "add_up"), {"a": a, "b": 1})
        assert caught.value.ran == "not ran"
    assert bench.calls == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"arguments": {"a": {1}, "b": 2}},
            r"returned a call that cannot be made: .*a: expected a JSON value",
        ),
        ({"arguments": {"a": "x", "b": 2}}, r"returned a call that cannot be made: .*a: expected int"),
        ({"server": "nowhere"}, "returned a call that cannot be made: Server nowhere not configured"),
        ({"arguments": "text"}, "raised ValueError: ToolCall.arguments must be Mapping, got 'text'"),
    ],
)
def test_a_call_that_a_plugin_changed_is_checked_like_any_other(bench, changes, told):
    bench.add()

    @hookimpl
    def pflow_mcp_prepare_call(call):
        return attrs.evolve(call, **changes)

    runtime = hooked(bench, pflow_mcp_prepare_call)
    with pytest.raises(CallFailed, match=f"(?s)Plugin p0: pflow_mcp_prepare_call {told}") as caught:
        runtime.call(runtime.target("calc", "add_up"), SUM)
    assert (caught.value.ran, bench.calls) == ("not ran", [])


def test_a_plugin_answers_in_place_of_the_server_and_ours_comes_last(bench):
    bench.add()
    asked = []

    def answering(name, answer, **options):
        @hookimpl(**options)
        def pflow_mcp_call_tool(call):
            asked.append(name)
            return answer

        return pflow_mcp_call_tool

    runtime = hooked(bench, answering("a", None), answering("b", None, tryfirst=True))
    assert runtime.call(runtime.target("calc", "add_up"), SUM) is bench.answer
    assert asked == ["b", "a"]
    runtime = hooked(bench, answering("last", OTHER, trylast=True))
    assert runtime.call(runtime.target("calc", "add_up"), SUM) is OTHER
    assert len(bench.calls) == 1


LOOP = {}
LOOP["a"] = LOOP
TEXT = {"type": "text"}


@pytest.mark.parametrize("options", [{}, {"tryfirst": True}])
@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"structured": LOOP}, "returned what is not JSON: Circular reference"),
        ({"structured": {"result": {1}}}, "returned what is not JSON: 'set' object"),
        ({"structured": float("nan")}, "returned what is not JSON: Out of range"),
        ({"content": ({"type": "what", "of": LOOP},)}, "returned what is not JSON"),
        ({"content": (TEXT | {"text": None},)}, "returned a text block without text"),
        ({"content": "text"}, "raised ValueError: CallResult.content must be a list or tuple"),
        ({"content": (None,)}, "raised ValueError: CallResult.content must be Mapping objects, got None"),
    ],
)
def test_an_answer_that_no_server_could_send_is_the_plugins_failure(bench, fields, told, options):
    bench.add()

    @hookimpl(**options)
    def pflow_mcp_call_tool(call):
        return CallResult(**fields)

    runtime = hooked(bench, pflow_mcp_call_tool)
    with pytest.raises(CallFailed, match=f"lugin.*: pflow_mcp_call_tool {told}") as caught:
        runtime.call(runtime.target("calc", "add_up"), SUM)
    assert caught.value.ran == "unknown"


@pytest.mark.parametrize(("options", "ran"), [({}, "unknown"), ({"tryfirst": True}, "unknown")])
def test_a_plugin_that_fails_while_it_answers_a_call_may_have_made_it(bench, options, ran):
    bench.add()

    @hookimpl(**options)
    def pflow_mcp_call_tool(call):
        raise PflowError("timed out")

    runtime = hooked(bench, pflow_mcp_call_tool)
    with pytest.raises(PflowError, match="timed out") as caught:
        runtime.call(runtime.target("calc", "add_up"), SUM)
    assert (caught.value.ran, bench.calls) == (ran, [])


@pytest.mark.parametrize(("after", "ran"), [(True, "unknown"), (False, "not ran")])
def test_a_failure_that_a_wrapper_reports_says_whether_the_tool_may_have_been_called(bench, after, ran):
    bench.add()

    @hookimpl(wrapper=True)
    def pflow_mcp_call_tool(call):
        if not after:
            raise PflowError("refused")
        yield
        raise PflowError("rejected by policy")

    runtime = hooked(bench, pflow_mcp_call_tool)
    with pytest.raises(PflowError, match=r"refused|rejected") as caught:
        runtime.call(runtime.target("calc", "add_up"), SUM)
    assert (caught.value.ran, len(bench.calls)) == (ran, after)
    assert (caught.value.details["server"], caught.value.details["tool"]) == ("calc", "add_up")


def test_a_wrapper_sees_and_replaces_the_result_and_the_call_is_never_repeated(bench):
    bench.add()
    seen = []

    @hookimpl(wrapper=True)
    def pflow_mcp_call_tool(call):
        seen.append((yield))
        if len(seen) == 2:
            raise ValueError
        return OTHER

    runtime = hooked(bench, pflow_mcp_call_tool)
    assert runtime.call(runtime.target("calc", "add_up"), SUM) is OTHER
    assert seen == [bench.answer]
    with pytest.raises(CallFailed, match="ValueError") as caught:
        runtime.call(runtime.target("calc", "add_up"), SUM)
    assert caught.value.ran == "unknown"
    assert len(bench.calls) == 2


class Own(BaseException):
    """Derives from what nobody is expected to catch."""


class Speechless(Exception):
    """Cannot be formatted."""

    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


RAISED = [
    Own("mine"),
    Speechless(),
    SystemExit(7),
    asyncio.CancelledError(),
    BaseExceptionGroup("several", [Own("one")]),
    StopIteration(3),
]


@pytest.mark.parametrize("raised", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("hook", "options", "ran"),
    [
        ("pflow_mcp_prepare_call", {}, "not ran"),
        ("pflow_mcp_call_tool", {}, "unknown"),
        ("pflow_mcp_call_tool", {"tryfirst": True}, "unknown"),
    ],
)
def test_whatever_a_hook_raises_is_a_failure_of_the_call(bench, raised, hook, options, ran):
    bench.add()

    @hookimpl(**options, specname=hook)
    def raising(call):
        raise raised

    runtime = hooked(bench, raising)
    with pytest.raises(CallFailed, match=f"{hook} raised {type(raised).__name__}") as caught:
        runtime.call(runtime.target("calc", "add_up"), SUM)
    assert caught.value.ran == ran


def test_a_hook_that_is_interrupted_has_not_failed(bench):
    bench.add()
    group = BaseExceptionGroup("several", [KeyboardInterrupt()])

    @hookimpl
    def pflow_mcp_prepare_call(call):
        raise group

    runtime = hooked(bench, pflow_mcp_prepare_call)
    with pytest.raises(BaseExceptionGroup) as caught:
        runtime.call(runtime.target("calc", "add_up"), SUM)
    assert caught.value is group


@pytest.fixture
def reading(bench):
    """A server with a tool and resources."""
    bench.add()
    info = ServerInfo(capabilities={"resources": {}})
    tools = (Tool(name="add_up"), Tool(name="later", task_support="required"))
    bench.catalog.save("calc", Listing(info=info, tools=tools, has_resources=True), "")
    return bench


def test_a_resource_is_read_through_the_hooks_of_a_call(reading):
    seen = []

    @hookimpl
    def pflow_mcp_prepare_call(call):
        seen.append((call.method, call.tool, call.arguments))
        if call.arguments["uri"] == "x://secret":
            raise CallRefused("not that one", where=Where(server=call.server))
        return attrs.evolve(call, method="tools/call", arguments={"uri": "x://other"})

    runtime = hooked(reading, pflow_mcp_prepare_call)
    runtime.call(runtime.target("calc", "read-resource"), {"uri": "x://a"})
    runtime.call(runtime.resource_target("calc"), {"uri": "x://b"})
    with pytest.raises(CallRefused, match="not that one"):
        runtime.call(runtime.target("calc", "read-resource"), {"uri": "x://secret"})
    assert seen[:2] == [("resources/read", "read-resource", {"uri": uri}) for uri in ("x://a", "x://b")]
    assert [(call.method, call.arguments) for call in reading.calls] == [
        ("resources/read", {"uri": "x://other"})
    ] * 2


def test_a_plugin_that_sends_the_reading_of_a_resource_to_a_tool_calls_that(reading):
    @hookimpl
    def pflow_mcp_prepare_call(call):
        return attrs.evolve(call, tool="add_up", arguments=SUM)

    runtime = hooked(reading, pflow_mcp_prepare_call)
    runtime.call(runtime.target("calc", "read-resource"), {"uri": "x://a"})
    assert [(call.method, call.tool) for call in reading.calls] == [("tools/call", "add_up")]


@pytest.mark.parametrize("arguments", [{}, {"uri": 1}, {"uri": ""}, {"uri": "x://a", "more": 1}])
def test_what_is_no_uri_is_not_sent(reading, arguments):
    with pytest.raises(McpError, match=r"uri|more"):
        reading.runtime.call(reading.runtime.target("calc", "read-resource"), arguments)
    assert reading.calls == []


@pytest.mark.parametrize(
    ("marked", "told"),
    [
        ({"launch": {"command": ["other"], "env": []}}, "is now started by"),
        ({"unapproved": "its instructions changed"}, "its instructions changed"),
    ],
)
def test_a_resource_of_a_server_that_changed_or_is_not_approved_is_not_read(reading, marked, told):
    reading.catalog.mark("calc", lambda content: attrs.evolve(content, **marked))
    for resolve in (
        lambda: reading.runtime.resource_target("calc"),
        lambda: reading.runtime.call(reading.runtime.target("calc", "read-resource"), {"uri": "x://a"}),
    ):
        with pytest.raises(McpError, match=told):
            resolve()
    assert reading.calls == []


@pytest.mark.parametrize("synced", [True, False])
def test_a_server_without_resources_is_named_with_the_next_step(bench, synced):
    bench.add()
    if not synced:
        bench.forget("calc")
    with pytest.raises(McpError, match="offers no resources" if synced else "is not synced") as caught:
        bench.runtime.resource_target("calc")
    assert caught.value.suggestions == (
        "See its tools: pflow mcp tools calc" if synced else "Run: pflow mcp sync calc",
    )


@pytest.mark.parametrize("trust", ["pin", "auto"])
def test_a_tool_that_runs_as_a_task_only_is_not_called(bench, trust):
    tools = (Tool(name="later", task_support="required"), Tool(name="either", task_support="optional"))
    bench.add("calc", *tools, trust=trust)
    with pytest.raises(McpError, match="Tool later of server calc runs as a task only"):
        bench.runtime.call(bench.runtime.target("calc", "later"), {})
    bench.runtime.call(bench.runtime.target("calc", "either"), {})
    assert [call.tool for call in bench.calls] == ["either"]
