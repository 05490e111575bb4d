"""A tool that takes an idempotency key acts once, however its run is killed, edited and resumed."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path

import pytest
from programs import script_server
from workflow_parts import edge, flow, step

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]
COUNTING = Path(__file__).with_name("counting_server.py")
KILL = "p2"
"""The value at which a run is killed: after the effect, and before the answer."""


@pytest.fixture
def effects(tmp_path):
    return tmp_path / "effects"


@pytest.fixture
def counting(configured, effects):
    def configure(**env):
        table = script_server(COUNTING, env={"EFFECTS": str(effects), **env})
        configured("counting", {**table, "idempotency_argument": {"pay": "idempotency_key"}})

    return configure


def paying(*names, values=("p1", "p2", "p3")):
    nodes = [
        step(name, "mcp-counting-pay", {"value": value}) for name, value in zip(names, values, strict=True)
    ]
    return flow(*nodes, edges=[edge(one, other) for one, other in pairwise(names)])


def in_batch(*values):
    items = {"items": list(values), "parallel": False}
    return flow(step("all", "mcp-counting-pay", {"value": "${item}"}, batch=items))


def lines(path):
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize(
    ("document", "edited"),
    [
        (paying("a", "b", "c"), None),
        (paying("a", "b", "c"), paying("a", "renamed", "c")),
        (in_batch("p1", "p2", "p3"), None),
        (in_batch("deleted", "p2", "p3"), in_batch("p2", "p3")),
    ],
    ids=["as it was", "renamed", "batch", "an item less"],
)
def test_a_run_killed_after_the_effect_sends_the_first_key_again(
    counting, pflow, started, workflow, effects, document, edited
):
    counting(KILL=f"after {KILL}")
    run = started("run", workflow(**document))
    run.communicate(timeout=60)
    assert run.returncode == -signal.SIGKILL
    assert lines(effects)[-1] == KILL
    words = [] if edited is None else ["--workflow", workflow(**edited)]
    if edited == in_batch("p2", "p3"):
        words += ["--forget", "all[0]"]
    ended = pflow("resume", *words)
    assert ended.exit_code == 0, ended.stderr
    assert lines(effects)[1:] == ["p2", "p3"]
    first, second, again, third = lines(effects.with_suffix(".keys"))
    assert second == again
    assert len({first, second, third}) == 3
