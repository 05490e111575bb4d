"""A browser is opened without a shell and shows nothing else; a pasted line is read whole and hidden."""

import json
import os
import shlex
import subprocess
import sys
import threading
import time

import pytest
from programs import until

from pflow_mcp_plugin.cli.interaction import has_browser, open_in_browser

SCRIPT = """import json, os, sys
print("noise", flush=True)
print("noise", file=sys.stderr, flush=True)
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(sys.argv[2:], file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
"""
URL = "https://login.example/a?b=$(touch${IFS}x)&c=`id`;d='e'&f=%22"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Open a URL, and return the arguments of the browser once it has started."""

    def opened(url, end=" %s"):
        script, seen = tmp_path / "browser.py", tmp_path / "seen.json"
        script.write_text(SCRIPT)
        monkeypatch.setenv("BROWSER", shlex.join([sys.executable, str(script), str(seen)]) + end)
        open_in_browser(url)
        until(seen.exists)
        return json.loads(seen.read_text())

    return opened


@pytest.mark.parametrize("end", [" %s", " %s &"])
def test_a_browser_gets_the_url_as_it_is_and_prints_nothing(opened, capfd, tmp_path, monkeypatch, end):
    (tmp_path / "webbrowser.py").write_text("import pathlib; pathlib.Path('imported').touch()")
    monkeypatch.chdir(tmp_path)
    assert opened(URL, end) == [URL]
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "imported").exists()


def test_a_url_that_is_too_long_for_a_program_is_not_opened(monkeypatch):
    failed = []
    monkeypatch.setattr("threading.excepthook", failed.append)
    open_in_browser(f"https://login.example/?{'a' * (1 << 22)}")
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(30)
    assert failed == []


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "-version"])
def test_nothing_but_web_pages_is_opened(url):
    with pytest.raises(ValueError, match="only web pages are opened"):
        open_in_browser(url)


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="there they work")
def test_a_browser_is_expected_where_there_is_a_display_or_one_is_named(monkeypatch):
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert not has_browser()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert has_browser()


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
        (b"  planx\x7fted  \n", "7 planted"),
        (b"a" * 9_000 + b"\n", f"9000 {'a' * 20}"),
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
