"""A server whose program is missing is named before anything runs, unless only `PATH` is shorter."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"
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
    for line in ("validate outer.json", "run wf.json --dry-run", "config check", "mcp list"):
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
    pflow("mcp", "disable", "typed")
    assert WARNING not in pflow("mcp", "list").stdout


@pytest.fixture
def folder(tmp_path):
    """A folder with a server that needs another program of the folder."""
    made = tmp_path / "tools"
    made.mkdir()
    for name, line in (
        ("acme-python", f'exec {sys.executable} "$@"'),
        ("acme-server", f"exec acme-python {FAULTY} $1"),
    ):
        (made / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (made / name).chmod(0o755)
    return made


SHORT = {"PATH": "/usr/bin:/bin"}
ADD = ("mcp", "add", "acme", "--replace", "--", "acme-server")
CALL = ("mcp", "call", "acme.act", "value=1")


def test_the_program_that_the_sync_found_is_started_where_path_lacks_it(pflow, folder, pflow_home, tmp_path):
    for words in ((*ADD, "Plain"), ("mcp", "sync")):
        assert pflow(*words, env={"PATH": f"{folder}:{SHORT['PATH']}"}).exit_code == 0
    assert pflow(*CALL, env=SHORT).stdout == "done\n"
    chain = pflow("mcp-acme-act", "then", "echo", "--message", "${result}", env=SHORT)
    assert (chain.stdout, chain.stderr) == ("done\n", "")
    assert pflow("mcp", "sync", "acme", env=SHORT).exit_code == 0
    assert pflow(*CALL, env=SHORT).stdout == "done\n"
    # The path is in no config, pin or lock: on another machine it is another.
    assert pflow("mcp", "lock", tmp_path / "lock.toml", env=SHORT).exit_code == 0
    home = [path for path in pflow_home.rglob("*.*") if path.is_file() and path.parent.name != "traces"]
    files = [*home, tmp_path / "lock.toml"]
    assert [it.name for it in files if str(folder) in it.read_text("utf-8", "replace")] == ["acme.json"]
    # Another config has nothing to do with it.
    assert pflow(*ADD, "other", env=SHORT).exit_code == 0
    failed = pflow("mcp", "sync", "acme", env=SHORT)
    assert failed.exit_code != 0
    assert "Command not found: acme-server" in failed.stderr
