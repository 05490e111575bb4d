"""However a run is killed, `pflow resume` does the rest, and nothing twice without a decision."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from programs import script_server, until
from workflow_parts import edge, flow, step

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]
COUNTING = Path(__file__).with_name("counting_server.py")
KILLS = int(os.environ.get("PFLOW_KILLS", "1"))
"""How often each workflow is killed at each transition, at random ones."""

AT = """
import itertools, os, signal, sys
from pflow_mcp_plugin.host.running.run_record import RunRecord
from pflow_mcp_plugin.__main__ import program

def dying(method, at, last):
    usual, times = getattr(RunRecord, method), itertools.count(1)

    def changed(self, *given):
        is_last = next(times) == last
        if is_last and at == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        usual(self, *given)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(RunRecord, method, changed)

dying(sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1)))
sys.exit(program())
"""
"""The program, killed before or after the n-th time that it records something."""


@pytest.fixture
def effects(tmp_path):
    return tmp_path / "effects"


@pytest.fixture
def counting(configured, effects):
    """Configure the server, with what it is to do in its environment."""

    def configure(**env):
        table = script_server(COUNTING, env={"EFFECTS": str(effects), **env})
        configured("counting", table)

    return configure


def ten_steps():
    nodes = [step(f"n{number}", "mcp-counting-send", {"value": number}) for number in range(10)]
    return flow(*nodes, edges=[edge(f"n{it}", f"n{it + 1}") for it in range(9)])


def batch(count=60, at_once=16):
    items = {"items": list(range(count)), "parallel": True, "max_concurrent": at_once}
    return flow(step("all", "mcp-counting-send", {"value": "${item}"}, batch=items))


def inside():
    inner = flow(
        step("one", "mcp-counting-send", {"value": "${item}.1"}),
        step("two", "mcp-counting-send", {"value": "${item}.2"}),
        edges=[edge("one", "two")],
        inputs={"item": {"type": "any"}},
    )
    given = {"workflow": inner, "item": "${item}"}
    items = {"items": list(range(6)), "parallel": True, "max_concurrent": 3}
    return flow(step("outer", "workflow", given, batch=items))


WORKFLOWS = {
    "ten steps": (ten_steps(), [str(it) for it in range(10)]),
    "batch": (batch(), [str(it) for it in range(60)]),
    "inside": (inside(), [f"{it}.{part}" for it in range(6) for part in (1, 2)]),
}


def file(tmp_path, workflow):
    path = tmp_path / "wf.json"
    path.write_text(json.dumps(workflow))
    return path


def done(effects):
    return effects.read_text().split() if effects.exists() else []


def decided(pflow, effects):
    """Return the options that say of each open step what the server knows, and the steps."""
    shown = json.loads(pflow("resume", "--dry-run", "--json").stdout)["data"]["steps"]
    left = [it for it in shown if it["then"] == "decide"]
    words = []
    for it in left:
        value = str(it["params"]["value"])
        happened = value in done(effects)
        words += (
            ["--assume-done", f'{it["step"]}={{"value": 1}}']
            if happened
            else ["--assume-not-done", it["step"]]
        )
    return words, left


def finish(pflow, effects, expected):
    """Resume until the run has ended, and see that each effect is there once."""
    before = Counter(done(effects))
    assert set(before.values()) <= {1}
    words, left = decided(pflow, effects)
    if left:
        refused = pflow("resume", "--json")
        assert refused.exit_code == 4
        named = json.loads(refused.stdout)["error"]["details"]["undecided"]
        assert [it["step"] for it in named] == [it["step"] for it in left]
        assert Counter(done(effects)) == before
    ended = pflow("resume", *words)
    assert ended.exit_code == 0, ended.stderr
    assert sorted(done(effects)) == sorted(expected)
    return left


@pytest.mark.parametrize(
    ("method", "at"), [("sent", "before"), ("sent", "after"), ("ended", "before"), ("ended", "after")]
)
@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_run_killed_as_it_records_something_goes_on(
    counting, pflow, started, tmp_path, effects, name, method, at
):
    counting()
    workflow, expected = WORKFLOWS[name]
    # Steps that are sent at the same time are recorded together.
    most = 3 if method == "sent" and name != "ten steps" else 10
    random_numbers = random.Random(f"{name} {method} {at}")
    numbers = [random_numbers.randrange(1, most) for _ in range(KILLS)]
    for number in numbers:
        effects.unlink(missing_ok=True)
        program = (sys.executable, "-P", "-c", AT, method, at, str(number))
        run = started("run", file(tmp_path, workflow), program=program)
        run.communicate(timeout=60)
        assert run.returncode == -signal.SIGKILL
        left = finish(pflow, effects, expected)
        if method == "sent" and at == "before":
            assert len(left) < 16
        if (method, at) == ("sent", "after"):
            assert left


@pytest.mark.parametrize("when", ["before", "after", "answered"])
@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_run_killed_while_a_server_acts_goes_on(counting, pflow, started, tmp_path, effects, name, when):
    workflow, expected = WORKFLOWS[name]
    counting(KILL=f"{when} {expected[5]}")
    run = started("run", file(tmp_path, workflow))
    run.communicate(timeout=60)
    assert run.returncode == -signal.SIGKILL
    left = finish(pflow, effects, expected)
    if when != "answered":
        assert str(expected[5]) in [str(it["params"]["value"]) for it in left]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_server_that_ends_in_the_middle_of_a_call_leaves_an_open_step(
    counting, pflow, tmp_path, effects, name
):
    workflow, expected = WORKFLOWS[name]
    counting(END=expected[5])
    failed = pflow("run", file(tmp_path, workflow), "--json")
    assert failed.exit_code in {1, 4}
    if name == "ten steps":
        assert failed.exit_code == 4
        (left,) = json.loads(failed.stdout)["error"]["details"]["undecided"]
        assert (left["step"], left["type"], left["state"]) == ("n5", "mcp-counting-send", "unknown")
        assert finish(pflow, effects, expected) == [{**left, "then": "decide"}]


def test_a_run_killed_while_its_server_starts_leaves_nothing_open(
    counting, pflow, started, tmp_path, effects
):
    counting()
    effects.with_suffix(".slow").touch()
    run = started("run", file(tmp_path, ten_steps()))
    until(lambda: b"counting_server" in _children(run.pid))
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=60)
    assert json.loads(pflow("resume", "--list", "--json").stdout)["data"] == []


def _children(pid):
    found = b""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found += (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
    return found
