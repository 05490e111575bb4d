"""A record that cannot be used is named, with what to do about it; nothing of it is lost or done again."""

import json
import os
import shutil
import sqlite3
from itertools import product

import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import EXIT_CODES, PflowError
from pflow_mcp_plugin.host.running import run_record

WORKFLOW = flow(step("a", "t-send", {"value": "a"}), step("b", "t-send", {"value": "b"}))


@pytest.fixture
def path(bench, sent):
    """The record of a run whose second step failed."""
    bench.run_failing({"b": ValueError("not now")}, WORKFLOW)
    (path,) = (bench.host.paths.state / "runs").rglob("*.db")
    return path


def change(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(*statement)
    connection.close()


def foreign(path):
    path.unlink()
    change(path, ("CREATE TABLE mail AS SELECT 'dear Ann'",), ("PRAGMA user_version = 1",))


def linked(path):
    shutil.move(path, path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def folder(path):
    path.unlink()
    path.mkdir()


BAD = {
    "foreign": (foreign, "it is not the record of a run"),
    "text": (lambda path: path.write_text("dear Ann, " * 500), "file is not a database"),
    "empty": (lambda path: path.write_bytes(b""), "it is not the record of a run"),
    "cut in its head": (lambda path: os.truncate(path, 99), "malformed"),
    "cut at a page": (lambda path: os.truncate(path, 4096), "malformed"),
    "cut in a page": (lambda path: os.truncate(path, 12_287), "malformed"),
    "newer": (lambda path: change(path, ("PRAGMA user_version = 99",)), "is the record of a newer pflow"),
    "linked": (linked, "it is not a regular file"),
    "folder": (folder, "it is not a regular file"),
}


@pytest.mark.parametrize(("spoil", "why"), BAD.values(), ids=BAD)
def test_what_is_no_record_is_refused_and_left_as_it_is(path, sent, resumed, spoil, why):
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    for words in ((), ("--dry-run",), ("--skip", "a")):
        with pytest.raises(PflowError, match=why) as caught:
            resumed(path.stem, *words)
        assert (EXIT_CODES[caught.value.kind], len(caught.value.suggestions)) == (2, 1)
    path.with_suffix(".summary").unlink()
    (listed,) = resumed("--list").data
    assert (listed["run"], why in listed["state"]) == (path.stem, True)
    with pytest.raises(PflowError, match=why):
        resumed()
    assert sent == ["a"]
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_an_empty_record_of_a_run_that_was_killed_before_it_began_can_be_abandoned(path, resumed):
    path.write_bytes(b"")
    with pytest.raises(PflowError) as caught:
        resumed(path.stem)
    assert caught.value.suggestions[0].endswith(f"pflow resume {path.stem} --abandon")
    resumed(path.stem, "--abandon")
    assert not path.exists()
    assert resumed("--list").data == []


def test_a_record_that_is_removed_while_it_is_opened_is_not_made_again(path, resumed, monkeypatch):
    def removed(path, *, is_new):
        path.unlink()
        return usual(path, is_new=is_new)

    usual = run_record._connected
    monkeypatch.setattr(run_record, "_connected", removed)
    with pytest.raises(PflowError, match="its record was removed"):
        resumed(path.stem)
    assert not path.exists()


def test_a_record_of_another_user_is_not_used(path, resumed, monkeypatch):
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(PflowError, match="belongs to another user"):
        resumed(path.stem)


DEEP = pytest.param("inputs", "[" * 100_000, id="deep")
HEAD = ["name", "workflow", "file", "folder", "inputs", "options", "owner"]


@pytest.mark.parametrize(
    ("name", "value"),
    [*product(HEAD, ["7", "not json", None]), ("options", '{"unknown": true}'), DEEP],
)
def test_a_head_that_pflow_did_not_write_is_refused(path, sent, resumed, name, value):
    if value is None:
        change(path, ("DELETE FROM run WHERE name = ?", (name,)))
    else:
        change(path, ("UPDATE run SET value = ? WHERE name = ?", (value, name)))
    with pytest.raises(PflowError, match=f"it has no valid {name}|is not JSON") as caught:
        resumed(path.stem)
    assert (caught.value.kind, sent) == ("config", ["a"])


@pytest.mark.parametrize(
    "values",
    ["state = 'perhaps'", "place = x'00'", "shown = 'no json'"],
)
def test_a_step_that_pflow_did_not_write_is_refused(path, sent, resumed, values):
    change(path, (f"UPDATE step SET {values} WHERE place = 'a'",))
    with pytest.raises(PflowError, match="cannot be read") as caught:
        resumed(path.stem)
    assert (caught.value.kind, sent) == ("config", ["a"])


@pytest.mark.parametrize("spoil", [os.mkfifo, lambda file: file.write_text("[" * 100_000)])
def test_a_damaged_summary_is_made_anew(path, resumed, spoil):
    whole = resumed("--list").data
    summary = path.with_suffix(".summary")
    summary.unlink()
    spoil(summary)
    assert resumed("--list").data == whole
    assert json.loads(summary.read_bytes())["state"] == "failed"


@pytest.mark.parametrize("content", [b"{", b"[]", os.mkfifo, None])
def test_a_lost_result_ends_the_run_before_anything_is_sent(path, sent, resumed, content):
    change(path, ("UPDATE step SET outputs = NULL, number = 77 WHERE place = 'a'",))
    if content is not None:
        path.with_suffix("").mkdir()
        file = path.with_suffix("") / "77.json"
        content(file) if callable(content) else file.write_bytes(content)
    report = resumed(path.stem)
    assert "a was done, but the record does not have its result" in report.error.message
    assert sent == ["a"]
    assert resumed(path.stem, "--assume-done", "a={}").error is None
    assert sent == ["a", "b"]


def test_a_workflow_that_is_not_valid_any_more_loses_nothing(bench, path, resumed, mended, tmp_path):
    del bench.known["t-send"]
    with pytest.raises(PflowError) as caught:
        resumed(path.stem)
    assert caught.value.kind in ("validation", "not_found")
    with pytest.raises(PflowError) as caught:
        resumed(path.stem, "--workflow", str(tmp_path / "gone.json"))
    assert (caught.value.kind, EXIT_CODES[caught.value.kind]) == ("not_found", 2)
    with pytest.raises(PflowError) as caught:
        resumed(path.stem, *mended({"nodes": 7}))
    assert caught.value.kind == "validation"
    assert [it["run"] for it in resumed("--list").data] == [path.stem]
