"""A run is killed, its workflow edited, and the run resumed: whatever the edit, nothing is sent twice."""

import json
import random
import shutil
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import product
from typing import Any

import attrs
import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.host.running.run_record import RunRecord

VALUES = ["a", "b", "c", "d", "e", "f"]


def plain(values: list[str], name: str) -> dict[str, Any]:
    return flow(*(step(f"{name}{number}", "t-send", {"value": it}) for number, it in enumerate(values)))


def batch(values: list[str], name: str) -> dict[str, Any]:
    items = {"items": values, "parallel": name == "renamed", "max_concurrent": 3}
    return flow(step(name, "t-send", {"value": "${item}"}, batch=items))


def inside(values: list[str], name: str) -> dict[str, Any]:
    """Send each value in a run of another workflow, after one that is its own."""
    inner = flow(
        step("first", "t-send", {"value": "${value}!"}),
        step(name, "t-send", {"value": "${value}"}),
        inputs={"value": {}},
    )
    given = {"workflow": inner, "value": "${item}"}
    return flow(step("outer", "workflow", given, batch={"items": values}))


def loop(values: list[str], name: str) -> dict[str, Any]:
    return flow(
        step("last", "transform", {"expression": f"not_null({name}.value, 'none')"}),
        step("pick", "t-pick", {"values": values, "last": "${last.result}"}),
        step(name, "t-send", {"value": "${pick.value}"}),
        edges=[edge("last", "pick"), edge("pick", name), edge(name, "last", when="pick.more")],
    )


def loop_around(values: list[str], name: str) -> dict[str, Any]:
    """Send each value in a run of another workflow, in a loop."""
    workflow = loop(values, "outer")
    inner = flow(step(name, "t-send", {"value": "${value}"}), inputs={"value": {}})
    workflow["nodes"][-1] = step("outer", "workflow", {"workflow": inner, "value": "${pick.value}"})
    return workflow


VARIANTS = [plain, batch, inside, loop, loop_around]


def renamed(values: list[str], at: int) -> tuple[list[str], str]:
    return values, "renamed"


def without_first(values: list[str], at: int) -> tuple[list[str], str]:
    return values[1:], "send"


def swapped(values: list[str], at: int) -> tuple[list[str], str]:
    """Swap what was done last with what the run was doing, and the ends."""
    order = [*values]
    order[at - 1], order[at] = order[at], order[at - 1]
    order[0], order[-1] = order[-1], order[0]
    return order, "send"


def changed(values: list[str], at: int) -> tuple[list[str], str]:
    return [*values[: at - 1], f"changed {values[at - 1]}", *values[at:]], "send"


def inserted(values: list[str], at: int) -> tuple[list[str], str]:
    return [f"before {values[0]}", *values], "send"


EDITS = [renamed, without_first, swapped, changed, inserted]
STATES = ["before", "sent", "happened"]
"""The run is killed before it records the step, when it has done so, or when the step has happened."""


class Killed(Exception):
    """Ends a run from whose record a copy was made."""


@pytest.fixture
def trial(bench, resumed, monkeypatch):
    """Run workflows in this process, kill them and resume them."""
    return Trial(bench, resumed, monkeypatch)


