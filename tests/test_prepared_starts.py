"""A program that starts from the prepared process is what a new interpreter would run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import prepared_starts
import pytest

WORKFLOW = """
nodes:
  - {id: a, type: shell, params: {command: "printf '%s|' \\"$PWD\\" \\"$SEEN\\"; cat", stdin: "${stdin}"}}
inputs: {stdin: {}}
"""


@pytest.fixture
def prepared(pflow_home):
    """The prepared process."""
    return prepared_starts.prepared() or pytest.skip("there they work")


@pytest.fixture
def started(prepared):
    """Start the program with these arguments, on pipes; a few variables may be added."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return lambda *arguments, folder, **variables: prepared.popen(
        arguments, env={**os.environ, **variables}, cwd=folder, encoding="utf-8", **streams
    )


def finished(program, stdin=""):
    """Return the exit code of a program, and what it writes."""
    stdout, stderr = program.communicate(stdin, 60)
    return program.returncode, stdout, stderr


def fresh(*arguments, folder, stdin="", **variables):
    """Return what a new interpreter says: exit code, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pflow_mcp_plugin", *arguments],
        input=stdin,
        env={**os.environ, **variables},
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (("run", "missing.yaml"), ""),
        (("run", "wf.yaml", "stdin=é", "--output-format", "json", "--no-trace"), ""),
        (("shell", "--command", "cat; echo $SEEN"), "x" * 200_000),
    ],
    ids=range(3),
)
def test_it_prints_and_returns_the_same(started, tmp_path, arguments, stdin):
    (tmp_path / "wf.yaml").write_text(WORKFLOW, encoding="utf-8")
    with started(*arguments, folder=tmp_path, SEEN="yes") as program:
        assert finished(program, stdin) == fresh(*arguments, folder=tmp_path, stdin=stdin, SEEN="yes")


def test_what_it_has_imported_already_is_not_replaced(started, tmp_path):
    (tmp_path / "mcp.py").touch()
    with started("--version", folder=tmp_path, PYTHONPATH=str(tmp_path)) as program:
        assert "needs a new interpreter" in finished(program)[2]


def test_a_signal_is_its_exit_code(started, tmp_path, no_leftovers):
    with started("shell", "--command", "kill -9 $PPID", folder=tmp_path) as program:
        assert finished(program)[0] == -9
    with started("shell", "--command", "sleep 600", folder=tmp_path) as program:
        assert program.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.1)
        program.terminate()
        assert program.wait(60) == -signal.SIGTERM


def test_what_an_interpreter_reads_first_needs_a_new_one(prepared):
    assert prepared.fits({**os.environ, "SEEN": "yes"})
    assert not prepared.fits({**os.environ, "PYTHONHASHSEED": "3"})
    assert not prepared.fits({**os.environ, "LC_ALL": "POSIX"})
