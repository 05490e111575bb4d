"""What an older pflow left: a workflow with `mcp_wrapper` nodes and mappings, a registry, servers."""

import json
from pathlib import Path

import pytest
from programs import script_server
from workflow_parts import edge, step

FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"


def wrapper(id_, server, tool, version, **params):
    metadata = {"server_id": server, "tool_name": tool, "version": version}
    return step(id_, "mcp_wrapper", params, version="1.0.0", mcp_metadata=metadata)


SEARCHING, SENDING = "mcp-github-search-code", "mcp-slack-send-message"
OLDER = {
    "metadata": {"planner_version": "1.0.0", "created_at": "2024-01-01T12:00:00Z", "prompt": "find and post"},
    "nodes": [
        wrapper(SEARCHING, "github-server", "search_code", "1.2.0", max_results=15),
        {"id": "llm", "version": "1.0.0", "params": {"model": "gpt-4", "temperature": 0.3}},
        wrapper(SENDING, "slack-server", "send_message", "2.1.0"),
    ],
    "edges": [edge(SEARCHING, "llm"), edge("llm", SENDING)],
    "mappings": {SENDING: {"input_mappings": {"message": "summary", "channel": "dev-team-alerts"}}},
}
TEXT = {"type": "string"}
SEARCH = {"properties": {"query": TEXT, "max_results": {"type": "integer"}}, "required": ["query"]}
SEND = {"properties": {"message": TEXT, "channel": TEXT}, "required": ["message", "channel"]}
INPUTS = {"query": "auth bug", "prompt": "Sum it up", "summary": "All is well", "dev-team-alerts": "#dev"}


@pytest.fixture
def servers(scripted):
    """Servers of the names that the workflow has."""
    scripted("search_code", server="github-server", schema={"type": "object", **SEARCH})
    scripted("send_message", server="slack-server", schema={"type": "object", **SEND})


def test_it_runs_on_real_servers_with_a_stand_in_for_the_model(servers, pflow, workflow):
    assert pflow("validate", workflow(**OLDER)).exit_code == 0
    stand_in = step("llm", "echo", {"message": "${result}"})
    nodes = [stand_in if node["id"] == "llm" else node for node in OLDER["nodes"]]
    path = workflow(**{**OLDER, "nodes": nodes})
    given = [f"{name}={value}" for name, value in INPUTS.items() if name != "prompt"]
    ran = pflow("run", path, *given, "--json")
    assert ran.exit_code == 0, ran.stderr
    sent = ran.envelope["data"]["outputs"]["arguments"]
    assert sent == {"message": "All is well", "channel": "#dev"}
    steps = json.loads(Path(ran.envelope["trace_path"]).read_text())["steps"]
    assert steps[0]["details"]["arguments"] == {"max_results": 15, "query": "auth bug"}
    assert steps[1]["outputs"]["message"]["arguments"] == {"max_results": 15, "query": "auth bug"}


ENTRY = {"class_name": "MCPNode", "module": "no_such_pflow.nodes.mcp.node", "file_path": "virtual://mcp"}
REGISTRY = {"mcp-github-create-issue": {**ENTRY, "interface": {"params": [{"name": "title", "type": "str"}]}}}


def test_a_registry_of_the_older_shape_is_told_with_what_to_do(pflow, pflow_home):
    (pflow_home / "data").mkdir()
    (pflow_home / "data" / "registry.json").write_text(json.dumps(REGISTRY))
    for command in (["registry", "list"], ["config", "check"]):
        done = pflow(*command)
        told = done.stdout + done.stderr
        assert done.exit_code == 0
        assert "as a plugin's nodes need no entry" in told
        assert "registry.json: " in told


def test_servers_of_an_older_pflow_are_told_of_migrated_and_used(pflow, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    def told(line):
        ran = pflow(*line.split(), "--json")
        assert ran.exit_code == 0, ran.stderr
        return ran.envelope["data"], ran.stdout + ran.stderr

    older = tmp_path / ".pflow" / "mcp-servers.json"
    older.parent.mkdir()
    table = script_server(FAULTY, "Plain")
    server = {"transport": "stdio", "command": table["command"], "args": table["args"]}
    older.write_text(json.dumps({"servers": {"odd": server}}), encoding="utf-8")

    step = f"pflow registry migrate-mcp --from {older}"
    listed, said = told("mcp list")
    assert listed == []
    assert step in said
    assert step in told("config check")[1]
    assert told(f"registry migrate-mcp --from {older} --backup")[0]["added"] == ["odd"]
    assert step not in told("config check")[1]
    for line in (
        "registry refresh --mcp-server odd",
        "registry validate --mcp-wrappers",
        "registry test-mcp-connections",
        "registry run mcp-odd-act value=1",
    ):
        told(line)
