"""A server whose program is missing is named before anything runs, unless only `PATH` is shorter."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w
from programs import executable
from workflow_parts import edge

FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"
WARNING = "Command not found: no-such-program (server odd)"


@pytest.fixture
def lacking(scripted, pflow_home):
    """A server whose program is missing since its sync."""
    scripted("go", "stop", trust="auto")
    config = pflow_home / "config" / "mcp-servers.toml"
    document = tomllib.loads(config.read_text())
    document["mcpServers"]["odd"]["command"] = "no-such-program"
    config.write_text(tomli_w.dumps(document))


@pytest.fixture
def needing(lacking, workflow):
    """A workflow whose second and third node need it."""
    first = ("first", "shell", {"command": ["touch", "begun"]})
    return workflow(first, ("a", "mcp-odd-go", {}), ("b", "mcp-odd-stop", {}))


def test_checks_and_lists_warn_once_of_the_missing_program(needing, pflow, tmp_path):
    nodes = [{"id": "own", "type": "workflow", "params": {"workflow": "./wf.json"}}]
    (tmp_path / "outer.json").write_text(json.dumps({"nodes": nodes}))
    for line in ("validate outer.json", "run wf.json --dry-run", "config check", "mcp list"):
        done = pflow(*line.split())
        assert done.exit_code == 0
        assert (done.stdout + done.stderr).count(WARNING) == 1
        assert "Install it, or give its full path" in done.stdout + done.stderr
    assert not (tmp_path / "begun").exists()


def test_a_run_that_needs_the_program_is_refused_also_that_of_a_single_node(needing, pflow, tmp_path):
    done = pflow("run", needing)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: Workflow {needing}: {WARNING}\n  -> Install it")
    assert not (tmp_path / "begun").exists()
    done = pflow("mcp", "call", "odd.go")
    assert (done.exit_code, done.stderr.count(WARNING)) == (2, 1)
    pflow("mcp", "disable", "odd")
    assert WARNING not in pflow("mcp", "list").stdout


@pytest.fixture
def folder(tmp_path):
    """A folder with a server that needs another program of the folder."""
    made = tmp_path / "tools"
    for name, line in (
        ("acme-python", f'exec {sys.executable} "$@"'),
        ("acme-server", f"exec acme-python {FAULTY} $1"),
    ):
        executable(made / name, f"#!/bin/sh\n{line}\n")
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


ROUTES = ("error", "timeout", "rate_limited", "auth_failed", "resource_missing")


def test_a_server_that_cannot_be_started_takes_the_action_error(lacking, pflow, workflow):
    nodes = [("call", "mcp-odd-go", {}), *((route, "echo", {"message": route}) for route in ROUTES)]
    done = pflow("run", workflow(*nodes, edges=[edge("call", route, route) for route in ROUTES]))
    assert (done.exit_code, done.stdout) == (0, "error\n"), done.stderr
    lines = pflow("trace", "show").stdout.splitlines()
    assert any(line.startswith("!  call") and "handled: Command not found" in line for line in lines)
    shown = pflow("trace", "show", "--step", "call").stdout
    assert "handled" in shown.splitlines()[0]
    assert shown.count("Command not found") == 1
