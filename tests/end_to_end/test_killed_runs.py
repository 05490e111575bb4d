"""However a run is killed, `pflow resume` does the rest, and nothing twice without a decision."""

import json
import os
import random
import re
import signal
from itertools import product
from pathlib import Path

import pytest
from kill_trials import KILLS, TRANSPORTS, WORKFLOWS, CountingServer, Trial, killed_anywhere, killed_at
from programs import script_server, until
from workflow_parts import edge, flow, step

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]
COUNTING = Path(__file__).with_name("counting_server.py")
CALLS = {"ten steps": 55_000, "batch": 250_000 if KILLS == 1 else 800_000, "inside": 70_000, "loop": 70_000}
"""About how many functions a run calls and leaves, from its first record on."""


@pytest.fixture
def trial(configured, pflow, started, tmp_path):
    """Configure the server over a transport, with what it is to do."""
    servers = []

    def configure(transport, what="", when="", value=""):
        effects = tmp_path / "effects"
        if transport == "http":
            server = CountingServer(effects).__enter__()
            servers.append(server)
            configured("counting", {"type": "http", "url": server.url(), "protocol": "handshake"})
            server.plan = {value: (what, when)}
            return Trial(pflow, started, effects, server)
        env = {"EFFECTS": str(effects)}
        if what:
            env["KILL" if what == "kill" else "END"] = f"{when} {value}"
        configured("counting", script_server(COUNTING, env=env))
        return Trial(pflow, started, effects, None)

    yield configure
    for server in servers:
        server.__exit__(None, None, None)


FEW = ["ten steps", "batch"] if KILLS == 1 else [*WORKFLOWS]


