import json
import os
import re
import shlex
import shutil
import subprocess
from html import unescape

import pytest
from browser import HEADLESS
from hypothesis import given
from hypothesis import strategies as st
from programs import executable
from screen import Screen
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.rendering.timeline import ticks
from pflow_mcp_plugin.host.running.trace_recorder import Recorder
from pflow_mcp_plugin.host.trace_files import TraceFiles
from pflow_mcp_plugin.redaction import Redactor

WORKFLOW = flow(
    step("say", "echo", {"message": "${text}"}),
    step("read", "read-file", {"file_path": "not-there.txt"}),
    inputs={"text": {"type": "str"}},
)
GOOD = flow(step("a", "echo", {"message": 1}))
EVIL = "</pre></details><script>document.title = 'broken in'</script><img src=x onerror=alert(1)>"


@pytest.fixture
def ran(pflow, write):
    finished = pflow("run", write(WORKFLOW), f"text={EVIL}", "--json")
    assert finished.exit_code == 1
    return finished.envelope["trace_path"].rpartition("/")[2].removesuffix(".json")


STEERING = "\x1b[31m\x1b]0;title\x07\x9b2J\x08\u202eturned"


def test_no_text_that_a_node_made_steers_the_terminal(pflow, write):
    ran = pflow("run", write(flow(step("no", "read-file", {"file_path": f"{STEERING} no"}))), "--json")
    assert STEERING in ran.envelope["error"]["message"]
    shown = [ran.stderr, pflow("trace", "list").stdout, pflow("trace", "show").stdout]
    escaped = r"Cannot read \u001b[31m\u001b]0;title\u0007\u009b2J\u0008\u202eturned no"
    assert [escaped in text for text in shown] == [True, True, True]
    assert not [sign for text in shown for sign in text if not sign.isprintable() and sign != "\n"]


def test_runs_are_listed_newest_first_and_shown_by_id_or_the_beginning_of_one(pflow, ran):
    again = pflow("run", "wf.json", "text=again", "--json").envelope["trace_path"]
    listed = pflow("trace", "list", "--json").envelope["data"]
    assert [row["path"] for row in listed] == [again, listed[1]["path"]]
    assert (listed[1]["run_id"], listed[1]["steps"], listed[1]["success"]) == (ran, 2, False)
    assert "not-there.txt" in listed[1]["error"]
    assert pflow("trace", "list", "--limit", "1").stdout.endswith("\n1 older; to see them: --limit 2\n")
    assert "older" not in pflow("trace", "list", "--limit", "2").stdout
    for word in (ran, ran[:-2]):
        assert pflow("trace", "show", word, "--json").envelope["data"]["run_id"] == ran
    several = pflow("trace", "show", "2", "--json")
    assert several.exit_code == 2
    assert ran in several.envelope["error"]["suggestions"]
    latest = pflow("trace", "show", "--json").envelope["data"]
    assert latest["steps"][0]["params"] == {"message": "again"}
    assert latest["steps"][1]["offset"] >= latest["steps"][0]["offset"] + latest["steps"][0]["milliseconds"]
    shown = pflow("trace", "show", "--full").stdout
    assert "read (read-file)" in shown
    assert latest["inputs"] == {"text": "again"}
    assert 'inputs: {\n    "text": "again"\n  }' in shown


@pytest.fixture
def good(pflow, ran, write):
    """A run that succeeded, after the one that failed."""
    assert pflow("run", write(GOOD, "good.json")).exit_code == 0


def test_the_list_says_whether_a_run_succeeded_or_why_it_failed(pflow, good):
    header, good, bad = pflow("trace", "list").stdout.splitlines()
    assert header.split() == ["RUN", "RESULT", "STARTED", "TIME", "STEPS", "WORKFLOW", "ERROR"]
    assert re.fullmatch(r"\S+  ok      just now +(?:\d+|<1) ms +1  good.json", good)
    assert re.fullmatch(r"\S+  failed  just now .* 2  wf.json +.*not-there.txt.*", bad)


