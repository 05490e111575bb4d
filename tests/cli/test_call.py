"""`pflow mcp call`, also `pflow mcp SERVER TOOL`; `end_to_end/test_direct_use.py` has it in the program."""

import pytest

from pflow_mcp_plugin.cli.call import call
from pflow_mcp_plugin.contract import PflowError, Problem, Report
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.types import Tool

HUB = '[mcpServers.git-hub]\ncommand = "does-not-exist"\n'
TOOLS = ("search_code", "create_issue", "getRepo", "-odd-", "a b", "a-b")


@pytest.fixture
def hub(desk):
    """A desk with a synced server whose command could not be started."""
    desk.write(HUB)
    desk.store("git-hub", *(Tool(name=name) for name in TOOLS))
    return desk


def refused(hub, *words):
    with pytest.raises(PflowError) as failure:
        hub.run(call, *words)
    assert hub.chains == []
    return failure.value


@pytest.mark.parametrize("tool", ["search_code", "search-code"])
def test_a_tool_is_named_as_it_is_or_as_its_node_is_spelled_and_no_server_starts(hub, tool):
    hub.run(call, "git-hub", tool, "--json", "--", "-x", "--help", "--", "then", "echo")
    words = ["mcp-git-hub-search-code", "--json", "--", "-x", "--help", "--", "then", "echo"]
    assert hub.chains == [(words, "pflow")]


@pytest.mark.parametrize("word", ["mcp-git-hub-search-code", "git-hub.search-code"])
def test_one_word_may_name_server_and_tool(hub, word):
    hub.run(call, word, "query=x", "--args", '{"page": 2}', "then", "echo", "--args", "x")
    words = ["mcp-git-hub-search-code", "query=x", "--params", '{"page": 2}', "then", "echo", "--args", "x"]
    assert hub.chains == [(words, "pflow")]


def test_files_beside_a_structured_result_are_named(hub, monkeypatch, capsys):
    file = {"path": "/a/x.png", "mimeType": "image/png", "size": 1, "sha256": "0"}
    data = {"outputs": {"result": 1, "content_blocks": ["said", {"path": "own"}, file]}, "result": 1}
    monkeypatch.setattr(type(hub), "run_chain", lambda *_: Report(data=data, text="1"))
    hub.run(call, "git-hub", "getRepo")
    assert capsys.readouterr().err == "Also returned: /a/x.png (image/png)\n"


def test_an_argument_of_the_tool_that_is_called_args_keeps_its_flag(hub):
    schema = {"type": "object", "properties": {"args": {"type": "string"}}}
    hub.store("git-hub", Tool(name="exec", input_schema=schema))
    hub.run(call, "git-hub", "exec", "--args", "-l")
    assert hub.chains == [(["mcp-git-hub-exec", "--args", "-l"], "pflow")]


def test_tools_that_would_share_a_node_type_are_told_apart_and_a_renamed_one_has_both_names(hub):
    hub.run(call, "git-hub", "a b")
    hub.run(call, "git-hub", "a-b")
    assert len({words[0] for words, _ in hub.chains}) == 2
    hub.chains.clear()
    assert refused(hub, "git-hub", "A-b").message == "Tool A-b not found on server git-hub"
    hub.write(HUB + 'rename = { search_code = "find" }\n')
    hub.run(call, "git-hub", "find")
    hub.run(call, "git-hub", "search_code")
    assert [words for words, _ in hub.chains] == [["mcp-git-hub-find"], ["mcp-git-hub-find"]]


def test_an_unknown_server_names_the_nearest_and_the_next_step(hub):
    error = refused(hub, "githb", "search_cod")
    assert error.message.startswith("Server githb not configured in ")
    assert error.suggestions == ("Did you mean git-hub?",)
    assert (error.kind, error.exit_code, error.details["unknown"]) == ("not_found", 2, "githb")
    for word in ("nothere.tool", "nothere.a.b"):
        assert refused(hub, word).message.startswith("Server nothere not configured in ")
    hub.write("")
    assert refused(hub, "github", "x").suggestions == ("Add it: pflow mcp add NAME -- COMMAND",)