def spread(names, steps):
    """Return half of the combinations, with the transports in turn; all over both in a large trial."""
    if KILLS > 1:
        return list(product(names, steps, TRANSPORTS))
    return [
        (name, step, TRANSPORTS[(row + column // 2) % 2])
        for row, name in enumerate(names)
        for column, step in enumerate(steps)
        if (row + column) % 2 == 0
    ]


TRANSITIONS = [("sent", "before"), ("sent", "after"), ("ended", "before"), ("ended", "after")]


@pytest.mark.parametrize(("name", "transition", "transport"), spread(WORKFLOWS, TRANSITIONS))
def test_a_run_killed_as_it_records_something_goes_on(trial, name, transition, transport):
    it = trial(transport)
    workflow, expected = WORKFLOWS[name]
    # Steps that are sent at the same time are recorded together.
    most = 3 if transition[0] == "sent" and name in ("batch", "inside") else 10
    numbers = random.Random(f"{name} {transition}")
    for _ in range(KILLS):
        number = numbers.randrange(1, most)
        run = it.begin(workflow, killed_at(*transition, number))
        assert it.die(run) == -signal.SIGKILL
        left = it.finish(expected)
        if name == "ten steps" and transition[0] == "sent":
            named = [] if transition[1] == "before" else [f"n{number - 1}"]
            assert [step["step"] for step in left] == named
        if transition == ("sent", "before"):
            assert len(left) < 16
        if transition == ("sent", "after"):
            assert left


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", FEW)
def test_a_run_killed_anywhere_goes_on(trial, name, transport):
    it = trial(transport)
    workflow, expected = WORKFLOWS[name]
    numbers = random.Random(f"{name} {transport}")
    for _ in range(KILLS):
        run = it.begin(workflow, killed_anywhere(numbers.randrange(1, CALLS[name])))
        if it.die(run) == 0:
            assert sorted(it.done()) == sorted(expected)
            assert it.listed() == []
        else:
            it.finish(expected)


@pytest.mark.parametrize(("name", "when", "transport"), spread(WORKFLOWS, ["before", "after", "answered"]))
def test_a_run_killed_while_a_server_acts_goes_on(trial, name, when, transport):
    workflow, expected = WORKFLOWS[name]
    it = trial(transport, "kill", when, expected[5])
    assert it.die(it.begin(workflow)) == -signal.SIGKILL
    left = it.finish(expected)
    if when != "answered":
        assert str(expected[5]) in [str(it["params"]["value"]) for it in left]


@pytest.mark.parametrize(("name", "at", "transport"), spread(FEW, ["before", "after"]))
def test_a_run_that_is_stopped_as_it_sends_goes_on(trial, name, at, transport):
    it = trial(transport)
    workflow, expected = WORKFLOWS[name]
    run = it.begin(workflow, killed_at("sent", at, 2, "SIGSTOP"))
    await_stop(run)
    if name == "ten steps":
        assert it.done() == ["0"]
    (listed,) = it.listed()
    assert listed["state"] == "going on"
    # Nor can another process do what it was about to do.
    assert "is going on" in it.pflow("resume", listed["run"]).stderr
    assert "is going on" in it.pflow("resume").stderr
    if name == "ten steps":
        assert it.done() == ["0"]
    run.send_signal(signal.SIGCONT)
    assert it.die(run) == 0
    assert sorted(it.done()) == sorted(expected)
    assert it.listed() == []


def await_stop(run):
    """Wait until a program is stopped."""
    state = os.waitid(os.P_PID, run.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert state.si_code == os.CLD_STOPPED


@pytest.mark.parametrize(
    ("name", "what", "when", "transport"),
    [
        *((name, "die", when, transport) for name, when, transport in spread(WORKFLOWS, ["before", "after"])),
        *((name, "cut", when, "http") for name, when, _ in spread(WORKFLOWS, ["before", "after"])),
    ],
)
def test_a_server_that_ends_or_is_cut_off_in_the_middle_of_a_call_leaves_an_open_step(
    trial, name, what, when, transport
):
    workflow, expected = WORKFLOWS[name]
    it = trial(transport, what, when, expected[5])
    run = it.begin(workflow)
    code = it.die(run)
    assert code == 4
    (listed,) = it.listed()
    if name in ("ten steps", "loop"):
        assert listed["open"] == ["n5" if name == "ten steps" else "send#6"]
    if it.server:
        it.server.down = False
    left = it.finish(expected)
    assert expected[5] in [str(step["params"]["value"]) for step in left]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_run_killed_while_its_server_starts_leaves_nothing_open(trial, tmp_path, transport):
    it = trial(transport)
    slow = it.effects.with_suffix(".slow")
    slow.touch()
    if it.server:
        it.server.hold()
    written = tmp_path / "written"
    first = step("w", "shell", {"command": ["sh", "-c", f"echo once >> {written}"]})
    second = step("n", "mcp-counting-send", {"value": 1})
    run = it.begin(flow(first, second, edges=[edge("w", "n")]))
    if it.server:
        until(lambda: it.server.count("initialize") > 1)  # the first was that of the sync
    else:
        until(lambda: b"counting_server" in _children(run.pid))
    until(written.exists)
    run.send_signal(signal.SIGKILL)
    slow.unlink()
    if it.server:
        it.server.release()
    it.die(run)
    left = it.steps()
    assert [step["step"] for step in left] == ["w"]
    if left[0]["then"] == "decide":  # killed between the end of the command and its record
        assert it.pflow("resume", "--assume-done", "w=null").exit_code == 0
        assert it.done() == ["1"]
    else:
        assert it.finish(["1"]) == []
    assert written.read_text() == "once\n"


def _children(pid):
    found = b""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found += (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
    return found


def test_a_run_that_failed_goes_on_with_a_server_that_was_replaced(pflow, configured, workflow, tmp_path):
    env = {"EFFECTS": str(tmp_path / "effects")}
    configured("counting", script_server(COUNTING, env={**env, "REFUSE": "second"}))
    nodes = [(name, "mcp-counting-send", {"value": name}) for name in ("first", "second", "last")]
    ended = pflow("run", workflow(*nodes, edges=[edge("first", "second"), edge("second", "last")]))
    assert ended.exit_code == 1
    assert re.search(r"To go on where it ended: pflow resume \S+$", ended.stderr, re.MULTILINE)
    new = script_server(COUNTING, env={**env, "VERSION": "2"})
    assert pflow("mcp", "add", "--replace", json.dumps({"counting": new})).exit_code == 0
    assert pflow("resume").exit_code == 0
    assert (tmp_path / "effects").read_text() == "first\nsecond\nlast\n"