def test_a_list_of_failed_runs_has_their_errors_on_a_narrow_terminal_too(ran, pflow_home):
    screen = Screen(["trace", "list", "--failed"], pflow_home, env={"NO_COLOR": "1"})
    assert screen.end() == 0
    assert "Node read" in screen.lines[1]


def test_the_list_is_narrowed_by_result_workflow_and_time(pflow, ran, good, pflow_home):
    def listed(*options):
        envelope = pflow("trace", "list", "--json", *options).envelope
        assert envelope["total"] == len(envelope["data"])
        return [row["workflow"] for row in envelope["data"]]

    assert listed() == ["good.json", "wf.json"]
    assert listed("--failed") == ["wf.json"]
    assert listed("--workflow", "good") == listed("--workflow", "good.json") == ["good.json"]
    assert listed("--workflow", "goo") == []
    os.utime(pflow_home / "state" / "traces" / f"{ran}.json", (1, 1))
    assert listed("--since", "2d") == ["good.json"]
    assert pflow("trace", "list", "--workflow", "goo").stdout == "No such traces\n"


def test_a_trace_is_shown_in_brief_or_one_step_of_it_whole(pflow, write):
    nodes = [step(name, "echo", {"message": f"it is {name}"}) for name in "ab"]
    outputs = {"all": "${a.message} and ${b.message}"}
    assert pflow("run", write(flow(*nodes, outputs=outputs))).exit_code == 0
    heading, _, first, second, both, more, page = pflow("trace", "show").stdout.splitlines()
    assert re.fullmatch(r"wf.json: run \S+ ok in (?:\d+|<1) ms, just now", heading)
    for name, line in (("a", first), ("b", second)):
        assert re.fullmatch(rf"✓  {name} +\S+ ms  echo", line)
    assert both == "all: it is a and it is b"
    assert "--step ID" in more
    assert re.fullmatch(r"Page: pflow trace view \S+-\S+ --open", page)
    shown = pflow("trace", "show", "--step", "b").stdout
    assert ("it is b" in shown, "it is a" in shown) == (True, False)
    missing = pflow("trace", "show", "--step", "c")
    assert (missing.exit_code, "The run has no step c" in missing.stderr) == (2, True)
    assert "Its steps are: a, b" in missing.stderr


@pytest.fixture
def nested(pflow, write):
    inside = flow(step("in", "echo", {"message": "inside"}))
    exits = step("do", "shell", {"command": ["sh", "-c", "exit ${n}"]})
    of_item = {"workflow": flow(exits, inputs={"n": {}}), "n": "${item}"}
    batch = {"items": [0, 3], "error_handling": "continue"}
    skipped = step("not", "echo", {"message": "no"}, when="1 > 2")
    outer = step("outer", "workflow", {"workflow": inside})
    each = step("each", "workflow", of_item, batch=batch)
    assert pflow("run", write(flow(skipped, outer, each))).exit_code == 0


def test_the_steps_of_a_workflow_that_a_step_ran_are_shown_in_it(pflow, nested):
    lines = pflow("trace", "show").stdout.splitlines()[2:8]
    assert re.fullmatch(r"○  not +echo +skipped", lines[0])
    assert [re.match(r"(\S +\S+) ", line)[1] for line in lines[1:]] == [
        "✓  outer",
        "✓    outer/in",
        "✓  each",
        "✓    each/do[0]",
        "✗    each/do[1]",
    ]
    full = pflow("trace", "show", "--full").stdout
    assert re.search(r"^not \(echo\) .*  skipped$", full, re.MULTILINE)
    assert re.search(r"^  outer/in \(echo\) .*  ok\n    params:", full, re.MULTILINE)


def test_a_step_inside_another_is_found_by_its_id(pflow, nested):
    def found(step):
        return pflow("trace", "show", "--step", step, "--json").envelope["data"]

    assert [step["outputs"] for step in found("outer/in")] == [{"message": "inside"}]
    assert len(found("each/do")) == 2
    assert [step["action"] for step in found("each/do[1]")] == ["error"]
    assert "inside" in pflow("trace", "show", "--step", "outer").stdout
    assert "Did you mean outer/in?" in pflow("trace", "show", "--step", "in").stderr


