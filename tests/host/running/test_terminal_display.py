import io
import itertools
import json
import re
from types import SimpleNamespace

import pytest
from screen import Screen, screen_lines
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import Entry, NodeRef
from pflow_mcp_plugin.host.running import terminal_display
from pflow_mcp_plugin.host.running.terminal_display import RemainingTime, TerminalDisplay
from pflow_mcp_plugin.host.running.trace_recorder import Preparation, Step
from pflow_mcp_plugin.terminal.live_lines import LiveLines
from pflow_mcp_plugin.terminal.looks import text_width

pytestmark = pytest.mark.programs

PLAIN = {"NO_COLOR": "1"}
ECHO = step("say", "echo", {"message": "hi"})
FAIL = step("fail", "shell", {"command": ["sh", "-c", "echo broken >&2; exit 3"]})


@pytest.fixture
def shown(pflow_home, tmp_path):
    def run(document, *options, env=PLAIN, **given):
        path = tmp_path / "wf.json"
        path.write_text(json.dumps(document))
        return Screen(["run", str(path), *options], pflow_home, cwd=tmp_path, env=env, **given)

    return run


def waiting(name="end"):
    """A command that ends when a file is there."""
    return ["sh", "-c", f"until [ -e {name} ]; do sleep 0.05; done"]


def test_each_step_leaves_a_line_and_the_end_a_summary(shown, pflow_home):
    screen = shown(flow(ECHO, {**ECHO, "id": "a" * 40}), env={}, columns=60)
    assert screen.end() == 0
    assert "\x1b[32m✓" in screen.shown
    (trace,) = (pflow_home / "state" / "traces").glob("*.json")
    first, second, summary, where, output = re.sub(r"\x1b\[[0-9]*m", "", "\n".join(screen.lines)).split("\n")
    assert re.fullmatch(r"✓ say {25}\s+\S+ ms  echo", first)
    assert re.fullmatch(r"✓ a{27}…\s+\S+ ms  echo", second)
    assert re.fullmatch(r"✓ 2 steps in \S+ m?s", summary)
    assert where == f"  trace: {trace}"
    assert output == "hi"


def test_off_a_terminal_nothing_is_shown_unless_it_is_asked_for(pflow, tmp_path):
    (tmp_path / "wf.json").write_text(json.dumps(flow(ECHO)))
    done = pflow("run", "wf.json")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "hi\n", "")
    done = pflow("run", "wf.json", "--verbose")
    assert done.stdout == "hi\n"
    assert re.fullmatch(r"✓ say .* echo\n✓ 1 step in .*\n  trace: .*\n", done.stderr)


@pytest.mark.parametrize("env", [PLAIN, {"TERM": "dumb"}])
def test_no_colours_are_used_where_they_are_not_wanted(shown, env):
    screen = shown(flow(ECHO), env=env)
    assert screen.end() == 0
    assert "✓" in screen.shown
    assert "\x1b" not in screen.shown


def test_quiet_shows_only_the_outputs(shown):
    screen = shown(flow(ECHO), "--quiet")
    assert screen.end() == 0
    assert screen.lines == ["hi"]


def test_an_error_is_broken_at_spaces_where_the_terminal_is_narrow(shown):
    screen = shown(flow(FAIL), columns=50)
    assert screen.end() == 1
    start = next(number for number, line in enumerate(screen.lines) if line.startswith("Error: "))
    assert screen.lines[start : start + 2] == [
        "Error: Node fail (shell) failed: the command ended",
        "  with exit code 3: broken",
    ]


def test_the_bar_of_a_batch_grows_and_stays(shown, tmp_path):
    node = step("each", "shell", {"command": waiting("${item}")}, batch={"items": ["a", "b", "c", "d"]})
    screen = shown(flow(node), columns=40).until(r"░{6,} 0/4")
    (tmp_path / "a").touch()
    screen.until(r"█+░{5,} 1/4")
    for name in "bcd":
        (tmp_path / name).touch()
    assert screen.end() == 0
    assert all(text_width(line) < 40 for line in screen_lines(screen.shown.partition("✓ each")[0]))
    assert re.match(r"✓ each .*█{6,} 4/4", screen.lines[0])


