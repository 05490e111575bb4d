"""A server whose program is missing is named before anything runs."""

from __future__ import annotations

import json

import pytest

WARNING = "Command not found: no-such-program (server typed)"


@pytest.fixture
def lacking(typed, pflow_home, workflow):
    """A workflow whose second and third node need a server whose program is missing since its sync."""
    config = pflow_home / "config" / "mcp-servers.toml"
    lines = config.read_text().splitlines()
    changed = ['command = "no-such-program"' if line.startswith("command = ") else line for line in lines]
    place = changed.index("[mcpServers.typed]") + 1
    config.write_text("\n".join([*changed[:place], 'trust = "auto"', *changed[place:]]))
    return workflow(
        ("first", "shell", {"command": ["touch", "begun"]}),
        ("a", "mcp-typed-count", {}),
        ("b", "mcp-typed-structured", {}),
    )


def test_checks_and_lists_warn_once_of_the_missing_program(lacking, pflow, tmp_path):
    nodes = [{"id": "own", "type": "workflow", "params": {"workflow": "./wf.json"}}]
    (tmp_path / "outer.json").write_text(json.dumps({"nodes": nodes}))
    checks = ("validate wf.json", "validate outer.json", "run wf.json --dry-run", "config check", "mcp list")
    for line in checks:
        done = pflow(*line.split())
        assert done.exit_code == 0
        assert (done.stdout + done.stderr).count(WARNING) == 1
        assert "Install it, or give its full path" in done.stdout + done.stderr
    assert not (tmp_path / "begun").exists()


def test_a_run_that_needs_the_program_is_refused_also_that_of_a_single_node(lacking, pflow, tmp_path):
    done = pflow("run", lacking)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: Workflow {lacking}: {WARNING}\n  -> Install it")
    assert not (tmp_path / "begun").exists()
    done = pflow("mcp", "call", "typed.count")
    assert (done.exit_code, done.stderr.count(WARNING)) == (2, 1)


def test_a_disabled_server_needs_no_program(lacking, pflow):
    pflow("mcp", "disable", "typed")
    for words in (("config", "check"), ("mcp", "list")):
        assert WARNING not in pflow(*words).stdout
