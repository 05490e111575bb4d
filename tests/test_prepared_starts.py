"""A program that starts from the prepared process is what a new interpreter would run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WORKFLOW = """
nodes:
  - {id: a, type: shell, params: {command: "printf '%s|' \\"$PWD\\" \\"$SEEN\\"; cat", stdin: "${stdin}"}}
inputs: {stdin: {}}
"""


@pytest.fixture
def started(prepared, pflow_home):
    """Start the program with these arguments; a few variables may be added."""
    if prepared is None:
        pytest.skip("there they work")

    def started(*arguments, folder, **variables):
        return prepared.started(arguments, {**os.environ, **variables}, folder)

    return started


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
        (("--version",), ""),
        (("--help",), ""),
        (("run", "missing.yaml"), ""),
        (("run", "wf.yaml", "stdin=é", "--output-format", "json", "--no-trace"), ""),
        (("validate", "-"), "{}"),
        (("shell", "--command", "cat; echo $SEEN; exit 3", "--no-trace"), "x" * 200_000),
    ],
    ids=range(6),
)
def test_it_prints_and_returns_the_same(started, tmp_path, arguments, stdin):
    (tmp_path / "wf.yaml").write_text(WORKFLOW, encoding="utf-8")
    with started(*arguments, folder=tmp_path, SEEN="yes") as program:
        assert program.finished(stdin, 60) == fresh(*arguments, folder=tmp_path, stdin=stdin, SEEN="yes")


def test_a_signal_is_its_exit_code_and_leaving_it_ends_it(started, tmp_path, no_leftovers):
    with started("shell", "--command", "kill -9 $PPID", folder=tmp_path) as program:
        assert program.finished("", 60)[0] == -9
    with started("shell", "--command", "sleep 600", folder=tmp_path) as program, pytest.raises(TimeoutError):
        program.finished("", 0.1)


def test_what_an_interpreter_reads_first_needs_a_new_one(prepared):
    if prepared is None:
        pytest.skip("there they work")
    assert prepared.fits({**os.environ, "SEEN": "yes"})
    assert not prepared.fits({**os.environ, "PYTHONPATH": "elsewhere"})
    assert not prepared.fits({**os.environ, "LC_ALL": "POSIX"})
