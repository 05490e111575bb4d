"""The fixtures that the other tests lean on do what they are for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent

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


@pytest.fixture
def outcome(tmp_path):
    """Run a test in a pytest of its own, with the same conftest; give exit code and output."""
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {HERE / 'servers'} {HERE / 'data'}\n", encoding="utf-8"
    )

    def run(source, **env):
        (tmp_path / "test_it.py").write_text(source, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "test_it.py"],
            env={**os.environ, **env},
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize("required", ["", "1"])
def test_a_missing_node_is_a_reason_to_skip_and_a_failure_where_servers_are_required(
    outcome, tmp_path, required
):
    source = "def test_it(everything_command): pass"
    code, told = outcome(source, PATH=str(tmp_path), PFLOW_REQUIRE_SERVERS=required)
    assert code == (1 if required else 0)
    assert ("a server is required and not available: Node is not installed" in told) == bool(required)
    assert "Node is not installed" in told


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("import pytest\ndef test_it(): pytest.skip('not today')", "1 failed"),
        ("import pytest\n@pytest.mark.skip(reason='not today')\ndef test_it(): pass", "1 error"),
        ("import pytest\npytest.importorskip('no_such_module')", "1 error"),
        ("import pytest\npytest.skip('not today', allow_module_level=True)", "1 error"),
        ("import pytest\ndef test_it(): pytest.skip('needs /dev/full')", "1 skipped"),
        ("import pytest\n@pytest.mark.xfail\ndef test_it(): assert False", "1 xfailed"),
    ],
)
def test_a_skip_for_a_reason_that_is_not_allowed_fails(outcome, source, result):
    code, told = outcome(source)
    assert f"{result} in " in told
    assert (code == 0) is (result in ("1 skipped", "1 xfailed"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the check reads /proc")
@pytest.mark.parametrize(
    ("source", "complaint"),
    [(LEAVES_A_PROCESS, "processes left behind"), (LEAVES_A_FILE_OPEN, "file descriptors left open")],
    ids=["a process", "a file"],
)
def test_what_is_left_behind_fails_the_test(outcome, source, complaint):
    code, told = outcome(source)
    assert code == 1
    assert complaint in told
