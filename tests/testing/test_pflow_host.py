"""pflow in a test: servers, presets, syncs and runs, and nothing left when it is closed."""

import json
import os
import sys

import attrs
import pytest
import stdio_server
from pluggy import PluginValidationError

from pflow_mcp_plugin.config.expansion import VariableLookup
from pflow_mcp_plugin.contract import PflowError, hookimpl
from pflow_mcp_plugin.discovery.servers import launch, servers
from pflow_mcp_plugin.errors import DeadlineExceeded, Where
from pflow_mcp_plugin.exchange import CallResult
from pflow_mcp_plugin.testing import ToolFailure, assert_preset_starts, open_pflow_host
from pflow_mcp_plugin.types import PresetInput, ServerPreset, Tool
from pflow_mcp_plugin.workflows import run_workflow

SEARCH = Tool(
    name="search",
    input_schema={
        "type": "object",
        "properties": {"query": {"type": "string", "minLength": 3}},
        "required": ["query"],
    },
)
SEARCHES = {
    "inputs": {"query": {"type": "str"}},
    "nodes": [{"id": "find", "type": "mcp-tickets-search", "params": {"query": "${query}"}}],
    "outputs": {"hits": {"source": "${find.result}"}},
}
ROUTED = {
    "nodes": [
        {"id": "find", "type": "mcp-tickets-search", "params": {"query": "open"}},
        {"id": "tell", "type": "echo", "params": {"message": "too slow"}},
    ],
    "edges": [{"from": "find", "to": "tell", "action": "timeout"}],
}
DEMO = ServerPreset(
    name="demo-here",
    title="Demo",
    description="The bundled server",
    command=sys.executable,
    args=("-m", "pflow_mcp_plugin.server.demo_server"),
    env={"PFLOW_TOKEN": "${PFLOW_TOKEN}"},
    inputs=(PresetInput(name="PFLOW_TOKEN", description="A token", secret=True),),
)
PLAIN = attrs.evolve(DEMO, env={}, inputs=())


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_a_warning_is_shown_once_for_each_run(pflow_host):
    table = {"command": sys.executable, "args": [stdio_server.__file__, "Plain"], "protocol": "handshake"}
    pflow_host.add("odd", {**table, "env": {"TOKEN": "${NO_SUCH_VARIABLE}"}})
    pflow_host.sync()
    node = {"id": "once", "type": "mcp-odd-act"}
    for runs in (1, 2):
        assert pflow_host.run({"nodes": [node, {**node, "id": "again"}]}, {}).success
        told = [it.message for it in pflow_host.warnings if "NO_SUCH_VARIABLE" in it.message]
        assert len(told) == runs


def test_a_run_on_a_fake_server_is_real_and_leaves_nothing(pflow_host, no_leftovers):
    server = pflow_host.serve("calc", [add])
    outcome = pflow_host.run(
        {"nodes": [{"id": "sum", "type": "mcp-calc-add", "params": {"a": 1, "b": 2}}]}, {}
    )
    assert outcome.success, outcome.error
    assert outcome.outputs["result"] == 3
    assert server.answers.arguments("add") == [{"a": 1, "b": 2}]
    assert {call.server for call in server.answers.calls} == {"calc"}
    server.close()


def test_a_stub_answers_in_place_of_a_server_that_nobody_has(pflow_host):
    tickets = pflow_host.stub("tickets", [SEARCH])
    tickets.give("search", ["first", "second"])
    outcome = pflow_host.run(SEARCHES, {"query": "open"})
    assert outcome.success, outcome.error
    assert outcome.outputs == {"hits": ["first", "second"]}
    assert tickets.arguments("search") == [{"query": "open"}]
    (call,) = tickets.calls
    assert (call.node_id, call.run_id) == ("find", outcome.run_id)
    assert pflow_host.warnings == []


def test_a_second_stub_of_a_server_is_refused_and_a_plugin_that_does_not_fit_is_named(pflow_host):
    pflow_host.stub("tickets", [SEARCH])
    with pytest.raises(ValueError, match="Server tickets has a stub in this test already"):
        pflow_host.stub("tickets", [SEARCH])
    with pytest.raises(PluginValidationError, match="Plugin 'Odd "):
        pflow_host.register(type("Odd", (), {"pflow_mcp_call_tool": hookimpl(lambda self, tool: None)})())


def test_arguments_of_a_stub_are_checked_as_always(pflow_host):
    tickets = pflow_host.stub("tickets", [SEARCH])
    node = {"id": "find", "type": "mcp-tickets-search", "params": {"query": "ab"}}
    with pytest.raises(PflowError, match="expected 3 characters or more"):
        pflow_host.run({"nodes": [node]})
    text = {"id": "text", "type": "echo", "params": {"message": "ab"}}
    outcome = pflow_host.run({"nodes": [text, {**node, "params": {"query": "${text.message}"}}]})
    assert not outcome.success
    assert tickets.count() == 0


def test_a_failure_of_a_stub_takes_the_action_of_a_real_one(pflow_host):
    tickets = pflow_host.stub("tickets", [SEARCH])
    tickets.give("search", DeadlineExceeded("too late", where=Where(server="tickets", tool="search")))
    outcome = pflow_host.run(ROUTED)
    assert outcome.success, outcome.error
    assert outcome.steps == 2
    tickets.give("search", ToolFailure("no such query"))
    error = pflow_host.run(ROUTED).error
    assert "no such query" in str(error)
    assert tickets.count("search") == 2


