"""MCPNode: its arguments, its results, its failures, and how far its call has come."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from pocketflow import Node

from pflow_mcp_plugin.errors import CallFailed, DeadlineExceeded, Where
from pflow_mcp_plugin.exchange import CallResult, ToolCall
from pflow_mcp_plugin.execution.call_hooks import note_progress
from pflow_mcp_plugin.execution.node import MCPNode, called, gather
from pflow_mcp_plugin.schemas.schema_reader import declaration
from pflow_mcp_plugin.types import ServerInfo, Tool

WHERE = Where(server="calc", tool="add_up")

NOTED = {"server", "tool", "version", "protocol", "milliseconds", "arguments"}


def node(**params):
    made = MCPNode()
    made.set_params({"__mcp_server__": "calc", "__mcp_tool__": "add_up", "__node_id__": "n1", **params})
    return made


def test_arguments_come_from_params_then_the_store_and_results_go_back(bench):
    bench.add()
    shared = {"__run__": bench.run, "b": 2, "c": 3}
    assert node(a=1, timeout=9).run(shared) == "default"
    assert bench.calls[0].arguments == {"a": 1, "b": 2, "timeout": 9}
    assert (shared["sum"], shared["result"], shared["error"]) == (3, {"sum": 3}, None)
    assert bench.notes["n1"]["server"] == "calc"
    assert bench.notes["n1"].keys() == NOTED
    assert bench.notes["n1"]["arguments"] == {"a": 1, "b": 2, "timeout": 9}


def test_the_key_of_the_step_is_sent_with_its_call(bench):
    properties = {"key": {"type": "string"}}
    tool = Tool(name="add_up", input_schema={"type": "object", "properties": properties})
    bench.add("calc", tool, idempotency_argument={"add_up": "key"})
    bench.run.current_step = lambda: SimpleNamespace(idempotency_key=lambda: "of the step")
    assert node().run({"__run__": bench.run}) == "default"
    assert bench.calls[0].arguments == {"key": "of the step"}


def test_reserved_keys_of_a_result_stay_inside_it(bench):
    bench.add()
    structured = {"error": "no", "result": 1, "__run__": 2, "x": 3}
    bench.answer = CallResult(structured=structured, has_structured=True)
    shared = {"__run__": bench.run, "a": 1, "b": 2}
    assert node().run(shared) == "default"
    assert (shared["error"], shared["result"], shared["x"]) == (None, structured, 3)
    assert shared["__run__"] is bench.run


def test_what_is_malformed_in_a_result_is_warned_of(bench):
    bench.add()
    bench.answer = CallResult(content=({"type": "image", "data": "***", "mimeType": "image/png"},))
    assert node(a=1, b=2).run({"__run__": bench.run}) == "default"
    (warning,) = bench.warnings
    assert warning.startswith("Tool add_up on server calc returned image/png content that is not base64")


@pytest.mark.parametrize(
    ("failure", "action"),
    [
        (CallFailed("no", where=WHERE, status=429), "rate_limited"),
        (DeadlineExceeded("slow", where=WHERE), "timeout"),
        (CallFailed("no", where=WHERE), "error"),
    ],
)
def test_a_failure_is_an_action_with_its_error(bench, failure, action):
    bench.add()
    bench.answer = failure
    shared = {"__run__": bench.run, "a": 1, "b": 2}
    assert node().run(shared) == action
    assert (shared["error"], shared["__error__"]) == (failure.message, failure)
    assert len(bench.calls) == 1
    noted = bench.notes["n1"]
    assert noted.keys() == NOTED
    assert (noted["server"], noted["tool"], noted["version"]) == ("calc", "add_up", "1")
    assert noted["arguments"] == {"a": 1, "b": 2}
    assert noted["milliseconds"] >= 0


@pytest.mark.parametrize(
    ("variable", "note"), [("GONE", "Not set and passed as empty"), ("BLANK", "Set to the empty string")]
)
def test_a_token_without_a_value_is_named_when_its_tool_fails(bench, variable, note):
    bench.add(env={"API_TOKEN": f"${{{variable}}}"})
    bench.answer = CallResult(content=({"type": "text", "text": "401 Unauthorized"},), is_error=True)
    shared = {"__run__": bench.run, "a": 1, "b": 2}
    assert node().run(shared) == "auth_failed"
    assert shared["error"] == f"401 Unauthorized\n{note}: {variable}"
    step, other = shared["__error__"].suggestions
    assert step == f"if it needs {variable}: pflow settings set {variable} -"
    assert other.startswith("check API_TOKEN in env of server calc")


def test_the_step_of_a_failure_names_the_node_even_if_it_is_renamed(bench):
    bench.add(rename={"add_up": "sum"})
    bench.answer = CallResult(content=({"type": "text", "text": "no"},), is_error=True)
    shared = {"__run__": bench.run, "a": 1, "b": 2}
    assert node().run(shared) == "error"
    assert "pflow mcp info mcp-calc-sum shows" in shared["__error__"].suggestions[0]
    shared["a"] = "x"
    assert node().run(shared) == "error"
    assert "`pflow mcp info mcp-calc-sum` shows" in shared["__error__"].suggestions[0]


def test_a_specific_failure_takes_the_error_edge_where_that_is_the_only_one(bench):
    bench.add()
    bench.answer = DeadlineExceeded("slow", where=WHERE)

    made, shared = node(a=1, b=2), {"__run__": bench.run}
    made.next(Node(), "error")
    assert made._run(shared) == "error"
    made.next(Node(), "timeout")
    assert made._run(shared) == "timeout"


def test_without_its_special_params_it_says_which_it_needs(bench):
    made = MCPNode()
    shared = {"__run__": bench.run}
    assert made.run(shared) == "error"
    assert "__mcp_server__" in shared["error"]


def test_a_long_text_is_itself_and_the_run_names_its_file_where_it_is_shown(bench):
    bench.add("calc", inline_limit_kb=1)
    named = {}
    bench.run.name_file = named.__setitem__
    bench.answer = CallResult(content=({"type": "text", "text": "x" * 2000},), info=ServerInfo())
    shared = {"__run__": bench.run, "a": 1, "b": 2}
    node().run(shared)
    assert shared["result"] == "x" * 2000
    (file,) = bench.notes["n1"]["files"]
    assert named == {"x" * 2000: Path(file["path"])}
    assert Path(file["path"]).parent == bench.run.artifacts_dir
    assert Path(file["path"]).read_text() == "x" * 2000


@pytest.mark.parametrize("taken", [{}, {"content_blocks": {"type": "integer"}}])
def test_content_beside_a_result_is_an_output_unless_the_tool_has_one_of_that_name(bench, taken):
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}, **taken}}
    bench.add("calc", Tool(name="add_up", input_schema={"type": "object"}, output_schema=schema))
    bench.answer = CallResult(
        content=({"type": "text", "text": "three"},), structured={"sum": 3}, has_structured=True
    )
    shared = {"__run__": bench.run, "a": 1, "b": 2}
    node().run(shared)
    assert shared.get("content_blocks") == (None if taken else ["three"])
    assert bench.notes["n1"].get("content_blocks") == (["three"] if taken else None)
    assert called(bench.runtime, "calc", "add_up", {}).content_blocks == ["three"]


DECLARED = {"properties": {"timeout": {"type": "integer"}, "title": {}}}
OPEN = {"properties": {"title": {}}, "additionalProperties": True}
NULLABLE = {"properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}}
RESERVED = {"properties": {"__run__": {}}, "additionalProperties": True}


@pytest.mark.parametrize(
    ("schema", "params", "store", "sent"),
    [
        # Params go before the shared store, and None among them is sent as null.
        (DECLARED, {"title": "p"}, {"title": "s", "timeout": 3}, {"title": "p", "timeout": 3}),
        (DECLARED, {"title": None}, {"title": "s"}, {"title": None}),
        # Only what the tool declares is sent; an open tool gets other params too.
        (DECLARED, {"other": 1, "timeout": 5}, {"third": 2}, {"timeout": 5}),
        (OPEN, {"other": 1}, {"third": 2, "title": "s"}, {"other": 1, "title": "s"}),
        # None in the store counts only where the tool takes null.
        (NULLABLE, {}, {"a": None, "b": None}, {"a": None}),
        # Special params and keys are never sent.
        (RESERVED, {"__mcp_server__": "a"}, {"__run__": object()}, {}),
        (None, {"__mcp_tool__": "x", "a": 1}, {"b": 2}, {"a": 1}),
    ],
)
def test_what_is_sent_is_chosen_by_what_the_tool_declares(schema, params, store, sent):
    assert gather(schema and declaration({"type": "object", **schema}), params, store) == sent


CALL = ToolCall(server="odd", tool="act", node_id="fetch")


def test_progress_is_noted_in_the_trace_and_reported():
    notes, reports = {}, []
    run = SimpleNamespace(annotate=notes.__setitem__, report_progress=lambda *it: reports.append(it))
    note_progress(run, CALL, 1, 4, "reading\n")
    note_progress(run, CALL, 2, 4, None)
    assert notes == {"fetch": {"progress": {"done": 2, "total": 4, "message": None}}}
    assert reports == [("fetch", 1, 4, "reading"), ("fetch", 2, 4, "")]


def test_progress_of_a_call_without_a_node_is_ignored():
    run = SimpleNamespace(annotate=pytest.fail, report_progress=pytest.fail)
    note_progress(run, ToolCall(server="odd", tool="act"), 1, 2, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [("a\x1b[31m\nb", "a\\u001b[31m b"), ("a\x1b[2J\u202ec", "a\\u001b[2J\\u202ec"), ("x" * 300, "x" * 200)],
)
def test_a_message_is_one_short_line_without_control_characters(text, said):
    reports = []
    run = SimpleNamespace(annotate=lambda *_: None, report_progress=lambda *it: reports.append(it))
    note_progress(run, CALL, 1, 2, text)
    assert reports == [("fetch", 1, 2, said)]