class Trial:
    """Runs that are killed at a value, which leaves what the disk has then.

    Attributes:
        sent: The values that were sent; one that comes again with the same key has no effect.
        keys: The keys that came with each value.
    """

    def __init__(self, bench, resume, monkeypatch):
        self.bench = bench
        self.resume = resume
        self.sent: list[str] = []
        self.keys: defaultdict[str, list[str]] = defaultdict(list)
        self.records = bench.host.paths.state / "runs"
        self._at = ("", "")
        self._lock = threading.Lock()
        self._usual = RunRecord.sent

        def recorded(record, steps):
            self._record(record, steps)

        monkeypatch.setattr(RunRecord, "sent", recorded)
        bench.acts("t-send", ["value", "key"], ["value"])(self._send)
        getattr(bench.module, "t-send").announces_sending = True
        bench.acts("t-pick", ["values", "last"], ["value", "more"])(self._pick)
        bench.known["t-pick"] = attrs.evolve(bench.known["t-pick"], purity="flow_safe")

    def take_keys(self):
        """Let the steps that send have idempotency keys from now on."""
        known = self.bench.known
        known["t-send"] = attrs.evolve(known["t-send"], idempotency_argument="key")

    def _send(self, shared, params):
        value, current = params["value"], shared["__run__"].current_step()
        key = current.idempotency_key()
        current.sending()
        shared["value"] = value
        with self._lock:
            if not key or key not in self.keys[value]:
                self.sent.append(value)
            self.keys[value].append(key)
            self._die("happened", value)

    def _pick(self, shared, params):
        values, last = params["values"], params["last"]
        at = values.index(last) + 1 if last in values else 0
        shared["value"], shared["more"] = values[at], at + 1 < len(values)

    def _record(self, record, steps):
        values = [json.loads(it.shown)["value"] for it in steps]
        for state in ("before", "sent"):
            if state == "sent":
                self._usual(record, steps)
            with self._lock:
                for value in values:
                    self._die(state, value)

    def _die(self, state, value):
        if self._at == (state, value):
            self._at = ("", "")
            self._then = [*self.sent], {it: [*keys] for it, keys in self.keys.items()}
            shutil.copytree(self.records, self.records.with_name("killed"))
            raise Killed

    def arm(self, state, value):
        """Let the run be killed at a value."""
        self._at = (state, value)

    def kill(self, workflow, state, value):
        """Run a workflow until it is killed."""
        self.sent.clear()
        self.keys.clear()
        shutil.rmtree(self.records, ignore_errors=True)
        self.arm(state, value)
        with suppress(Killed):
            self.bench.run(workflow)
        assert self._was_killed()

    def _was_killed(self):
        """Return whether the run was killed; if so, only what the disk had then is left."""
        self._at = ("", "")
        left = self.records.with_name("killed")
        if not left.exists():
            return False
        shutil.rmtree(self.records, ignore_errors=True)
        left.rename(self.records)
        self.sent, keys = self._then  # what items of a batch have done since then did not happen
        self.keys = defaultdict(list, keys)
        return True

    def finish(self, workflow):
        """Resume a run with an edited workflow until it has ended; return what was to be decided.

        Return None if the run was killed again.
        """
        path = self.records.with_name("edited.json")
        path.write_text(json.dumps(workflow))
        named, words, at = [], [], self._at
        for _ in range(3 * len(VALUES)):
            before, self._at = [*self.sent], at
            report = self.resume("--workflow", str(path), *words)
            if self._was_killed():
                return None
            if report.error is None:
                return named
            details = report.error.details
            if "undecided" in details:
                assert self.sent == before
            left = details.get("undecided") or details["unmatched"]
            words = [word for it in left for word in self._decision(it)]
            named += [it["params"]["value"] for it in left]
        raise AssertionError("it does not end")

    def _decision(self, step):
        """Say what became of a step, as the one knows who looks at what was sent."""
        value = step["params"]["value"]
        if step["state"] == "done":
            return ["--forget", step["step"]]
        if value in self.sent:
            return ["--assume-done", f"{step['step']}={json.dumps({'value': value})}"]
        return ["--assume-not-done", step["step"]]


TRIALS = [
    *((*it, False) for it in product(EDITS, VARIANTS, STATES)),
    *((*it, True) for it in product([renamed, swapped], VARIANTS, ["sent", "happened"])),
]
"""The edits: 75 without and 20 with idempotency keys."""


@pytest.mark.parametrize(("edit", "variant", "state", "keyed"), TRIALS)
def test_no_edit_makes_a_resumed_run_send_something_twice(trial, edit, variant, state, keyed):
    if keyed:
        trial.take_keys()
    at = random.Random(f"{edit.__name__} {variant.__name__} {state}").randrange(1, 6)
    trial.kill(variant(VALUES, "send"), state, VALUES[at])
    before = [*trial.sent]
    values, name = edit(VALUES, at)
    named = trial.finish(variant(values, name))
    assert set(Counter(trial.sent).values()) == {1}
    assert set(values) <= set(trial.sent)
    assert set(trial.sent) <= {it + end for it in {*VALUES, *values} for end in ("", "!")}
    # What nobody knows was named, and, before anything was sent, what is not in the workflow any more.
    gone = {it for it in before if it.rstrip("!") not in values}
    unknown = {VALUES[at]} if state != "before" else set()
    asked = set() if keyed else unknown
    assert asked <= set(named) <= {*before, *unknown}
    assert gone <= {*named, *unknown} or trial.sent == before
    if edit is renamed:
        assert set(named) == asked
    if keyed:
        keys = [{*trial.keys[value]} for value in trial.sent]
        assert [len(it) for it in keys] == [1] * len(keys)  # what came again had the first key
        assert len(set().union(*keys)) == len(keys)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("number", range(8))
def test_a_run_that_is_edited_and_killed_again_and_again_sends_nothing_twice(trial, number, keyed):
    if keyed:
        trial.take_keys()
    chance = random.Random(number)
    variant, values, name = chance.choice(VARIANTS), VALUES, "send"
    trial.kill(variant(values, name), chance.choice(STATES), chance.choice(VALUES[1:]))
    for _ in range(3):
        values, name = chance.choice(EDITS)(values, chance.randrange(1, len(values)))
        trial.arm(chance.choice(STATES), chance.choice(values))
        if trial.finish(variant(values, name)) is not None:
            break
    else:
        trial.finish(variant(values, name))
    assert set(Counter(trial.sent).values()) == {1}
    assert set(values) <= set(trial.sent)
    assert not list(trial.records.rglob("*.db"))
