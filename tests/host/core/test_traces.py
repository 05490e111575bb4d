from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

WORKFLOW = {
    "inputs": {"text": {"type": "str"}},
    "nodes": [
        {"id": "say", "type": "echo", "params": {"message": "${text}"}},
        {"id": "read", "type": "read-file", "params": {"file_path": "not-there.txt"}},
    ],
}
EVIL = "</pre></details><script>document.title = 'broken in'</script><img src=x onerror=alert(1)>"


@pytest.fixture
def ran(pflow, tmp_path):
    """A run that failed, and its id."""
    (tmp_path / "wf.json").write_text(json.dumps(WORKFLOW))
    finished = pflow("run", "wf.json", f"text={EVIL}", "--json")
    assert finished.exit_code == 1
    return finished.envelope["trace_path"].rpartition("/")[2].removesuffix(".json")


@pytest.fixture
def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium here: install the Debian package chromium")
    return found


def test_runs_are_listed_newest_first_and_shown_by_id_or_the_beginning_of_one(pflow, ran):
    again = pflow("run", "wf.json", "text=again", "--json").envelope["trace_path"]
    listed = pflow("trace", "list", "--json").envelope["data"]
    assert [row["path"] for row in listed] == [again, listed[1]["path"]]
    assert (listed[1]["run_id"], listed[1]["steps"], listed[1]["success"]) == (ran, 2, False)
    assert "not-there.txt" in listed[1]["error"]
    for word in (ran, ran[:-2]):
        assert pflow("trace", "show", word, "--json").envelope["data"]["run_id"] == ran
    latest = pflow("trace", "show", "--json").envelope["data"]
    assert latest["steps"][0]["params"] == {"message": "again"}
    assert latest["steps"][1]["offset"] >= latest["steps"][0]["offset"] + latest["steps"][0]["milliseconds"]
    assert "read (read-file)" in pflow("trace", "show").stdout


@pytest.mark.parametrize("word", ["latest", "2020"])
def test_where_there_is_no_trace_it_is_not_found(pflow, word):
    finished = pflow("trace", "show", word, "--json")
    assert (finished.exit_code, finished.envelope["error"]["type"]) == (2, "not_found")


def test_a_beginning_that_fits_several_runs_names_them(pflow, ran):
    pflow("run", "wf.json", "text=again")
    finished = pflow("trace", "show", "2", "--json")
    assert finished.exit_code == 2
    assert ran in finished.envelope["error"]["suggestions"]


def test_a_trace_that_is_damaged_is_named_and_does_not_hide_the_others(pflow, pflow_home, ran):
    (pflow_home / "state" / "traces" / "20990101-damaged.json").write_text("{oops")
    listed = pflow("trace", "list", "--json").envelope["data"]
    assert {row["run_id"]: row["steps"] for row in listed} == {"20990101-damaged": None, ran: 2}
    assert pflow("trace", "show", "20990101-damaged").exit_code == 2


def test_no_run_has_an_empty_id(pflow, ran):
    finished = pflow("trace", "show", "")
    assert finished.exit_code == 2
    assert "no trace of a run ''" in finished.stderr


def test_a_run_leaves_no_trace_when_told_so(pflow, pflow_home, tmp_path):
    (tmp_path / "wf.json").write_text(json.dumps(WORKFLOW))
    finished = pflow("run", "wf.json", "text=x", "--no-trace", "--json")
    assert finished.envelope["trace_path"] is None
    assert not (pflow_home / "state" / "traces").exists()


def test_a_page_of_a_run_is_one_file_in_which_nothing_can_run(pflow, ran, tmp_path):
    assert pflow("trace", "view").exit_code == 0
    path = tmp_path / f"trace-{ran}.html"
    page = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert "default-src 'none'" in page
    assert page.count("<details") == 2
    assert page.count('<details class="failed" open>') == 1
    assert "<script" not in page
    assert "<img" not in page


def test_a_page_goes_into_a_pipe_and_leaves_it_one(pflow, ran, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert pflow("trace", "view", "--output", pipe).exit_code == 0
    assert os.read(reader, 9) == b"<!doctype"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_browser_shows_the_page_of_a_run(pflow, ran, tmp_path, chromium):
    pflow("trace", "view", ran, "--output", "page.html")
    shown = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            (tmp_path / "page.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    ).stdout
    assert "broken in</title>" not in shown
    assert "&lt;script&gt;" in shown
    assert shown.count("<details") == 2
    assert "not-there.txt" in shown
