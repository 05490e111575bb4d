"""Steps that end at the same time share a commit, and none of them is lost."""

import shutil
import sqlite3

import pytest
from programs import until

from pflow_mcp_plugin.host.running import run_record
from pflow_mcp_plugin.host.running.run_record import RecordedStep, RunRecord
from pflow_mcp_plugin.storage import StoreError

MANY = 2 * run_record._MOST_ROWS + 7


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(run_record, "_MOMENT", 0)
    record = RunRecord.create(tmp_path, "run-1", {"name": "items"})
    yield record
    record.close()


@pytest.fixture
def killed(record, tmp_path):
    """Return the steps, or something else, as a kill at this moment would leave them."""

    def steps(left):
        return {step.place: (step.state, left.outputs(step)) for step in left.steps("state = 'done'")}

    def read(what=steps):
        shutil.copytree(record.path.parent, tmp_path / "killed", dirs_exist_ok=True)
        left = RunRecord.open(tmp_path / "killed" / record.path.name)
        try:
            return what(left)
        finally:
            left.close()

    return read


def items(count):
    return [
        RecordedStep(place=f"a[{number}]", node="a", type="t", identity=f"{number}", safe=False, shown="{}")
        for number in range(count)
    ]


def end(record, steps):
    for number, step in enumerate(steps):
        step.state, step.action = "done", "default"
        record.ended(step, {"result": number}, soon=True)


def test_what_ended_is_committed_though_nothing_else_is_sent(record, killed):
    end(record, items(3))
    until(lambda: not record._steps)
    assert killed() == {f"a[{number}]": ("done", {"result": number}) for number in range(3)}


def test_more_steps_than_one_statement_writes(record, killed, monkeypatch):
    monkeypatch.setattr(record, "_commit_later", lambda: None)
    steps = items(MANY)
    record.sent(steps)
    assert [step.number for step in record.steps("state = 'sent'")] == list(range(1, MANY + 1))
    end(record, steps)
    record.sent(items(1))
    assert killed() == {f"a[{number}]": ("done", {"result": number}) for number in range(MANY)}


def test_what_is_traced_of_a_batch_is_written_with_the_next_commit(record, killed, monkeypatch):
    monkeypatch.setattr(record, "_commit_later", lambda: None)
    batch = record.put_entry({"id": "a"}, None, None, None, soon=False)
    item = record.put_entry({"index": 0}, None, batch, 0, soon=True)
    for ended in range(3):
        record.put_entry({"id": "a", "ended": ended}, batch, None, None, soon=True)
    assert killed(RunRecord.entries) == [({"id": "a"}, batch, None, None)]
    record.sent(items(1))
    left = [({"id": "a", "ended": 2}, batch, None, None), ({"index": 0}, item, batch, 0)]
    assert killed(RunRecord.entries) == left


def test_what_ended_waits_for_the_next_commit_if_one_fails(record, killed, monkeypatch):
    monkeypatch.setattr(record, "_commit_later", lambda: None)
    connection = record._connection

    class Full:
        def execute(self, *given):
            raise sqlite3.OperationalError("database or disk is full")

    end(record, items(2))
    record._connection = Full()
    with pytest.raises(StoreError, match="full"):
        record.sent(items(1))
    record._connection = connection
    assert killed() == {}
    record.sent([])
    assert len(killed()) == 2
    assert record.steps("state = 'sent'") == []


def test_what_ended_is_there_after_the_end_of_the_run(record, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "_commit_later", lambda: None)
    steps = items(2)
    end(record, steps)
    steps[0].state = "unknown"
    record.ended(steps[0], soon=True)
    assert [step.place for step in record.end("It failed", keep=False)] == ["a[0]"]
    reopened = RunRecord.open(record.path)
    assert [step.state for step in reopened.steps()] == ["unknown", "done"]
    reopened.close()
