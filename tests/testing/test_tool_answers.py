"""The tools of a stub, as they are declared, and its answers."""

import asyncio
import json

import pytest

from pflow_mcp_plugin.exchange import CallResult, ToolCall
from pflow_mcp_plugin.testing import ToolAnswers, ToolFailure, read_tools
from pflow_mcp_plugin.types import Tool


def call(tool="search", **arguments):
    return ToolCall(server="tickets", tool=tool, arguments=arguments)


@pytest.fixture
def answers():
    return ToolAnswers([{"name": "search"}, {"name": "close"}])


@pytest.mark.parametrize(
    ("given", "structured", "text"),
    [
        ("a line", None, "a line"),
        ({"hits": 2}, {"hits": 2}, '{"hits": 2}'),
        ([1, "é"], {"result": [1, "é"]}, '{"result": [1, "é"]}'),
        (None, {"result": None}, '{"result": null}'),
        (lambda query: {"for": query}, {"for": "open"}, '{"for": "open"}'),
        (CallResult(structured=3, has_structured=True, content=({"text": "3"},)), 3, "3"),
    ],
)
def test_any_value_is_an_answer(answers, given, structured, text):
    answers.give("search", given)
    result = answers.answer(call(query="open"))
    assert result.structured == structured
    assert result.has_structured is (structured is not None)
    assert result.content[0]["text"] == text


def test_each_call_takes_the_next_answer_and_the_last_one_remains(answers):
    answers.give("search", ToolFailure("429"), "then", "always")
    results = [answers.answer(call()) for _ in range(4)]
    assert [result.is_error for result in results] == [True, False, False, False]
    assert [result.content[0]["text"] for result in results] == ["429", "then", "always", "always"]


def test_what_is_done_to_an_answer_does_not_change_the_next(answers):
    answers.give("search", {"hits": [1]})
    answers.answer(call()).structured["hits"].append(2)
    assert answers.answer(call()).structured == {"hits": [1]}


def test_calls_are_counted_with_those_that_failed(answers):
    answers.give("search", OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        answers.answer(call(query="open"))
    with pytest.raises(LookupError, match=r'give\("close", ...\)'):
        answers.answer(call("close", id=7))
    assert (answers.count(), answers.count("search"), answers.count("close")) == (2, 1, 1)
    assert answers.arguments("close") == [{"id": 7}]


def test_an_unknown_tool_is_refused_with_those_there_are(answers):
    with pytest.raises(ValueError, match="serch; there are: search, close"):
        answers.give("serch", "x")
    with pytest.raises(ValueError, match="No answer"):
        answers.give("search")


LISTED = {
    "name": "search",
    "description": "Search",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


def test_the_json_form_of_a_tool_keeps_what_it_says():
    (tool,) = ToolAnswers([LISTED]).tools
    assert tool == Tool(
        name="search",
        description="Search",
        input_schema=LISTED["inputSchema"],
        annotations={"readOnlyHint": True},
    )
    assert ToolAnswers([{"name": "bare"}]).tools == (Tool(name="bare", input_schema={"type": "object"}),)
    with pytest.raises(TypeError, match="needs a name"):
        ToolAnswers([{"description": "?"}])


def test_tools_are_read_from_an_answer_to_tools_list(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": [LISTED]}), encoding="utf-8")
    assert [tool.name for tool in read_tools(path)] == ["search"]
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(TypeError, match='no list "tools"'):
        read_tools(path)


def test_tools_are_read_from_the_tool_file_of_a_synced_server(pflow_host):
    pflow_host.stub("tickets", [LISTED, Tool(name="close", input_schema={"type": "object"})])
    (file,) = pflow_host.host.paths.data.rglob("tickets.json")
    assert [tool.name for tool in read_tools(file)] == ["search", "close"]


def test_a_function_may_be_asynchronous(pflow_host):
    async def wait(seconds: float) -> str:
        return f"{seconds} s"

    pflow_host.stub("slow", [wait])
    waits = {"nodes": [{"id": "wait", "type": "mcp-slow-wait", "params": {"seconds": 1.5}}]}

    async def inside_a_loop():
        return pflow_host.run(waits)

    for outcome in (pflow_host.run(waits), asyncio.run(inside_a_loop())):
        assert outcome.success, outcome.error
        assert outcome.outputs["result"] == "1.5 s"
