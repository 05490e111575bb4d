"""A whole workflow of the older shape: ids that are types, `mcp_wrapper` nodes, an `llm` node, mappings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pflow_mcp_plugin.host.embedded_host import open_host

pytest.importorskip("mcp")

OLDER = {
    "metadata": {
        "planner_version": "1.0.0",
        "created_at": "2024-01-01T12:00:00Z",
        "prompt": "find Python authentication bugs on GitHub and post summary to Slack",
    },
    "nodes": [
        {
            "id": "mcp-github-search-code",
            "version": "1.0.0",
            "type": "mcp_wrapper",
            "params": {"max_results": 15},
            "mcp_metadata": {"server_id": "github-server", "tool_name": "search_code", "version": "1.2.0"},
        },
        {"id": "llm", "version": "1.0.0", "params": {"model": "gpt-4", "temperature": 0.3}},
        {
            "id": "mcp-slack-send-message",
            "version": "1.0.0",
            "type": "mcp_wrapper",
            "params": {},
            "mcp_metadata": {"server_id": "slack-server", "tool_name": "send_message", "version": "2.1.0"},
        },
    ],
    "edges": [
        {"from": "mcp-github-search-code", "to": "llm"},
        {"from": "llm", "to": "mcp-slack-send-message"},
    ],
    "mappings": {
        "mcp-slack-send-message": {
            "input_mappings": {"message": "summary", "channel": "dev-team-alerts"},
        }
    },
}
SEARCH = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "max_results": {"type": "integer"}},
    "required": ["query"],
}
SEND = {
    "type": "object",
    "properties": {"message": {"type": "string"}, "channel": {"type": "string"}},
    "required": ["message", "channel"],
}
INPUTS = {"query": "auth bug", "prompt": "Sum it up", "summary": "All is well", "dev-team-alerts": "#dev"}


@pytest.fixture
def servers(scripted):
    """Servers of the names that the workflow has."""
    scripted("search_code", server="github-server", schema=SEARCH)
    scripted("send_message", server="slack-server", schema=SEND)


def test_it_compiles_as_a_whole(servers, pflow_home):
    before = json.dumps(OLDER)
    with open_host() as host:
        compiled = host.runner.compile(OLDER, "older", INPUTS)
    assert json.dumps(OLDER) == before
    assert [(node.ref.id, node.ref.type) for node in compiled.nodes] == [
        ("mcp-github-search-code", "mcp-github-server-search-code"),
        ("llm", "llm"),
        ("mcp-slack-send-message", "mcp-slack-server-send-message"),
    ]
    search, _, send = compiled.nodes
    assert search.ref.injected == {"__mcp_server__": "github-server", "__mcp_tool__": "search_code"}
    assert search.ref.params == {"max_results": 15}
    assert search.successors == {"default": "llm"}
    assert send.mapping.inputs == {"message": "summary", "channel": "dev-team-alerts"}
    assert not compiled.document.namespaced
    assert compiled.warnings == ()


def test_by_itself_it_is_valid_and_what_a_run_has_to_bring_is_a_warning(servers, pflow, tmp_path):
    (tmp_path / "older.json").write_text(json.dumps(OLDER))
    checked = pflow("validate", "older.json", "--json")
    assert checked.exit_code == 0, checked.stdout


def test_it_runs_on_real_servers_with_a_stand_in_for_the_model(servers, pflow, tmp_path):
    stand_in = {"id": "llm", "type": "echo", "params": {"message": "${result}"}}
    nodes = [stand_in if node["id"] == "llm" else node for node in OLDER["nodes"]]
    (tmp_path / "older.json").write_text(json.dumps({**OLDER, "nodes": nodes}))
    given = [f"{name}={value}" for name, value in INPUTS.items() if name != "prompt"]
    ran = pflow("run", "older.json", *given, "--json")
    assert ran.exit_code == 0, ran.stderr
    sent = ran.envelope["data"]["outputs"]["arguments"]
    assert sent == {"message": "All is well", "channel": "#dev"}
    steps = json.loads(Path(ran.envelope["trace_path"]).read_text())["steps"]
    assert steps[0]["details"]["arguments"] == {"max_results": 15, "query": "auth bug"}
    assert steps[1]["outputs"]["message"]["arguments"] == {"max_results": 15, "query": "auth bug"}


REGISTRY = {
    "mcp-github-create-issue": {
        "class_name": "MCPNode",
        "module": "no_such_pflow.nodes.mcp.node",
        "file_path": "virtual://mcp",
        "interface": {
            "description": "Create a GitHub issue",
            "params": [{"name": "title", "type": "str"}, {"name": "body", "type": "str"}],
            "outputs": [{"name": "issue_url", "type": "str"}],
            "actions": ["default", "error"],
        },
    }
}


@pytest.mark.parametrize(
    "content", [REGISTRY, {"schema_version": 1, "nodes": REGISTRY}], ids=["flat", "nodes"]
)
def test_a_registry_of_the_older_shape_is_told_with_what_to_do(pflow, pflow_home, content):
    (pflow_home / "data").mkdir()
    (pflow_home / "data" / "registry.json").write_text(json.dumps(content))
    for command in (["registry", "list"], ["registry", "search", "issue"], ["config", "check"]):
        done = pflow(*command)
        told = done.stdout + done.stderr
        assert done.exit_code == 0
        assert "as a plugin's nodes need no entry" in told
        assert "registry.json: " in told
