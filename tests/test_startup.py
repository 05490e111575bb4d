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
    "pflow_mcp_plugin.host.workflow",
    "pocketflow",
    "rich",
)
RUN = """
import sys
from pflow_mcp_plugin.__main__ import main
sys.argv = ["pflow", *sys.argv[1:]]
main()
sys.stderr.write(" ".join(set({heavy}) & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["registry", "list"],
        ["registry", "search", "file"],
        ["registry", "describe", "echo"],
        ["mcp", "list"],
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
