"""An older pflow's servers are found, migrated and used, by the real program."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.programs


@pytest.fixture
def pflow(tmp_path):
    """Run pflow with an own home folder; return the exit code, the JSON envelope and stderr."""
    env = {**os.environ, "HOME": str(tmp_path), "PFLOW_HOME": str(tmp_path / "new")}

    def run(*words):
        command = [sys.executable, "-m", "pflow_mcp_plugin", *words, "--json"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, json.loads(done.stdout), done.stderr

    return run


def test_servers_of_an_older_pflow_are_told_of_migrated_and_used(pflow, tmp_path):
    older = tmp_path / ".pflow" / "mcp-servers.json"
    older.parent.mkdir()
    server = {"transport": "stdio", "command": sys.executable}
    server["args"] = ["-P", "-m", "pflow_mcp_plugin.server.demo_server"]
    older.write_text(json.dumps({"servers": {"demo": server}}), encoding="utf-8")

    code, listed, err = pflow("mcp", "list")
    assert (code, listed["data"]) == (0, [])
    step = f"pflow registry migrate-mcp --from {older}"
    assert step in err + json.dumps(listed)
    assert step in json.dumps(pflow("config", "check")[1])

    code, migrated, _ = pflow("registry", "migrate-mcp", "--from", str(older), "--backup")
    assert (code, migrated["data"]["added"]) == (0, ["demo"])
    assert step not in json.dumps(pflow("config", "check")[1])
    assert pflow("registry", "refresh", "--mcp-server", "demo")[0] == 0
    code, checked, _ = pflow("registry", "validate", "--mcp-wrappers")
    assert code == 0, checked
    assert pflow("registry", "test-mcp-connections")[0] == 0
    code, ran, _ = pflow("registry", "run", "mcp-demo-add", "a=1", "b=2")
    assert (code, ran["success"]) == (0, True)


def test_a_source_without_node_types_is_named(pflow):
    code, answer, _ = pflow("registry", "validate", "--source", "nothing")
    assert code != 0
    assert answer["error"]["message"] == "No node type is of the source nothing"
