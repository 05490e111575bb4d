"""A server that was synced from a shell goes on working where `PATH` is short, as under cron."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.programs


@pytest.fixture
def folder(tmp_path):
    """A folder with a server that needs another program of the folder."""
    made = tmp_path / "tools"
    made.mkdir()
    for name, line in (
        ("acme-python", f'exec {sys.executable} "$@"'),
        ("acme-server", "exec acme-python -P -m $1"),
    ):
        (made / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (made / name).chmod(0o755)
    return made


@pytest.fixture
def pflow(tmp_path):
    """Run pflow with this `PATH`, and return what came of it."""

    def run(path, *words):
        return subprocess.run(
            [sys.executable, "-P", "-m", "pflow_mcp_plugin", *words],
            env={**os.environ, "PFLOW_HOME": str(tmp_path / "home"), "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


SHORT = "/usr/bin:/bin"
ADD = ("mcp", "add", "acme", "--replace", "--", "acme-server")
CALL = ("mcp", "call", "acme.add", "a=1", "b=2")


def test_the_program_that_the_sync_found_is_started_where_path_lacks_it(pflow, folder, tmp_path):
    for words in ((*ADD, "pflow_mcp_plugin.server.demo_server"), ("mcp", "sync")):
        assert pflow(f"{folder}:{SHORT}", *words).returncode == 0
    assert json.loads(pflow(SHORT, *CALL).stdout) == 3
    then = ("then", "echo", "--message", "${result}")
    chain = pflow(SHORT, "mcp-acme-add", "--a", "1", "--b", "2", *then)
    assert (chain.stdout, chain.stderr) == ("3\n", "")
    assert pflow(SHORT, "mcp", "sync", "acme").returncode == 0
    assert json.loads(pflow(SHORT, *CALL).stdout) == 3
    # The path is in no config, pin or lock: on another machine it is another.
    assert pflow(SHORT, "mcp", "lock", str(tmp_path / "lock.toml")).returncode == 0
    home = [
        path for path in (tmp_path / "home").rglob("*.*") if path.is_file() and path.parent.name != "traces"
    ]
    files = [*home, tmp_path / "lock.toml"]
    assert [it.name for it in files if str(folder) in it.read_text("utf-8", "replace")] == ["acme.json"]
    # Another config has nothing to do with it.
    assert pflow(SHORT, *ADD, "other").returncode == 0
    failed = pflow(SHORT, "mcp", "sync", "acme")
    assert failed.returncode != 0
    assert "Command not found: acme-server" in failed.stderr
