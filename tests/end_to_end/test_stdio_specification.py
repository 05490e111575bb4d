"""The 15 test criteria of the first stdio specification, each under its number."""

from __future__ import annotations

import json

import pytest

from pflow_mcp_plugin.contract import Entry, NodeRef
from pflow_mcp_plugin.injection import inject
from pflow_mcp_plugin.naming import parse_node_type

pytest.importorskip("mcp")


def _types(pflow) -> list[str]:
    return [row["node"] for row in pflow("registry", "list", "--json").envelope["data"]]


def test_criterion_01_a_stdio_server_with_a_valid_command_is_saved(pflow, pflow_home):
    added = pflow("mcp", "add", '{"github": {"command": "npx", "args": ["-y", "some-server"]}}')
    assert added.exit_code == 0
    text = (pflow_home / "config" / "mcp-servers.toml").read_text()
    assert "[mcpServers.github]" in text
    assert 'command = "npx"' in text


def test_criterion_02_an_unknown_transport_is_rejected(pflow, pflow_home):
    added = pflow("mcp", "add", '{"odd": {"type": "carrier-pigeon", "command": "x"}}')
    assert added.exit_code == 2
    assert "carrier-pigeon" in added.stderr
    assert not (pflow_home / "config" / "mcp-servers.toml").exists()


def test_criterion_03_a_sync_of_three_tools_makes_three_entries(pflow, scripted):
    scripted("one", "two", "three", sync=False)
    synced = pflow("mcp", "sync", "odd", "--json").envelope["data"]
    assert synced[0]["tools_discovered"] == 3
    assert synced[0]["tools_registered"] == 3
    assert {"mcp-odd-one", "mcp-odd-two", "mcp-odd-three"} <= set(_types(pflow))
    described = pflow("registry", "describe", "mcp-odd-one", "--json").envelope["data"]
    assert described["file_path"] == "virtual://mcp"
    assert described["class_name"] == "MCPNode"


def test_criterion_04_an_empty_list_of_tools_makes_no_entries(pflow, scripted):
    scripted(sync=False)
    synced = pflow("mcp", "sync", "odd", "--json")
    assert synced.exit_code == 0
    assert synced.envelope["data"][0]["tools_registered"] == 0
    assert not [name for name in _types(pflow) if name.startswith("mcp-")]


def _injected(pflow_home, path) -> dict[str, object]:
    from pflow_mcp_plugin.host.embedded_host import open_host

    with open_host() as host:
        compiled = host.runner.compile(json.loads(path.read_text()), "wf")
        return dict(compiled.nodes[0].ref.injected)


def test_criterion_05_running_a_node_gets_the_server_injected(pflow_home, scripted, workflow):
    scripted("One Tool")
    assert _injected(pflow_home, workflow(("a", "mcp-odd-one-tool", {})))["__mcp_server__"] == "odd"


def test_criterion_06_running_a_node_gets_the_tool_injected(pflow_home, scripted, workflow):
    scripted("One Tool")
    assert _injected(pflow_home, workflow(("a", "mcp-odd-one-tool", {})))["__mcp_tool__"] == "One Tool"


def test_criterion_07_a_command_that_is_not_there_is_named(pflow):
    pflow("mcp", "add", "ghost", "--", "no-such-command-anywhere")
    synced = pflow("mcp", "sync", "ghost")
    assert synced.exit_code == 3
    assert "Command not found: no-such-command-anywhere" in synced.stderr + synced.stdout
    assert "Traceback" not in synced.stderr


def test_criterion_08_a_process_past_its_deadline_is_ended_with_sigterm(pflow, scripted, workflow, tmp_path):
    """Here the deadline is half a second instead of the criterion's 31."""
    log = tmp_path / "log"
    scripted("one", env={"ANSWER": "hang", "LOG": str(log)}, call_timeout=0.5)
    ran = pflow("run", workflow(("a", "mcp-odd-one", {})))
    assert ran.exit_code == 1
    assert "did not answer within 0.5 s (call_timeout)" in ran.stderr
    assert log.read_text().splitlines()[-2:] == ["call", "SIGTERM"]


