"""A failure tells each fact once, to people and as JSON."""

from __future__ import annotations

import json

import pytest

SERVERS = """
[mcpServers.gone]
command = "no-such-program"

[mcpServers.odd]
command = "x"
args = "text"
cwd = 3
"""
ODD = ["Must be a list of strings", "Must be a string, not a number"]
MISSING = ["Command not found: no-such-program", "give its full path"]
WORKFLOW = {
    "nodes": [{"id": "a", "type": "ecko"}, {"id": "b", "type": "echo", "params": {"c": 1}}, {"id": "a"}]
}
CASES = {
    "a sync of one server": (["mcp", "sync", "gone"], MISSING),
    "a sync of a server with mistakes": (["mcp", "sync", "odd"], ["Server odd: 2 problems", *ODD]),
    "a sync of several": (["mcp", "sync"], ["2 of 2 servers", *MISSING, "Server odd: 2 problems", *ODD]),
    "a test": (["mcp", "test", "gone"], MISSING),
    "a refused server": (["mcp", "add", '{"new": {"command": 1, "args": "text"}}'], ["2 problems", *ODD]),
    "a server added and synced": (["mcp", "add", "new", "--sync", "--", "no-such-program"], MISSING),
    "a check of the config": (["config", "check"], ["The config has 2 errors and 2 warnings", *ODD]),
    "a workflow with mistakes": (
        ["validate", "workflow.json"],
        ["Unknown node type ecko", "has no parameter c"],
    ),
    "a run of it": (["run", "workflow.json"], ["Unknown node type ecko", "has no parameter c"]),
    "a check of the registry": (
        ["registry", "validate"],
        ["cannot be loaded", "params a has an invalid type"],
    ),
    "one node": (["registry", "run", "mcp-odd-x"], ODD),
}


@pytest.fixture
def failing(pflow, pflow_home, tmp_path):
    """Run a command where everything has mistakes."""
    (pflow_home / "config").mkdir()
    (pflow_home / "config" / "mcp-servers.toml").write_text(SERVERS)
    (pflow_home / "data").mkdir()
    nodes = {
        "none": {"module": "no_such_module", "class_name": "X"},
        "odd": {
            "module": "builtins",
            "class_name": "int",
            "interface": {"params": [{"key": "a", "type": "?"}]},
        },
    }
    (pflow_home / "data" / "registry.json").write_text(json.dumps({"schema_version": 1, "nodes": nodes}))
    (tmp_path / "workflow.json").write_text(json.dumps(WORKFLOW))
    return pflow


@pytest.mark.parametrize("case", CASES)
def test_a_failure_tells_each_fact_once(failing, case):
    command, facts = CASES[case]
    text = failing(*command)
    assert text.exit_code
    data = failing(*command[:2], "--json", *command[2:])
    for fact in facts:
        assert (text.stdout + text.stderr).count(fact) == 1, text
        assert data.stdout.count(json.dumps(fact)[1:-1]) == 1, data.stdout