OF_FILES = {"items": "${files}", "error_handling": "continue"}
BATCH = flow(
    step("read", "read-file", {"file_path": "${item}.txt"}, batch=OF_FILES),
    step("bad", "shell", {"command": ["sh", "-c", "echo why >&2; exit 3"]}),
    step("rescue", "echo", {"message": "rescued"}),
    inputs={"files": {"type": "list"}},
    edges=[edge("read", "bad"), edge("bad", "rescue", "error")],
)


@pytest.fixture
def batched(pflow, write, tmp_path):
    """A run that went on after two failed items of a batch, and after a failure that an edge handled."""
    (tmp_path / "a.txt").write_text("the text\n")
    finished = pflow("run", write(BATCH), 'files=["a", "b", "a", "c"]')
    assert (finished.exit_code, finished.stdout) == (0, "rescued\n")
    return finished


def test_a_run_whose_batch_failed_in_part_says_so_and_how_to_see_more(batched, pflow):
    handled, warning, step = batched.stderr.splitlines()
    assert handled == "Warning: Failed, and handled by an edge: bad (the command ended with exit code 3: why)"
    assert warning == "Warning: read: 2 of 4 items failed: read[1], read[3]"
    words = shlex.split(step.removeprefix("  -> See: pflow"))
    assert "b.txt" in pflow(*words).stdout


def test_failed_items_and_handled_errors_are_marked_in_the_lines_of_a_run(batched, pflow):
    lines = [re.sub(r" +(<1|\d+) ms +", " ", line) for line in pflow("trace", "show").stdout.splitlines()]
    assert lines[2:7] == [
        "✓  read read-file  4 items, 2 failed",
        "✗    read[1] read-file  Cannot read b.txt: No such file or directory",
        "✗    read[3] read-file  Cannot read c.txt: No such file or directory",
        "!  bad shell      handled: the command ended with exit code 3: why",
        "✓  rescue echo",
    ]
    assert any(line.startswith("Failed: pflow trace show") for line in lines)


def test_an_item_of_a_batch_is_shown_with_its_params_and_its_result_or_error(batched, pflow):
    def shown(name):
        finished = pflow("trace", "show", "--step", name)
        return re.sub(r"\s+", " ", re.sub(r"(<1|\d+) ms", "TIME", finished.stdout + finished.stderr)).strip()

    assert shown("read[0]") == (
        'read[0] (read-file) TIME ok params: { "file_path": "a.txt" } '
        'outputs: { "content": "the text\\n", "file_path": "a.txt" }'
    )
    assert shown("read[1]") == (
        "read[1] (read-file) TIME failed error: Cannot read b.txt: No such file or directory "
        'params: { "file_path": "b.txt" }'
    )
    assert "read has 4 items, from 0" in shown("read[4]")
    assert "The run has no step reed[0]" in shown("reed[0]")
    assert "The run has no step bad[0]" in shown("bad[0]")
    [item] = pflow("trace", "show", "--step", "read[1]", "--json").envelope["data"]
    assert (item["index"], item["params"]) == (1, {"file_path": "b.txt"})


def test_a_step_tells_its_errors_first_and_nothing_twice(batched, pflow):
    text = pflow("trace", "show", "--step", "read").stdout
    assert text.index("read[1]: Cannot read b.txt") < text.index("read[3]: ") < text.index("params:")
    assert [text.count(word) for word in ("the text", "Cannot read b.txt", "Cannot read c.txt")] == [2, 1, 1]
    text = pflow("trace", "show", "--step", "bad").stdout
    assert [text.count(word) for word in ("ended with exit code 3", '"exit_code": 3', "handled")] == [1, 1, 1]


