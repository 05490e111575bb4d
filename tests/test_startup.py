from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "asyncio",
    "filelock",
    "importlib.metadata",
    "jsonschema",
    "mcp",
    "opentelemetry",
    "pflow_mcp_plugin.host.workflow",
    "pocketflow",
    "rich",
)
PRESETS = "pflow_mcp_plugin.presets.builtin_servers"
RUN = """
import sys
from pflow_mcp_plugin.__main__ import main
sys.argv = ["pflow", *sys.argv[1:]]
main()
sys.stderr.write(" ".join(set({heavy}) & set(sys.modules)))
"""
COMPLETE = """
import sys
from pflow_mcp_plugin.host.cli.completion import complete
complete(["zsh", *sys.argv[1:]])
sys.stderr.write(" ".join({{*{heavy}, "pflow_mcp_plugin.client.pool"}} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["reg"], "registry"),
        (["ec"], "echo"),
        (["echo", "--m"], "--message"),
        (["echo", "--message", "x", "then", "ec"], "echo"),
        (["registry", "describe", "ec"], "echo"),
        (["settings", "get", "--s"], "--show"),
        (["trace", "show", ""], "latest"),
        (["mcp", "add", "file"], "filesystem"),
        (["mcp", "sync", "--"], "--all"),
        (["mcp", "test", "--"], "--insecure"),
        (["mcp", "call", ""], ""),
        (["mcp", "serve", "--ro"], "--root"),
    ],
)
def test_completion_imports_nothing_heavy(monkeypatch, tmp_path, words, first):
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path))
    code = COMPLETE.format(heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert first in done.stdout.partition("\n")[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["registry", "list"],
        ["registry", "search", "file"],
        ["registry", "describe", "echo"],
        ["mcp", "list"],
        ["mcp", "presets"],
        ["plugins"],
        ["--help"],
    ],
)
def test_a_listing_imports_nothing_heavy(monkeypatch, tmp_path, arguments):
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path))
    code = RUN.format(heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_presets_are_loaded_only_when_they_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path))
    code = RUN.format(heavy=(PRESETS, "pflow_mcp_plugin.server_preset"))
    for arguments, loaded in ((["mcp", "list"], 0), (["mcp", "presets"], 2)):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert len(done.stderr.split()) == loaded
