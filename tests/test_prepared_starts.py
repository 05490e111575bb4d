"""A program that starts from the prepared process is what a new interpreter would run."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import prepared_starts
import pytest
from programs import put_plugin

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

    def started(*arguments, folder, **variables):
        pipe = subprocess.PIPE
        env = {**os.environ, **variables}
        streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
        return prepared.popen(arguments, env=env, cwd=folder, encoding="utf-8", **streams)

    return started


def finished(program, stdin="", seconds=60):
    """Return the exit code of a program, and what it writes."""
    stdout, stderr = program.communicate(stdin, seconds)
    return program.returncode, stdout, stderr


FRESH = (sys.executable, "-P", "-m", "pflow_mcp_plugin")


def fresh(*arguments, folder, stdin="", program=FRESH, **variables):
    """Return what a new interpreter says: exit code, stdout and stderr."""
    done = subprocess.run(
        [*program, *arguments],
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
        (("shell", "--command", "cat; echo $SEEN"), "x" * 200_000),
    ],
    ids=range(6),
)
def test_it_prints_and_returns_the_same(started, tmp_path, arguments, stdin):
    (tmp_path / "wf.yaml").write_text(WORKFLOW, encoding="utf-8")
    with started(*arguments, folder=tmp_path, SEEN="yes") as program:
        assert finished(program, stdin) == fresh(*arguments, folder=tmp_path, stdin=stdin, SEEN="yes")


CUSTOM = """
import atexit, sys
atexit.register(lambda: print("at the exit", file=sys.stderr))
sys.stderr.write(f"{sys.path[0]} {'pflow_mcp_plugin.host.running.runner' in sys.modules}\\n")
"""


def test_what_is_on_its_path_is_imported_and_runs_until_its_end(started, tmp_path):
    site = str(tmp_path / "site")
    put_plugin(tmp_path / "site", "added", "raise ImportError('on purpose')")
    (tmp_path / "site/sitecustomize.py").write_text(CUSTOM)
    with started("plugins", folder=tmp_path, PYTHONPATH=site) as program:
        code, stdout, stderr = finished(program)
    assert (code, stdout, stderr.replace("True", "False", 1)) == fresh(
        "plugins", folder=tmp_path, PYTHONPATH=site
    )
    assert "on purpose" in stderr
    assert stderr.endswith("at the exit\n")


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


def test_it_may_have_a_session_and_a_terminal_of_its_own(prepared, tmp_path):
    ours, theirs = pty.openpty()
    words = ["shell", "--command", "ps -o sid= -p $PPID; echo $PPID"]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with os.fdopen(ours, "rb", 0), os.fdopen(theirs, "wb", 0):
        program = prepared.popen(words, cwd=tmp_path, start_new_session=True, **streams)
        assert program.wait(60) == 0
        assert os.read(ours, 10_000).split()[-2:] == [str(program.pid).encode()] * 2


def test_what_an_interpreter_reads_first_needs_a_new_one(prepared):
    assert prepared.fits({**os.environ, "SEEN": "yes"})
    assert not prepared.fits({**os.environ, "PYTHONHASHSEED": "3"})
    assert not prepared.fits({**os.environ, "LC_ALL": "POSIX"})


def test_whoever_starts_it_by_its_name_gets_the_same(prepared, tmp_path):
    words = ["shell", "--command", "cat; echo $SEEN >&2; pwd"]
    given = {"folder": tmp_path, "stdin": "x" * 200_000, "SEEN": "yes"}
    assert fresh(*words, program=[prepared.program], **given) == fresh(*words, **given)