def test_hooks_of_a_registered_plugin_see_the_calls_of_a_stub(pflow_host):
    class Loud:
        @hookimpl(wrapper=True)
        def pflow_mcp_call_tool(self, call):
            result = yield
            return CallResult(content=({"type": "text", "text": result.content[0]["text"].upper()},))

    pflow_host.stub("tickets", [SEARCH]).give("search", "quiet")
    pflow_host.register(Loud())
    assert pflow_host.run(SEARCHES, {"query": "open"}).outputs == {"hits": "QUIET"}


def test_a_workflow_may_be_a_file(pflow_host, tmp_path):
    pflow_host.stub("tickets", [SEARCH]).give("search", "found")
    (tmp_path / "search.json").write_text(json.dumps(SEARCHES), encoding="utf-8")
    assert pflow_host.run(tmp_path / "search.json", {"query": "open"}).outputs == {"hits": "found"}
    outer = "nodes: [{id: a, type: workflow, params: {workflow: ./search.json, query: open}}]\n"
    (tmp_path / "outer.yaml").write_text(outer, encoding="utf-8")
    assert pflow_host.run(tmp_path / "outer.yaml").outputs == {"hits": "found"}


def test_a_preset_is_added_synced_and_run(pflow_host, no_leftovers):
    assert pflow_host.add_preset(DEMO, {"PFLOW_TOKEN": "s3cret"}, name="mine") == "mine"
    assert "mcp-mine-add" in pflow_host.sync("mine")
    assert pflow_host.host.settings.get("PFLOW_TOKEN") == "s3cret"
    assert "s3cret" not in (pflow_host.home / "config" / "mcp-servers.toml").read_text(encoding="utf-8")
    outcome = pflow_host.run({"nodes": [{"id": "sum", "type": "mcp-mine-add", "params": {"a": 1, "b": 2}}]})
    assert outcome.outputs["result"] == 3


def test_a_given_secret_is_used_even_if_the_environment_has_one(pflow_host, monkeypatch):
    monkeypatch.setenv("PFLOW_TOKEN", "of the developer")
    pflow_host.add_preset(DEMO, {"PFLOW_TOKEN": "of the test"})
    known, settings = servers(pflow_host.host.paths), pflow_host.host.settings
    ready = launch("demo-here", known.store, known.catalog, VariableLookup(settings))
    assert ready.server.env["PFLOW_TOKEN"] == "of the test"


@pytest.mark.programs
def test_the_tools_of_a_preset_that_starts_are_returned(pflow_host, no_leftovers):
    some = attrs.evolve(PLAIN, tools=("re*",))
    assert assert_preset_starts(some, host=pflow_host) == ("remember", "recall")


@pytest.mark.programs
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"args": ("-c", "raise SystemExit('no licence')")}, ["does not start", "no licence"]),
        ({"command": "no-such-program"}, ["does not start", "Command not found: no-such-program"]),
        (
            {"tools": ("delete_*",), "rename": {"sum": "add"}, "manifest_hash": "sha256:" + 64 * "0"},
            ["does not fit its server", "delete_*", "`rename`", "sum", "all of it: sha256:"],
        ),
        (
            {
                "inputs": (PresetInput(name="KEY", description="A key", secret=True),),
                "env": {"KEY": "${KEY}"},
            },
            ["cannot be added", "KEY (A key)"],
        ),
    ],
    ids=["it exits", "no program", "other tools", "an input"],
)
def test_a_preset_that_does_not_start_says_what_is_wrong(changed, said):
    with pytest.raises(AssertionError) as raised:
        assert_preset_starts(attrs.evolve(PLAIN, **changed))
    assert [words for words in said if words not in str(raised.value)] == []


@pytest.mark.programs
def test_a_preset_is_found_by_its_name_which_a_plugin_must_offer():
    assert "word_count" in assert_preset_starts("demo")
    with pytest.raises(AssertionError, match="No preset is named demmo"):
        assert_preset_starts("demmo")


def test_a_missing_input_is_named_and_nobody_is_asked(pflow_host):
    with pytest.raises(PflowError, match="PFLOW_TOKEN"):
        pflow_host.add_preset(DEMO)


def test_a_server_that_does_not_start_fails_the_sync(pflow_host):
    pflow_host.add("gone", {"command": "no-such-program-here"})
    with pytest.raises(PflowError, match="no-such-program-here"):
        pflow_host.sync("gone")


def test_the_home_of_before_is_restored(tmp_path, monkeypatch):
    monkeypatch.setenv("PFLOW_HOME", "before")
    with open_pflow_host(tmp_path) as host:
        assert os.environ["PFLOW_HOME"] == str(tmp_path) == str(host.home)
    assert os.environ["PFLOW_HOME"] == "before"
    monkeypatch.delenv("PFLOW_HOME")
    with open_pflow_host(tmp_path):
        pass
    assert "PFLOW_HOME" not in os.environ


def test_a_run_in_another_host_says_that_the_server_is_only_a_stub(pflow_host):
    pflow_host.stub("tickets", [SEARCH]).give("search", [])
    with pytest.raises(PflowError, match="only its stub, for"):
        run_workflow(SEARCHES, {"query": "open"})