@pytest.mark.parametrize(
    "line",
    [
        *("search_code", "hub search_code"),
        *("git-hub/search_code", "githb.search_code", "serch_code", "search_code("),
    ],
)
def test_what_is_nearly_a_tool_leads_to_its_call(hub, line):
    assert refused(hub, *line.split()).suggestions == ("Did you mean pflow mcp call git-hub.search_code?",)


def test_the_name_of_a_tool_will_do_where_the_command_is_spelled_out(hub):
    called = {"prog_name": "pflow mcp call", "obj": hub, "standalone_mode": False}
    call.main(["search-code", "query=x"], **called)
    assert hub.chains == [(["mcp-git-hub-search-code", "query=x"], "pflow")]
    hub.write(HUB + '[mcpServers.b]\ncommand = "x"\n')
    hub.store("b", Tool(name="search_code"))
    with pytest.raises(McpError, match="2 servers have a tool search_code"):
        call.main(["search_code"], **called)


@pytest.mark.parametrize("before", ["--args {} git-hub.search_code", "--args={} git-hub search_code"])
def test_arguments_as_json_may_stand_before_the_tool(hub, before):
    hub.run(call, *before.split(), "a=1")
    ((words, _),) = hub.chains
    assert words[0] == "mcp-git-hub-search-code"
    assert {"{}", "--params", "--params={}", "a=1"} >= set(words[1:])
    assert len(words[1:]) >= 2


def test_a_mistake_in_args_is_reported_under_the_name_that_was_typed(hub, monkeypatch):
    def refuse(*_):
        message = "--params of mcp-git-hub-search-code: not JSON"
        step = "Write --params as JSON"
        problem = Problem(message=message, suggestion=step)
        raise PflowError(message, suggestions=(step,), problems=(problem,), kind="usage")

    monkeypatch.setattr(type(hub), "run_chain", refuse)
    error = refused(hub, "git-hub.search_code", "--args", "{")
    assert error.message == error.problems[0].message == "--args of mcp-git-hub-search-code: not JSON"
    assert error.suggestions == (error.problems[0].suggestion,) == ("Write --args as JSON",)


def test_an_unknown_tool_names_the_nearest_as_it_can_be_typed(hub):
    error = refused(hub, "git-hub", "serch_code", "--query", "x")
    assert isinstance(error, McpError)
    assert error.message == "Tool serch_code not found on server git-hub"
    assert error.suggestions == ("Did you mean pflow mcp call git-hub search_code?",)
    assert error.where == Where(server="git-hub", tool="serch_code", phase="config")
    assert (error.kind, error.exit_code) == ("not_found", 2)
    assert "unknown" not in error.details
    assert refused(hub, "git-hub", "zzz").suggestions == ("See its tools: pflow mcp tools git-hub",)


def test_a_server_that_cannot_be_used_says_what_to_do(hub):
    hub.write(HUB + '[mcpServers.new]\ncommand = "x"\n')
    error = refused(hub, "new", "anything")
    assert (error.message, error.suggestions) == ("Server new is not synced", ("Run: pflow mcp sync new",))
    hub.write(HUB + 'tools = { deny = ["search_*"] }\n')
    error = refused(hub, "git-hub", "search_code")
    assert error.message == "Tool search_code of server git-hub is excluded by the config"
    hub.write(HUB + "disabled = true\n")
    assert refused(hub, "git-hub", "search_code").message == "Server git-hub is disabled"


def test_names_that_are_missing_are_asked_for(hub):
    assert refused(hub).suggestions == ("See: pflow mcp call --help",)
    assert "Name a server and one of its tools" in refused(hub, "--print", "git-hub", "search_code").message
    error = refused(hub, "git-hub", "--query", "x")
    assert error.message == "The name of a tool of server git-hub is missing"
    assert error.suggestions == ("See its tools: pflow mcp tools git-hub",)


def test_the_help_of_a_server_lists_its_tools(hub):
    rows = hub.run(call, "git-hub", "--help").data
    assert {row["tool"] for row in rows} == set(TOOLS)
    assert hub.run(call, "git-hub", "-h").data == rows
