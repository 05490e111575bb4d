"""A line that is pasted is read whole and not shown."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

PROGRAM = """import sys
from pflow_mcp_plugin.cli.interaction import read_hidden_line
def ask():
    if sys.stdin.isatty():
        import termios
        shows = termios.tcgetattr(0)[3] & termios.ECHO
        print("shown" if shows else "hidden", end=" ")
    print("asked", flush=True)
print(len(line := read_hidden_line(ask)), line[:20], flush=True)
"""


def hides(terminal):
    """Whether a terminal does not show what is typed."""
    import termios

    return not termios.tcgetattr(terminal)[3] & termios.ECHO


def read(terminal, *keys):
    """Return what a program reads that is typed at, as soon as it asks."""
    command = [sys.executable, "-P", "-c", PROGRAM]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, encoding="utf-8") as program:
        try:
            assert program.stdout.readline() == "hidden asked\n"
            for key in keys:
                os.write(*key)
            return program.communicate(timeout=30)[0].strip()
        finally:
            program.kill()


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal of Unix")
@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (b"planted\n", "7 planted"),
        (b"planted\r", "7 planted"),
        (b"  planx\x7fted  \n", "7 planted"),
        (b"a" * 9_000 + b"\n", f"9000 {'a' * 20}"),
        (b"\x04", "0"),
        (b"\n", "0"),
    ],
)
def test_a_terminal_does_not_show_it_and_does_not_cut_it(typed, line):
    mine, theirs = os.openpty()
    try:
        # In two parts, as a terminal passes it on.
        found = read(theirs, (mine, typed[:3000]), (mine, typed[3000:]))
        assert found == line
        assert not hides(theirs)
        os.set_blocking(mine, False)
        try:
            shown = os.read(mine, 9_999)
        except BlockingIOError:
            shown = b""
        assert b"plan" not in shown
    finally:
        os.close(mine)
        os.close(theirs)


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal of Unix")
def test_a_terminal_that_is_closed_ends_the_line(tmp_path):
    said = tmp_path / "said"
    mine, theirs = os.openpty()
    # A session of its own has no terminal to be hung up with.
    with said.open("wb") as output:
        program = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM], stdin=theirs, stdout=output, start_new_session=True
        )
    with program:
        try:
            deadline = time.monotonic() + 30
            while not hides(theirs):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.close(theirs)
            os.close(mine)
            program.wait(30)
        finally:
            program.kill()
    assert said.read_text().splitlines()[1].strip() == "0"


@pytest.mark.parametrize(
    ("sent", "line"), [(b"planted\nmore\n", "7 planted"), (b"planted", "7 planted"), (b"", "0")]
)
def test_a_pipe_is_read_up_to_the_end_of_the_line(sent, line):
    completed = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], input=sent, stdout=subprocess.PIPE, check=True
    )
    assert completed.stdout.decode().splitlines()[1].strip() == line