def test_ctrl_c_leaves_the_terminal_clean_and_the_bar_of_a_batch_room_to_say_so(shown, tmp_path):
    node = step("each", "shell", {"command": waiting("${item}")}, batch={"items": ["a", *"bcdefghijk"]})
    (tmp_path / "a").touch()
    screen = shown(flow(ECHO, node), columns=52).until(r"[⠋-⠿] each\s+\d+\.\d s .* 1/11").interrupt()
    assert screen.end() == 130
    assert re.fullmatch(r"■ each .*░  1/11.*  interrupted", screen.lines[1])
    assert re.match("■ interrupted after 2 steps in ", screen.lines[2])
    assert not re.search("[⠋-⠿]", "".join(screen.lines))
    assert "\x1b[?25l" not in screen.shown  # the cursor is never hidden


def runs(node_id, *nodes):
    return step(node_id, "workflow", {"workflow": flow(*nodes)})


def test_the_steps_of_a_workflow_stand_below_the_step_that_runs_it(shown):
    nodes = [{**ECHO, "when": "1 > 2"}, runs("outer", runs("deep", {**ECHO, "id": "low"})), runs("bad", FAIL)]
    screen = shown(flow(*nodes), columns=200)
    assert screen.end() == 1
    assert re.fullmatch(r"○ say\s+echo  skipped", screen.lines[0])
    steps = ["▸ outer", "▸   deep", "✓     low", "✓   deep", "✓ outer", "▸ bad", "✗   fail", "✗ bad"]
    assert [re.match(r"(. +\w+) ", line)[1] for line in screen.lines[1:9]] == steps
    assert re.match("✗ failed after 3 steps in ", screen.lines[9])


def test_a_warning_is_written_above_what_happens_now(shown):
    screen = shown(flow(ECHO, inputs={"unused": {"type": "str", "default": ""}}))
    assert screen.end() == 0
    assert screen.lines[0].startswith("Warning: ")
    assert re.match("✓ say ", screen.lines[2])


def test_a_direct_run_shows_what_happens_now_and_leaves_only_its_result(pflow_home, tmp_path):
    words = ["shell", "--command", json.dumps(waiting())]
    screen = Screen(words, pflow_home, cwd=tmp_path, env=PLAIN).until(r"shell\s+\d+\.\d s  shell")
    (tmp_path / "end").touch()
    assert screen.end() == 0
    assert [line for line in screen.lines if line.strip()] == []


def begun(node_id, node_type="t-x"):
    entry = Entry(node=node_type, class_name="X", module="m", description="")
    return Step(NodeRef(id=node_id, type=node_type, entry=entry, host=None))


