"""The boundary holds: a host that knows the contract only can do all that the embedded one can."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def drive(pflow_home, started):
    """Have the foreign host do things, in a process without the embedded one; give the results."""

    def run(*actions):
        program = (sys.executable, str(HERE / "drive.py"), str(pflow_home))
        process = started(program=program, stdin=subprocess.PIPE)
        stdout, stderr = process.communicate(json.dumps(actions), timeout=60)
        assert process.returncode == 0, stderr
        return json.loads(stdout)["results"]

    return run


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A home with the server, once a test has made it."""
    return tmp_path_factory.mktemp("foreign") / "home"


@pytest.fixture
def added(kept, drive, pflow_home, typed_command):
    """The tests' own server, added and synced by the plugin's commands."""
    if not kept.exists():
        add = ["command", "mcp", "add", "typed", "--", *typed_command]
        results = drive(add, ["command", "mcp", "sync", "typed"])
        assert [result.get("error") for result in results] == [None, None]
        shutil.copytree(pflow_home, kept)
    shutil.copytree(kept, pflow_home, dirs_exist_ok=True)


def test_commands_report_and_nodes_are_found_described_or_explained(drive, added):
    listed, entry, alias, missing = drive(
        ["command", "mcp", "list"],
        ["entry", "mcp-typed-describe-each"],
        ["entry", "mcp-typed-describe_each"],
        ["entry", "mcp-typed-descibe"],
    )
    assert "typed" in json.dumps(listed["data"])
    assert "typed" in listed["text"]
    assert entry["source"] == "mcp"
    types = {field["key"]: field["type"] for field in entry["interface"]["params"]}
    assert (types["integer"], types["nullable"], types["nested"]) == ("int", "str | None", "dict")
    assert alias["node"] == "mcp-typed-describe-each"
    assert missing["error"]["type"] == "not_found"
    assert missing["error"]["message"].startswith("Tool descibe not found on server typed")
    assert "Did you mean mcp-typed-describe?" in missing["error"]["message"]


def test_every_json_type_reaches_the_tool(drive, added, no_leftovers):
    sent = {
        "text": "3",
        "integer": 3,
        "number": 3.5,
        "flag": True,
        "nullable": None,
        "items": [1, 2],
        "nested": {"inner": {"deep": [None, "x"]}},
    }
    node = {"id": "each", "type": "mcp-typed-describe-each", "params": sent}
    last = {"id": "last", "type": "mcp-typed-describe", "params": {"value": "${each.result.items.type}"}}
    (ran,) = drive(["run", {"nodes": [node, last]}, {}])
    received = {name: value["repr"] for name, value in ran["outputs"]["each"]["result"].items()}
    assert received == {name: repr(value) for name, value in sent.items()}
    assert ran["outputs"]["last"]["repr"] == "'array'"  # one step feeds the next


def test_the_server_keeps_its_state_between_the_steps_of_a_run(drive, added, no_leftovers):
    nodes = [{"id": f"step{number}", "type": "mcp-typed-count"} for number in (1, 2, 3)]
    first, second = drive(["run", {"nodes": nodes}, {}], ["run", {"nodes": nodes[:1]}, {}])
    assert [first["outputs"][node["id"]]["result"] for node in nodes] == [1, 2, 3]
    assert second["outputs"]["step1"]["result"] == 1
    details = second["annotations"]["step1"]
    assert (details["server"], details["tool"]) == ("typed", "count")


def test_a_tool_is_called_by_the_names_of_server_and_tool(drive, added, no_leftovers):
    call = ["command", "mcp", "call", "typed"]
    chain, unknown = drive(
        [*call, "describe", "--value", "sea", "then", "mcp-typed-count"], [*call, "descibe"]
    )
    assert chain["error"] is None
    first, second = chain["data"].values()
    assert first["repr"] == "'sea'"
    assert second["result"] == 1
    assert unknown["error"]["type"] == "not_found"
    assert unknown["error"]["suggestions"] == ["Did you mean pflow mcp call typed describe?"]


def test_the_config_is_checked(drive, pflow_home):
    config = pflow_home / "config" / "mcp-servers.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[mcpServers.bad]\ntype = "carrier-pigeon"\n', encoding="utf-8")
    (problems,) = drive(["check"])
    assert any(problem["path"].startswith("mcpServers.bad") for problem in problems)