def test_only_what_failed_is_shown_if_that_is_asked(batched, pflow, write):
    text = pflow("trace", "show", "--failed").stdout
    heads = [line.partition(" ")[0] for line in text.splitlines() if re.match(r"\S+ \([a-z-]+\)  ", line)]
    assert heads == ["read[1]", "read[3]", "bad"]
    assert '"file_path": "c.txt"' in text
    lost = pflow("trace", "show", "--failed", "--json").envelope["data"]
    assert [(it["name"], it["state"]) for it in lost] == [
        ("read[1]", "failed"),
        ("read[3]", "failed"),
        ("bad", "handled"),
    ]
    assert pflow("trace", "show", "--failed", "--full").exit_code == 2
    assert pflow("run", "wf.json", "files=[]").exit_code == 0
    assert "bad (shell)" in pflow("trace", "show", "--failed").stdout
    pflow("run", write(GOOD))
    assert pflow("trace", "show", "--failed").stdout.endswith("No step failed\n")


def test_failed_items_beyond_those_that_the_trace_keeps_are_counted(pflow, write):
    pflow("run", write(BATCH), f"files={json.dumps([f'no{number}' for number in range(14)])}")
    assert "\n4 more items of read failed\n" in pflow("trace", "show", "--failed").stdout
    late = pflow("trace", "show", "--step", "read[12]").stdout
    assert re.search(r"read\[12\] .*failed\n  error: Cannot read no12.txt.*\n  item: no12", late)


def test_an_item_that_failed_is_shown_also_inside_another_and_where_no_param_has_it(pflow, write):
    fails = step("do", "shell", {"command": ["sh", "-c", "exit 3"]}, batch={"items": "${names}"})
    inside = flow(fails, inputs={"names": {"type": "list"}})
    of_item = {"workflow": inside, "names": "${item}"}
    outer = step("each", "workflow", of_item, batch={"items": [["ann", "bob"]], "error_handling": "continue"})
    pflow("run", write(flow(outer)))
    text = pflow("trace", "show", "--failed").stdout
    assert re.search(r"each/do\[0\]\[0\] \(shell\) .*\n  error: .* exit code 3\n  item: ann\n", text)


def test_the_note_of_a_step_has_its_whole_error_in_one_line(pflow, write):
    lines = ["sh", "-c", "printf '{\\n  \"error\": 7\\n}' >&2; exit 3"]
    pflow("run", write(flow(step("bad", "shell", {"command": lines}))))
    for command in ("show", "list"):
        assert 'exit code 3: { "error": 7 }' in pflow("trace", command).stdout


def test_what_failed_inside_a_step_stands_for_it(nested, pflow):
    lost = pflow("trace", "show", "--failed", "--json").envelope["data"]
    assert [it["name"] for it in lost] == ["each/do[1]"]
    item = pflow("trace", "show", "--step", "each[1]").stdout
    assert item.startswith("each[1] (workflow)")
    assert "\n  each/do[1] (shell)" in item


def test_a_page_shows_steps_inside_others_and_none_that_was_skipped_as_failed(pflow, nested):
    page = pflow("trace", "view", "--output", "-").stdout.partition("</style>")[2]
    skipped = r'class="step skipped">\n<summary><span class="name opener" [^>]*><span>○ <bdi>not'
    assert re.search(skipped, page)
    outer = page.partition("outer</bdi>")[2].partition('<details class="step fine">')
    assert "outer/in</bdi>" in outer[2]
    assert "</details>" not in outer[0]
    failed = r'<details class="item failed">\n.*each\[1\]</span>.*\n.*<details class="step failed">'
    assert re.search(failed, page)
    assert page.count('class="step failed"') == 1
    assert 'failed" open' not in page


def test_a_run_leaves_a_trace_once_it_has_begun_and_none_if_it_is_refused(pflow, write):
    write(WORKFLOW)
    write(flow(step("a", "no-such-node")), "broken.json")
    for words in (("wf.json",), ("wf.json", "texd=x"), ("broken.json",), ("none.json",)):
        refused = pflow("run", *words)
        assert refused.exit_code == 2
        assert "trace" not in refused.stdout + refused.stderr
    assert pflow("trace", "list").stdout == "No traces\n"
    missing = pflow("trace", "show", "--json")
    assert (missing.exit_code, missing.envelope["error"]["type"]) == (2, "not_found")
    assert "trace path: " in pflow("run", "wf.json", "text=x").stderr
    assert len(pflow("trace", "list", "--json").envelope["data"]) == 1


