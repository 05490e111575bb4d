from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import unescape

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.running.trace_recorder import Recorder
from pflow_mcp_plugin.host.trace_files import TraceFiles
from pflow_mcp_plugin.redaction import Redactor

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


STEERING = "\x1b[31m\x1b]0;title\x07\x9b2J\x08\u202eturned"


def test_no_text_that_a_node_made_steers_the_terminal(pflow, tmp_path):
    node = {"id": "no", "type": "read-file", "params": {"file_path": f"{STEERING} no"}}
    (tmp_path / "wf.json").write_text(json.dumps({"nodes": [node]}))
    ran = pflow("run", "wf.json", "--json")
    assert STEERING in ran.envelope["error"]["message"]
    shown = [ran.stderr, pflow("trace", "list").stdout, pflow("trace", "show").stdout]
    escaped = r"Cannot read \u001b[31m\u001b]0;title\u0007\u009b2J\u0008\u202eturned no"
    assert [escaped in text for text in shown] == [True, True, True]
    assert not [sign for text in shown for sign in text if not sign.isprintable() and sign != "\n"]


@pytest.fixture
def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing = "no Chromium here: install the Debian package chromium"
        if os.environ.get("PFLOW_REQUIRE_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def test_runs_are_listed_newest_first_and_shown_by_id_or_the_beginning_of_one(pflow, ran):
    again = pflow("run", "wf.json", "text=again", "--json").envelope["trace_path"]
    listed = pflow("trace", "list", "--json").envelope["data"]
    assert [row["path"] for row in listed] == [again, listed[1]["path"]]
    assert (listed[1]["run_id"], listed[1]["steps"], listed[1]["success"]) == (ran, 2, False)
    assert "not-there.txt" in listed[1]["error"]
    assert pflow("trace", "list", "--limit", "1").stdout.endswith("\n1 older; to see them: --limit 2\n")
    for word in (ran, ran[:-2]):
        assert pflow("trace", "show", word, "--json").envelope["data"]["run_id"] == ran
    latest = pflow("trace", "show", "--json").envelope["data"]
    assert latest["steps"][0]["params"] == {"message": "again"}
    assert latest["steps"][1]["offset"] >= latest["steps"][0]["offset"] + latest["steps"][0]["milliseconds"]
    shown = pflow("trace", "show").stdout
    assert "read (read-file)" in shown
    assert latest["inputs"] == {"text": "again"}
    assert 'inputs: {\n    "text": "again"\n  }' in shown


def test_the_list_says_whether_a_run_succeeded_or_why_it_failed(pflow, ran, tmp_path):
    (tmp_path / "good.json").write_text('{"nodes": [{"id": "a", "type": "echo", "params": {"message": 1}}]}')
    assert pflow("run", "good.json").exit_code == 0
    header, good, bad = pflow("trace", "list").stdout.splitlines()
    assert header.endswith("  RESULT")
    assert good.endswith("  succeeded")
    assert "not-there.txt" in bad


@pytest.mark.parametrize("word", ["latest", "2020"])
def test_where_there_is_no_trace_it_is_not_found(pflow, word):
    finished = pflow("trace", "show", word, "--json")
    assert (finished.exit_code, finished.envelope["error"]["type"]) == (2, "not_found")


def test_a_folder_of_traces_that_cannot_be_read_is_named(pflow, pflow_home):
    (pflow_home / "state").mkdir()
    (pflow_home / "state" / "traces").write_text("no folder")
    for command in ("list", "show", "view"):
        refused = pflow("trace", command, "--json")
        assert (refused.exit_code, refused.envelope["error"]["type"]) == (2, "config")
        assert "traces: the folder could not be read: not a directory" in refused.stderr


def test_a_trace_that_lacks_much_and_has_absurd_numbers_is_listed_by_its_file_and_shown(pflow, pflow_home):
    traces = pflow_home / "state" / "traces"
    traces.mkdir(parents=True)
    (traces / "bare.json").write_text(json.dumps({"steps": [{"offset": 10**400, "milliseconds": "long"}]}))
    [row] = pflow("trace", "list", "--json").envelope["data"]
    assert (row["run_id"], row["steps"]) == ("bare", 1)
    assert pflow("trace", "view", "bare").exit_code == 0


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
    assert "No trace of a run ''" in finished.stderr


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
    assert page.count("<details") == 3
    assert page.count('<details class="step failed" open>') == 1
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


PLANTED = {
    "run_id": "planted",
    "workflow": "wf.json",
    "started": "2026-01-02T03:04:05.000Z",
    "milliseconds": 1000.0,
    "success": False,
    "error": {"message": "Node b (shell) failed", "suggestions": ["Mend it"]},
    "inputs": {"text": EVIL},
    "steps": [
        {"id": "a", "type": "echo", "offset": 0, "milliseconds": 250, "outputs": {"message": EVIL}},
        {"id": "r", "type": "shell", "offset": 250, "milliseconds": 0, "error": "an edge took it"},
        {"id": "i", "type": "t", "milliseconds": 0, "details": {"batch": {"count": 3, "failed": 2}}},
        {"id": "b", "type": "shell", "offset": 250, "milliseconds": 500, "error": "out of paper"},
    ],
}
MEASURE = """
<script>
addEventListener("load", () => {
  const rows = [...document.querySelectorAll("details:has(.bar)")].map(row => {
    const bar = row.querySelector(".bar"), inside = row.querySelector(".inside");
    const track = row.querySelector(".track").getBoundingClientRect(), box = bar.getBoundingClientRect();
    const shown = () => inside.checkVisibility() && inside.innerText;
    const before = shown();
    bar.click();
    const after = shown();
    bar.click();
    return {
      left: (box.left - track.left) / track.width, width: box.width / track.width, height: box.height,
      color: getComputedStyle(bar).backgroundColor, before, after, again: shown(), wide: track.width,
      name: row.querySelector(".name").innerText, ink: getComputedStyle(row.querySelector(".name")).color,
    };
  });
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const page = {over: root.scrollWidth - root.clientWidth, dark};
  const pre = document.createElement("pre");
  pre.id = "measured";
  pre.textContent = JSON.stringify({rows, page});
  document.body.append(pre);
});
</script>
</head>
"""


HEADLESS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    # It is to look at one file of this machine and to ask nobody for anything.
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--dump-dom",
    "--virtual-time-budget=3000",
]


