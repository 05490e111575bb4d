"""The fixtures that the other tests lean on do what they are for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
OPTIONS = ("-rfEsx", "--continue-on-collection-errors", "-p", "no:cacheprovider")
LEAVES_A_PROCESS = """
import subprocess, sys

def test_it(no_leftovers):
    subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
"""
LEAVES_A_FILE_OPEN = """
import os

def test_it(no_leftovers):
    os.open(__file__, os.O_RDONLY)
"""
CASES = {
    "skips": ("import pytest\ndef test_it(): pytest.skip('not today')", "FAILED"),
    "marked": ("import pytest\n@pytest.mark.skip(reason='not today')\ndef test_it(): pass", "ERROR"),
    "imports": ("import pytest\npytest.importorskip('no_such_module')", "ERROR"),
    "allowed": ("import pytest\ndef test_it(): pytest.skip('needs /dev/full')", "SKIPPED"),
    "expected": ("import pytest\n@pytest.mark.xfail\ndef test_it(): assert False", "XFAIL"),
    "server": ("def test_it(everything_command): pass", "SKIPPED"),
    "process": (LEAVES_A_PROCESS, "ERROR"),
    "file": (LEAVES_A_FILE_OPEN, "ERROR"),
}
"""Tests, and what pytest makes of them with our conftest."""


@pytest.fixture
def results(tmp_path):
    """Run tests in a pytest of its own, where Node is missing; give the result of each, and the output."""
    conftest = (HERE / "conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(conftest.replace("_GONE_SECONDS = 5", "_GONE_SECONDS = 0.2"))
    paths = f"[pytest]\npythonpath = {HERE / 'servers'} {HERE / 'data'}\n"
    (tmp_path / "pytest.ini").write_text(paths, encoding="utf-8")
    for name, (source, _) in CASES.items():
        (tmp_path / f"test_{name}.py").write_text(source, encoding="utf-8")

    def run(*names, **env):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *names],
            env={**os.environ, "PATH": str(tmp_path), **env},
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        rows = re.findall(r"^([A-Z]+) (?:\[1\] )?test_(\w+)\.py", done.stdout, re.MULTILINE)
        return {name: result for result, name in rows}, done.stdout

    return run


def test_what_is_left_behind_and_a_skip_for_a_reason_that_is_not_allowed_fail_a_test(results):
    found, told = results(PFLOW_REQUIRE_SERVERS="")
    assert found == {name: result for name, (_, result) in CASES.items()}
    for complaint in ("processes left behind", "file descriptors left open", "Node is not installed"):
        assert complaint in told


def test_a_missing_server_is_a_failure_where_servers_are_required(results):
    found, told = results("test_server.py", PFLOW_REQUIRE_SERVERS="1")
    assert found == {"server": "ERROR"}
    assert "a server is required and not available: Node is not installed" in told