def test_a_folder_of_traces_that_cannot_be_read_is_named(pflow, pflow_home):
    (pflow_home / "state").mkdir()
    (pflow_home / "state" / "traces").write_text("no folder")
    for command in ("list", "show", "view"):
        refused = pflow("trace", command, "--json")
        assert (refused.exit_code, refused.envelope["error"]["type"]) == (2, "config")
        assert "traces: the folder could not be read: not a directory" in refused.stderr


def test_a_trace_that_lacks_much_and_has_absurd_numbers_is_listed_and_shown(pflow, keep):
    keep({"steps": [{"offset": 10**400, "milliseconds": "long"}]})
    [row] = pflow("trace", "list", "--json").envelope["data"]
    assert (row["run_id"], row["steps"]) == ("r", 1)
    assert pflow("trace", "view", "r").exit_code == 0


def test_a_trace_that_is_damaged_is_named_and_does_not_hide_the_others(pflow, pflow_home, ran):
    (pflow_home / "state" / "traces" / "20990101-damaged.json").write_text("{oops")
    listed = pflow("trace", "list", "--json").envelope["data"]
    assert {row["run_id"]: row["steps"] for row in listed} == {"20990101-damaged": None, ran: 2}
    assert pflow("trace", "show", "20990101-damaged").exit_code == 2


def test_a_page_does_not_replace_the_trace_that_it_shows(pflow, ran, pflow_home):
    trace = pflow_home / "state" / "traces" / f"{ran}.json"
    refused = pflow("trace", "view", ran, "--output", str(trace))
    assert (refused.exit_code, "is the file that is read" in refused.stderr) == (2, True)
    assert json.loads(trace.read_text())["run_id"] == ran