@pytest.fixture
def browse(pflow, pflow_home, tmp_path, chromium):
    """Open the page of the planted run in a browser, changed by `change`, and return its final DOM."""

    def open_page(change, *more, size="1200,800"):
        traces = pflow_home / "state" / "traces"
        traces.mkdir(parents=True)
        (traces / "planted.json").write_text(json.dumps(PLANTED))
        assert pflow("trace", "view", "planted", "--output", "page.html").exit_code == 0
        page = tmp_path / "page.html"
        page.write_text(change(page.read_text()))
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [chromium, *HEADLESS, *more, f"--window-size={size}", profile, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout

    return open_page


def with_script(page):
    return page.replace("</head>", MEASURE)


def measured(browse, *options, **window):
    """Return what the script measures when the page lets it run."""
    policy = re.compile("<meta http-equiv=[^>]*>")
    shown = browse(lambda page: policy.sub("", with_script(page)), *options, **window)
    return json.loads(unescape(re.search('<pre id="measured">(.*)</pre>', shown, re.DOTALL)[1]))


@pytest.mark.slow
def test_in_a_browser_bars_stand_where_the_steps_ran_and_a_click_opens_them(browse):
    fine, recovered, batch, failed = measured(browse)["rows"]
    assert (fine["left"], fine["width"]) == pytest.approx((0, 0.25), abs=0.01)
    assert (failed["left"], failed["width"]) == pytest.approx((0.25, 0.5), abs=0.01)
    assert min(fine["height"], failed["height"]) > 5
    red, green, blue = map(int, re.findall(r"\d+", failed["color"])[:3])
    assert red > 2 * max(green, blue)
    assert fine["color"] != failed["color"]
    assert (fine["before"], fine["again"], failed["after"]) == (False, False, False)
    assert EVIL in fine["after"]
    assert "out of paper" in failed["before"]
    assert failed["again"] == failed["before"]
    assert (recovered["color"], recovered["before"]) == (failed["color"], False)  # it did not end the run
    assert "2 of 3 failed" in batch["name"]


@pytest.mark.slow
def test_in_a_narrow_window_bars_have_the_whole_width_and_nothing_sticks_out(browse):
    found = measured(browse, size="500,800")
    assert found["page"]["over"] == 0
    assert min(row["wide"] for row in found["rows"]) > 400


def test_on_a_dark_page_what_failed_can_be_read(browse):
    found = measured(browse, "--blink-settings=preferredColorScheme=0")
    assert found["page"]["dark"]
    red, green, blue = map(int, re.findall(r"\d+", found["rows"][-1]["ink"])[:3])
    assert 0.2126 * red + 0.7152 * green + 0.0722 * blue > 130  # on nearly black


@pytest.mark.slow
def test_in_a_browser_no_script_runs_in_the_page(browse):
    shown = browse(with_script)
    assert "addEventListener" in shown  # it was there
    assert 'id="measured"' not in shown
    assert "broken in</title>" not in shown


def test_the_path_of_a_trace_stands_for_it_also_that_of_a_copy(pflow, ran, tmp_path, pflow_home):
    path = pflow_home / "state" / "traces" / f"{ran}.json"
    copy = tmp_path / "copy.json"
    shutil.copy(path, copy)
    shown = pflow("trace", "show", ran, "--json").envelope["data"]
    for given in (path, copy, os.path.relpath(copy, tmp_path)):
        assert pflow("trace", "show", str(given), "--json").envelope["data"] == shown
    assert pflow("trace", "view", str(copy), "--output", "page.html").exit_code == 0
    missing = pflow("trace", "show", str(tmp_path / "none.json"))
    assert missing.exit_code != 0
    assert "No such file" in missing.stderr


@pytest.fixture
def owned(tmp_path):
    """A folder with the traces of two owners and of the user, newest last."""
    folder = tmp_path / "traces"
    for age, owner in enumerate(("", "ann", 'b "o" b', "ann", "")):
        recorder = Recorder(f"2026-{age}", "wf", Redactor(["ann"]), owner=owner)
        os.utime(recorder.write(folder, None), (age, age))
    return TraceFiles(folder)


def test_a_run_of_another_owner_does_not_exist(owned):
    assert owned.find().stem == "2026-4"
    assert owned.find(owner="ann").stem == "2026-3"
    assert owned.find(owner='b "o" b').stem == "2026-2"
    assert owned.find("2026-0", owner="").stem == "2026-0"
    assert owned.find("2026-2", owner='b "o" b').stem == "2026-2"
    assert owned.find("2026-", owner='b "o" b').stem == "2026-2"
    of_ann = owned.folder / "2026-1.json"
    assert owned.find(str(of_ann), owner="ann") == of_ann
    for run in ("2026-1", str(of_ann), str(owned.folder / ".." / "traces" / "2026-1.json")):
        for owner in ("", 'b "o" b', "an", "nobody"):
            with pytest.raises(PflowError) as caught:
                owned.find(run, owner=owner)
            assert (caught.value.kind, caught.value.suggestions) == ("not_found", ())
    with pytest.raises(PflowError, match="No traces yet"):
        owned.find(owner="nobody")


def test_only_regular_files_in_the_folder_are_traces(owned, tmp_path):
    outside = tmp_path / "outside.json"
    shutil.copy(owned.folder / "2026-4.json", outside)
    (owned.folder / "link.json").symlink_to(outside)
    (owned.folder / "folder.json").mkdir()
    assert {path.stem for path in owned.paths()} == {f"2026-{age}" for age in range(5)}
    for run in ("link", str(owned.folder / "link.json"), str(outside), "/etc/passwd", "../outside.json"):
        with pytest.raises(PflowError):
            owned.find(run)


def test_the_owner_of_a_file_that_somebody_changed_is_nobody(owned):
    path = owned.folder / "2026-1.json"
    path.write_text(path.read_text().replace('"ann"', '"' + "x" * 10_000 + '"'))
    for owner in ("", "ann"):
        with pytest.raises(PflowError):
            owned.find("2026-1", owner=owner)
    path.write_text("[]")
    with pytest.raises(PflowError):
        owned.find("2026-1", owner="")