def test_criterion_09_json_that_does_not_parse_is_told(pflow, scripted, workflow):
    scripted("one", env={"ANSWER": "garbage"})
    ran = pflow("run", workflow(("a", "mcp-odd-one", {})), "--json")
    assert ran.exit_code == 1
    assert "Invalid JSON response from server" in ran.envelope["error"]["message"]


def test_criterion_10_a_tool_with_spaces_in_its_name_gets_a_valid_one(pflow, scripted, workflow):
    scripted("Create  an Issue!")
    assert "mcp-odd-create-an-issue" in _types(pflow)
    assert pflow("run", workflow(("a", "mcp-odd-create-an-issue", {}))).exit_code == 0


def test_criterion_11_a_duplicate_entry_overwrites_the_one_before(pflow, scripted, pflow_home):
    scripted("one", schema={"type": "object", "properties": {"old": {"type": "string"}}})
    scripted("one", schema={"type": "object", "properties": {"new": {"type": "string"}}})
    assert pflow("mcp", "approve", "odd").exit_code == 0
    described = pflow("registry", "describe", "mcp-odd-one", "--json").envelope["data"]
    assert [param["key"] for param in described["interface"]["params"]] == ["new"]
    saved = {**described, "description": "kept by hand"}
    (pflow_home / "data" / "registry.json").write_text(
        json.dumps({"schema_version": 1, "nodes": {"mcp-odd-one": saved}})
    )
    again = pflow("registry", "describe", "mcp-odd-one", "--json")
    assert again.envelope["data"]["description"] == "kept by hand"
    listed = pflow("registry", "list")
    assert "mcp-odd-one" in listed.stderr
    assert "registry.json" in listed.stderr


def test_criterion_12_a_variable_that_is_not_set_reaches_the_server_empty(
    pflow, scripted, workflow, tmp_path
):
    log = tmp_path / "log"
    scripted("one", env={"TOKEN": "${NOT_SET_ANYWHERE}", "LOG": str(log)})
    ran = pflow("run", workflow(("a", "mcp-odd-one", {})))
    assert ran.exit_code == 0
    assert "start TOKEN=''" in log.read_text()
    assert "NOT_SET_ANYWHERE" in ran.stderr


def test_criterion_13_a_node_without_the_prefix_gets_nothing_injected():
    entry = Entry(node="echo", class_name="Echo", module="somewhere")
    assert inject(NodeRef(id="a", type="echo", entry=entry, host=None)) is None


def test_criterion_14_json_rpc_error_32601_reads_method_not_found(pflow, scripted, workflow):
    scripted("one", env={"ANSWER": "not-found"})
    ran = pflow("run", workflow(("a", "mcp-odd-one", {})))
    assert ran.exit_code == 1
    assert "Method not found" in ran.stderr


def test_criterion_15_a_node_type_is_parsed_into_server_and_tool():
    assert parse_node_type("mcp-github-create-issue", ["github"]) == ("github", "create-issue")
    assert parse_node_type("mcp-github-create-issue", ["github", "github-create"]) == (
        "github-create",
        "issue",
    )


def test_a_server_sees_no_secret_of_the_users_environment(pflow, scripted, workflow):
    scripted("one")
    path = workflow(("a", "mcp-odd-one", {}), outputs={"seen": "${a.result.environment}"})
    ran = pflow(
        "run", path, "--json", env={"OTHER_SERVERS_TOKEN": "hidden", "https_proxy": "http://127.0.0.1:1"}
    )
    seen = ran.envelope["data"]["outputs"]["seen"]
    assert "OTHER_SERVERS_TOKEN" not in seen
    assert seen["https_proxy"] == "http://127.0.0.1:1"