def test_a_page_of_a_run_is_one_file_in_which_nothing_can_run(pflow, ran, tmp_path):
    assert pflow("trace", "view").exit_code == 0
    path = tmp_path / f"trace-{ran}.html"
    page = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'' in page
    assert "script-src" not in page
    assert page.count("<details") == 3
    assert page.count('<details class="step failed" open>') == 1
    assert "<script" not in page
    assert "<img" not in page


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
      left: (box.left - track.left) / track.width, width: box.width / track.width,
      before, after, again: shown(), wide: track.width,
    };
  });
  const root = document.documentElement;
  const pre = document.createElement("pre");
  pre.id = "measured";
  pre.textContent = JSON.stringify({rows, over: root.scrollWidth - root.clientWidth});
  document.body.append(pre);
});
</script>
</head>
"""


@pytest.mark.slow
def test_in_a_browser_bars_stand_where_the_steps_ran_and_a_click_opens_them(pflow, keep, tmp_path, chromium):
    keep(PLANTED)
    page = pflow("trace", "view", "r", "--output", "-").stdout
    file = tmp_path / "page.html"
    file.write_text(re.sub("<meta http-equiv=[^>]*>", "", page).replace("</head>", MEASURE))
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    options = ("--dump-dom", "--virtual-time-budget=3000", "--window-size=500,800", profile)
    command = [chromium, *HEADLESS, *options, file.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
    measured = json.loads(unescape(re.search('<pre id="measured">(.*)</pre>', shown, re.DOTALL)[1]))
    assert measured["over"] == 0  # nothing sticks out
    fine, failed = measured["rows"]
    assert min(row["wide"] for row in measured["rows"]) > 400
    assert (fine["left"], fine["width"]) == pytest.approx((0, 0.25), abs=0.01)
    assert (failed["left"], failed["width"]) == pytest.approx((0.25, 0.5), abs=0.01)
    assert (fine["before"], fine["again"], failed["after"]) == (False, False, False)
    assert EVIL in fine["after"]
    assert "out of paper" in failed["before"]
    assert failed["again"] == failed["before"]


def test_the_page_shows_starts_apart_outputs_first_and_items_of_a_batch(page_of, tmp_path):
    times = [[n, 900 + 10 * n, 20, n != 2] for n in range(4)]
    batch = {"count": 4, "succeeded": 3, "failed": 1, "times": times}
    each = {"id": "each", "type": "t", "offset": 5, "milliseconds": 950, "waited": 895}
    start = {"label": "server a", "offset": 0, "milliseconds": 900, "error": None}
    steps = [{**each, "details": {"batch": batch}}]
    run = {"milliseconds": 4700, "success": True, "outputs": {"total": 3}}
    shown = page_of({**run, "preparations": [start], "steps": steps})
    assert not [*tmp_path.glob("*.html")]
    text = re.sub("<[^>]*>", " ", shown)
    assert re.search(r"Outputs\s+{\s+&quot;total&quot;: 3\s+}.* start\s+server a .* each ", text, re.DOTALL)
    assert re.search(r" 0\s+1 s\s+2 s\s+3 s\s+4 s ", text)
    assert "It waited 895 ms" in text
    assert re.search(r" 55 ms ", text)
    assert shown.count('<div class="item') == 4
    assert shown.count('<div class="item failed"') == 1
    assert "times" not in text


LONG = "a-name-that-was-made-of-a-whole-sentence-about-what-the-step-is-for"


@pytest.fixture
def keep(pflow_home):
    def kept(trace):
        folder = pflow_home / "state" / "traces"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "r.json").write_text(json.dumps(trace))

    return kept


@pytest.fixture
def page_of(pflow, keep):
    def made(trace):
        keep({"run_id": "r", "workflow": "wf", **trace})
        return pflow("trace", "view", "r", "--output", "-").stdout.partition("</style>")[2]

    return made


def test_a_failed_item_of_a_batch_says_why_and_one_that_is_kept_what_it_was(page_of):
    errors = [{"index": 1, "item": {"n": 7}, "error": "out of <paper>"}]
    batch = {"count": 2, "failed": 1, "errors": errors, "times": [[1, 0, 5, False], [0, 0, 9, True]]}
    kept = [{"index": 0, "params": {"n": 6}, "details": {"tool": "count"}}]
    step = {"id": "each", "type": "t", "details": {"batch": batch}, "items": kept}
    page = page_of({"success": True, "steps": [step]})
    assert page.index("each[0]<") < page.index("each[1]<")
    failed = page.partition('<details class="item failed">')[2]
    assert "out of &lt;paper&gt;" in failed.partition("</details>")[0]
    assert "darker where more items ran" in page
    assert "count" in page.partition("<h3>Inputs</h3>")[2].partition("</details>")[0]


@pytest.mark.parametrize("begin", [0, 4000])
def test_the_bar_of_a_batch_is_dark_where_items_ran_and_pale_where_none_did(page_of, begin):
    times = [[0, begin, 100, True], [1, begin + 900, 100, True]]
    batch = {"count": 2, "succeeded": 2, "failed": 0, "times": times}
    step = {"id": "each", "type": "t", "offset": begin, "milliseconds": 1000, "details": {"batch": batch}}
    page = page_of({"success": True, "milliseconds": begin + 1000, "steps": [step]})
    bar = page.partition('class="bar density"')[2].partition("</span>")[0]
    shades = [float(shade) for shade in re.findall(r" / (\d\.\d+)\)", bar)]
    assert shades[0] == shades[-1] == max(shades)
    middle = shades[len(shades) // 3 : -len(shades) // 3]
    assert {*middle} == {min(shades)}
    assert min(shades) < max(shades) / 2


def test_a_handled_failure_says_that_it_was_and_a_long_name_can_be_read(page_of):
    failed = {"error": "no", "outputs": {"error": "no"}, "action": "error"}
    page = page_of({"success": True, "steps": [{"id": LONG, "type": "workflow:{x}", **failed}]})
    assert f'title="! {LONG} workflow handled"' in page
    assert "Outputs" not in page  # they only repeat the error
    assert "Action" not in page


@pytest.mark.parametrize(("kind", "mark"), [("interrupted", "■"), ("execution", "✗")])
def test_an_interrupted_run_does_not_look_like_a_failed_one(pflow, page_of, kind, mark):
    steps = [{"id": "a", "type": "t", "error": "interrupted", "action": "error"}]
    start = {"label": "server b", "offset": 0, "milliseconds": 9, "error": "the run ended first"}
    error = {"type": kind, "message": "x"}
    page = page_of({"success": False, "error": error, "steps": steps, "preparations": [start]})
    assert "Action" not in page  # that a failure takes the action `error` goes without saying
    assert ('class="step interrupted" open' in page, "failed" in page) == (mark == "■", mark != "■")
    shown = pflow("trace", "show", "r").stdout
    assert f"{mark}  a" in shown
    assert f"{mark}  start" in shown
    listed = pflow("trace", "list", "--json").envelope["data"]
    assert (listed[0]["state"] == "interrupted") == (mark == "■")


def test_a_page_is_opened_in_the_browser(pflow, ran, tmp_path):
    browser = executable(tmp_path / "browser", f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    env = {"BROWSER": f"{browser} %s"}
    assert pflow("trace", "view", "--open", env=env).exit_code == 0
    assert (tmp_path / "opened").read_text().strip() == (tmp_path / f"trace-{ran}.html").as_uri()
    assert pflow("workflow", "graph", "wf.json", "--open", env=env).exit_code == 0
    assert (tmp_path / "opened").read_text().strip() == (tmp_path / "graph-wf.html").as_uri()
    assert pflow("trace", "view", "--open", "--output", "-").exit_code == 2


def test_the_path_of_a_trace_stands_for_it_also_that_of_a_copy(pflow, ran, tmp_path, pflow_home):
    path, copy = pflow_home / "state" / "traces" / f"{ran}.json", tmp_path / "copy.json"
    shutil.copy(path, copy)
    shown = pflow("trace", "show", ran, "--json").envelope["data"]
    for word in (path, copy, "copy.json"):
        assert pflow("trace", "show", word, "--json").envelope["data"] == shown
    assert pflow("trace", "view", copy, "--output", "page.html").exit_code == 0
    missing = pflow("trace", "show", tmp_path / "none.json")
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


def test_of_several_runs_with_one_beginning_the_five_newest_are_named(owned):
    for age in (5, 6):
        os.utime(Recorder(f"2026-{age}", "wf", Redactor()).write(owned.folder, None), (age, age))
    with pytest.raises(PflowError, match="7 runs begin with 2026-") as caught:
        owned.find("2026-")
    assert caught.value.suggestions == ("2026-6", "2026-5", "2026-4", "2026-3", "2026-2")


def test_the_owner_of_a_file_that_somebody_changed_is_nobody(owned):
    path = owned.folder / "2026-1.json"
    path.write_text(path.read_text().replace('"ann"', '"' + "x" * 10_000 + '"'))
    for owner in ("", "ann"):
        with pytest.raises(PflowError):
            owned.find("2026-1", owner=owner)
    path.write_text("[]")
    with pytest.raises(PflowError):
        owned.find("2026-1", owner="")


@pytest.mark.parametrize(
    ("length", "texts"),
    [
        (900, ["0", "200 ms", "400 ms", "600 ms", "800 ms"]),
        (4_700, ["0", "1 s", "2 s", "3 s", "4 s"]),
        (8_000_000, ["0", "30 min", "1 h", "1 h 30 min", "2 h"]),
        (900_000_000, ["0", "3 d", "6 d", "9 d"]),
    ],
)
def test_ticks_are_at_round_times_in_the_units_of_people(length, texts):
    assert [text for _, text in ticks(length)] == texts


@given(st.floats(min_value=0.001, max_value=1e300))
def test_ticks_are_few_and_inside(length):
    places = [place for place, _ in ticks(length)]
    assert places[0] == 0
    assert len(places) <= 6
    assert max(places) <= 1 + 1e-9
