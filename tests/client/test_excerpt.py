"""What of a server's stderr is shown, and where the rest is kept."""

import os
import re
import stat
import time
from pathlib import Path

import pytest
from programs import script_launch

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.failures.evidence import excerpt
from pflow_mcp_plugin.client.server_process import keep_stderr
from pflow_mcp_plugin.errors import ConnectionFailed

STARTED = [f"[info] loading plugin {n}" for n in range(20)]
USAGE = [
    "Usage: server [options] FOLDER",
    "Options:",
    *(f"  --option-{n} VALUE    error handling, missing values, unknown keys" for n in range(60)),
]
STACK = [f"    at Module._load (node:internal/modules/cjs/loader:{n}:12)" for n in range(30)]


def test_a_short_text_is_shown_whole():
    shown, is_whole = excerpt("one\n\ntwo  \n" + "\n".join(str(n) for n in range(10)))
    assert shown[:3] == ["one", "two", "0"]
    assert is_whole
    assert excerpt("") == ([], True)


@pytest.mark.parametrize(
    ("cause", "lines"),
    [
        ("Error: FOLDER is required", [*STARTED, "Error: FOLDER is required", *USAGE]),
        ("the licence has run out", [*STARTED, "the licence has run out", *USAGE]),
        ("Error: no module 'x'", ["node:internal:1", *STARTED, "Error: no module 'x'", *STACK]),
        ("server: error: unrecognized: --x", [*USAGE, "server: error: unrecognized: --x"]),
        ("KeyError: 'TOKEN'", ["Traceback (most recent call last):", *STACK, "KeyError: 'TOKEN'"]),
        ("npm ERR! 404 Not Found", ["npm ERR! code E404", "npm ERR! 404 Not Found", *STARTED]),
    ],
)
def test_the_line_that_names_the_cause_is_shown_wherever_it_stands(cause, lines):
    shown, is_whole = excerpt("\n".join(lines))
    assert cause in shown
    assert len(shown) <= 12 + 3
    assert not is_whole
    left_out = sum(int(found[1]) for line in shown if (found := re.match(r"\.\.\. \((\d+) lines", line)))
    whole = [line for line in shown if not line.startswith("... (")]
    assert set(whole) <= set(lines), "lines are shown whole"
    assert len(whole) + left_out == len(lines)


def test_of_many_causes_the_first_and_the_last_are_shown():
    named = [f"Error: number {n}" for n in range(50)]
    shown, _ = excerpt("\n".join([*STARTED, *named, "could not go on", *STARTED]))
    assert "could not go on" not in shown
    assert [line for line in shown if "Error" in line] == [f"Error: number {n}" for n in (0, 47, 48, 49)]


def test_a_line_without_end_is_cut_between_words():
    shown, is_whole = excerpt("word " * 1000)
    (line,) = shown
    assert line.startswith("word word")
    assert line.endswith("word ... (4,999 characters in all)")
    assert not is_whole
    assert len(excerpt("x" * 1000)[0][0]) < 400


def failing(tmp_path: Path, text: str, secrets: tuple[str, ...] = ()) -> ConnectionFailed:
    """Let a server fail that writes a text to stderr."""
    script = f"import sys; sys.stderr.write({text!r}); sys.exit(3)"
    launch = script_launch(script, name="e", secrets=secrets, protocol="handshake")
    with Pool(print, stderr_folder=tmp_path) as pool, pytest.raises(ConnectionFailed) as caught:
        pool.info(launch)
    return caught.value


def test_what_is_left_out_stands_in_a_private_file_without_secrets(tmp_path):
    lines = [*STARTED, "Error: no access with s3cr3t-value", "also \x1b[31ms3cr3t\x1b[0m-value", *USAGE]
    error = failing(tmp_path, "\n".join(lines), ("s3cr3t-value",))
    path = Path(error.details["stderr_file"])
    assert f"(in full: {path})" in error.message
    assert "\n  Error: no access with ***\n" in error.message
    kept = path.read_text(encoding="utf-8")
    assert kept.splitlines() == [*STARTED, "Error: no access with ***", "also ***", *USAGE]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_shown_whole_is_kept_nowhere(tmp_path):
    error = failing(tmp_path, "no room\n")
    assert error.message.endswith("Its stderr:\n  no room")
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_that_can_be_written_the_failure_is_told_all_the_same(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    error = failing(in_the_way, "\n".join(USAGE))
    assert "stderr_file" not in error.details
    assert "Usage: server" in error.message


def test_of_each_server_the_newest_files_are_kept_and_equal_ones_once(tmp_path):
    other = keep_stderr(tmp_path, "e-other", "text")
    paths = []
    for number in range(8):
        paths.append(keep_stderr(tmp_path, "e", f"text {number}"))
        assert keep_stderr(tmp_path, "e", f"text {number}") == paths[-1]
        os.utime(paths[-1], ns=(time.time_ns(), number))
    assert sorted(path for path in (tmp_path / "e").iterdir()) == sorted(paths[-5:])
    assert other is not None
    assert other.exists()


def test_a_servers_name_never_leads_out_of_the_folder(tmp_path):
    path = keep_stderr(tmp_path / "in", "../../out", "text")
    assert path is not None
    assert path.is_relative_to(tmp_path / "in")
    assert ".." not in path.parts