@pytest.fixture
def timed(monkeypatch):
    """Return a display of any width, the lines that it shows now, those that stay, and a clock to set."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(terminal_display, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def timed(*names, detail="usual", columns=80):
        stream, width = io.StringIO(), columns

        class Lines(LiveLines):
            columns = width

        def kept():
            text = stream.getvalue()
            stream.seek(0)
            stream.truncate()
            return text.splitlines()

        monkeypatch.setattr(terminal_display, "LiveLines", Lines)
        display = TerminalDisplay(stream, names, detail, terminal=True)
        return display, lambda: [re.sub("^[⠀-⣿]", "*", it) for it in display._lines._lines()], kept, clock

    return timed


def test_what_has_begun_is_shown_after_a_moment_with_its_own_time(timed):
    display, now, kept, clock = timed("fetch", "each")
    start, fetch = Preparation("server slow", frozenset({"each"})), begun("fetch")
    display.preparing(start)
    clock.now += 0.25
    assert now() == []
    clock.now += 0.25
    display.step_began(fetch)
    assert now() == ["* start        0.5 s  server slow"]
    clock.now += 1
    display.step_began(begun("each"))
    clock.now += 1
    # The step that waits for the start is not shown before it.
    assert now() == ["* start        2.5 s  server slow", "* fetch        2.0 s  t-x"]
    fetch.milliseconds, fetch.waited, fetch.details = 2000.0, 250.0, {"retries": 2}
    display.step_ended(fetch)
    start.milliseconds = 2500.0
    display.prepared(start)
    assert kept() == ["✓ fetch        1.8 s  t-x  2 retries", "✓ start        2.5 s  server slow"]
    clock.now += 0.25
    assert now() == []
    clock.now += 0.25
    assert now() == ["* each         0.5 s  t-x"]


@pytest.mark.parametrize(
    ("columns", "bar", "kind", "end"),
    [
        (76, "██░░░░░░░░░░░░░░░░░░", "  t-x", "  t-x  1 retry"),
        (66, "█░░░░░░░░░░░░░", "", "  t-x  1 retry"),
        (58, "░░░░░░", "", "  t-x  1 retry"),
        (57, "░░░░░░", "", "  1 retry"),
    ],
)
def test_a_bar_has_the_room_that_is_there(timed, columns, bar, kind, end):
    display, now, kept, clock = timed("each", columns=columns)
    each = begun("each")
    display.step_began(each)
    clock.now += 1
    display.items_ended("each", {"count": 20, "succeeded": 1, "failed": 1})
    display.progressed("each", 3, 10, "half\nway")
    clock.now += 1
    bar += "  2/20 1 failed"
    assert now() == [f"* each         2.0 s  {bar}{kind}  8 s left", "    3 of 10, half way"]
    each.milliseconds, each.details = 2500.0, {"batch": {"retries": 1}}
    display.step_ended(each)
    assert kept() == [f"✓ each         2.5 s  {bar}{end}"]
    display.summarize("succeeded", "a/trace.json")
    assert kept() == ["✓ 1 step in 2.0 s, 1 item failed", "  trace: a/trace.json"]


HANDLED = "✓ 1 step in 1.0 s, 1 failed and handled"


@pytest.mark.parametrize(
    ("how", "mark", "inside", "told", "end"),
    [
        ("handled", "!", "no route", "handled: in failed: no route", HANDLED),
        ("failed", "✗", "no route", "in failed: no route", "✗ failed after 1 step in 1.0 s"),
        ("interrupted", "■", "interrupted", "interrupted", "■ interrupted after 1 step in 1.0 s"),
    ],
)
def test_a_failure_is_told_where_it_happened_and_once_it_is_known_what_came_of_it(
    timed, how, mark, inside, told, end
):
    display, now, kept, clock = timed("outer", "outer/in", "next")
    outer, inner = begun("outer", "workflow:{}"), begun("outer/in")
    display.step_began(outer)
    display.step_began(inner)
    assert kept() == ["▸ outer               workflow"]
    clock.now += 1
    assert now() == ["*   in         1.0 s  t-x"]
    inner.error, inner.milliseconds = "no\nroute", 12.0
    outer.error, outer.milliseconds = "in failed: no\nroute", 13.0
    display.step_ended(inner)
    display.step_ended(outer)
    assert kept() == []
    if how == "handled":
        display.step_began(begun("next"))
    display.summarize("succeeded" if how == "handled" else how, "")
    assert kept() == [
        f"{mark}   in         12 ms  t-x  {inside}",
        f"{mark} outer        13 ms  workflow  {told}",
        end,
    ]


@pytest.mark.parametrize("detail", ["brief", "usual", "verbose"])
def test_how_much_of_a_run_stays_is_the_users_choice(timed, detail):
    display, _, kept, _ = timed("say", detail=detail)
    say = begun("say")
    display.step_began(say)
    display.progressed("say", 0.5, None, "")
    display.progressed("say", 1, 2, "a message")
    say.milliseconds, say.waited = 30.0, 10.0
    display.step_ended(say)
    display.summarize("succeeded", "")
    usual = ["✓ say          20 ms  t-x", "✓ 1 step in 0 ms"]
    verbose = [
        "  say                 0.5",
        "  say                 1 of 2, a message",
        f"{usual[0]}  after waiting 10 ms",
        usual[1],
    ]
    assert kept() == {"brief": [], "usual": usual, "verbose": verbose}[detail]
    assert display.shows_handled is (detail != "brief")


def test_the_time_of_a_batch_begins_when_what_its_items_need_is_ready(timed):
    display, now, _, clock = timed("each")
    start = Preparation("server slow", frozenset({"each/inner"}))
    display.preparing(start)
    clock.now += 5
    display.step_began(begun("each"))
    clock.now += 5
    start.milliseconds = 10_000.0
    display.prepared(start)
    clock.now += 10
    display.items_ended("each", {"count": 9, "succeeded": 1, "failed": 0})
    display.prepared(Preparation("server later", frozenset({"each/other"}), milliseconds=1.0))
    clock.now += 10  # its items run
    (shown,) = now()
    assert shown.startswith("* each        20.0 s "), shown


@pytest.mark.parametrize(("state", "mark"), [("interrupted", "■"), ("failed", "✗")])
def test_a_start_that_ends_with_its_run_is_told_from_one_that_fails(timed, state, mark):
    display, _, kept, _ = timed("a")
    start = Preparation("server slow")
    display.preparing(start)
    start.milliseconds, start.error = 1_200.0, "the run ended first"
    display.prepared(start)
    assert kept() == []
    display.summarize(state, "")
    assert kept()[0] == f"{mark} start        1.2 s  server slow"


def test_a_terminal_that_is_closed_ends_nothing():
    class Closed(io.StringIO):
        def write(self, text):
            raise OSError("gone")

    display = TerminalDisplay(Closed(), ["a"], "usual", terminal=True)
    display.summarize("succeeded", "/a/trace.json")
    display.close()


def test_nothing_is_estimated_at_once_or_without_a_finished_item():
    remaining = RemainingTime(0.0)
    assert remaining.text(60.0) == ""
    remaining.update(1, 10, 0.1)
    assert remaining.text(1.0) == ""


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (8, "8 s left"),
        (12, "10 s left"),
        (59, "1 min left"),
        (76, "1 min 30 s left"),
        (629, "10 min left"),
        (3600, "1 h left"),
    ],
)
def test_an_estimate_is_rounded_as_people_would(seconds, shown):
    remaining = RemainingTime(0.0)
    remaining.update(1, seconds + 2, 1.0)
    assert remaining.text(1.9) == ""
    assert remaining.text(2.0) == shown
    assert remaining.text(seconds + 4.0) == "1 s left"
    assert remaining.text(seconds + 4.1) == ""


def test_an_estimate_that_was_wrong_is_given_up_until_another_item_ends():
    remaining = RemainingTime(0.0)
    remaining.update(1, 11, 0.3)
    assert remaining.text(4.0) == "1 s left"
    assert remaining.text(6.0) == ""
    remaining.update(2, 11, 20.0)
    assert remaining.text(20.1) == "1 min 30 s left"


def test_items_that_end_in_bursts_do_not_make_it_jump():
    remaining = RemainingTime(0.0)
    ends = []
    done = 0
    for tick in range(1, 360):
        now = tick / 10
        for place in range(32):  # all within a tenth of a second, every four seconds
            if now - 0.1 < (done // 32 + 1) * 4 + place * 0.003 <= now:
                done += 1
                remaining.update(done, 320, now)
        if remaining.text(now):
            ends.append(remaining._end)
    jumps = [abs(one - other) for one, other in itertools.pairwise(ends)]
    assert done == 320 - 64
    assert max(jumps) < 2
    assert ends[-1] == pytest.approx(40, abs=2)
