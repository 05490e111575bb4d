"""A record that cannot be used is named, with what to do about it; nothing of it is lost or done again."""

import json
import os
import shutil
import sqlite3

import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import EXIT_CODES, PflowError


@pytest.fixture
def path(bench):
    """The record of a run whose second step failed; `bench.sent` has what was sent."""
    bench.sent, bench.works = [], False

    @bench.acts("t-send", ["value"], ["value"])
    def send(shared, params):
        if params["value"] == "b" and not bench.works:
            raise ValueError("not now")
        bench.sent.append(params["value"])
        shared["value"] = params["value"]

    bench.workflow = flow(
        step("a", "t-send", {"value": "a"}), step("b", "t-send", {"value": "b"}), edges=[edge("a", "b")]
    )
    bench.run(bench.workflow)
    bench.works = True
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


def text(path):
    path.write_text("dear Ann, " * 500)


def empty(path):
    path.write_bytes(b"")


def halved(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def newer(path):
    change(path, ("PRAGMA user_version = 99",))


def linked(path):
    shutil.move(path, path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def folder(path):
    path.unlink()
    path.mkdir()


BAD = {
    foreign: "it is no record of a run",
    text: "file is not a database",
    empty: "it is no record of a run",
    halved: "malformed",
    newer: "is the record of a newer pflow",
    linked: "it is not a regular file",
    folder: "it is not a regular file",
}


@pytest.mark.parametrize("spoil", BAD, ids=lambda it: it.__name__)
def test_what_is_no_record_is_refused_and_left_as_it_is(bench, path, resumed, spoil):
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    for words in ((), ("--dry-run",), ("--skip", "a")):
        with pytest.raises(PflowError, match=BAD[spoil]) as caught:
            resumed(path.stem, *words)
        assert (EXIT_CODES[caught.value.kind], len(caught.value.suggestions)) == (2, 1)
    path.with_suffix(".summary").unlink()
    (listed,) = resumed("--list").data
    assert (listed["run"], BAD[spoil] in listed["state"]) == (path.stem, True)
    with pytest.raises(PflowError, match="no run to resume"):
        resumed()
    assert bench.sent == ["a"]
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_record_of_another_user_is_not_used(path, resumed, monkeypatch):
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(PflowError, match="belongs to another user"):
        resumed(path.stem)


@pytest.mark.parametrize("size", [0, 1, 50, 99, 100, 512, 4095, 4096, 4097, 9000, 12287, 12288])
def test_a_truncated_record_never_runs_a_step_again(bench, path, resumed, size):
    whole = path.read_bytes()
    assert len(whole) > size
    path.write_bytes(whole[:size])
    with pytest.raises(PflowError) as caught:
        resumed(path.stem)
    assert (caught.value.kind, caught.value.suggestions != ()) == ("config", True)
    assert bench.sent == ["a"]


@pytest.mark.parametrize("name", ["name", "workflow", "file", "folder", "inputs", "options", "owner"])
@pytest.mark.parametrize("value", ["7", "null", "[1]", "not json", None])
def test_a_head_that_pflow_did_not_write_is_refused(bench, path, resumed, name, value):
    if value is None:
        change(path, ("DELETE FROM run WHERE name = ?", (name,)))
    else:
        change(path, ("UPDATE run SET value = ? WHERE name = ?", (value, name)))
    with pytest.raises(PflowError, match=f"it has no valid {name}|is no JSON") as caught:
        resumed(path.stem)
    assert (caught.value.kind, bench.sent) == ("config", ["a"])


@pytest.mark.parametrize(
    "values",
    ["state = 'perhaps'", "place = x'00'", "identity = x'ff'", "shown = 'no json'", "key = x'00'"],
)
def test_a_step_that_pflow_did_not_write_is_refused(bench, path, resumed, values):
    change(path, (f"UPDATE step SET {values} WHERE place = 'a'",))
    with pytest.raises(PflowError, match="cannot be read") as caught:
        resumed(path.stem)
    assert (caught.value.kind, bench.sent) == ("config", ["a"])


def test_options_that_pflow_does_not_know_are_refused(path, resumed):
    change(path, ("UPDATE run SET value = ? WHERE name = 'options'", ('{"unknown": true}',)))
    with pytest.raises(PflowError, match="no valid options"):
        resumed(path.stem)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", None])
def test_a_lost_result_ends_the_run_before_anything_is_sent(bench, path, resumed, content):
    change(path, ("UPDATE step SET outputs = NULL, number = 77 WHERE place = 'a'",))
    if content is not None:
        path.with_suffix("").mkdir()
        (path.with_suffix("") / "77.json").write_bytes(content)
    report = resumed(path.stem)
    assert "a was done, and the record does not have what it returned" in report.error.message
    assert bench.sent == ["a"]
    assert resumed(path.stem, "--assume-done", "a={}").error is None
    assert bench.sent == ["a", "b"]


def test_a_workflow_that_is_not_valid_any_more_loses_nothing(bench, path, resumed, tmp_path):
    del bench.known["t-send"]
    with pytest.raises(PflowError) as caught:
        resumed(path.stem)
    assert caught.value.kind in ("validation", "not_found")
    with pytest.raises(PflowError) as caught:
        resumed(path.stem, "--workflow", str(tmp_path / "gone.json"))
    assert (caught.value.kind, EXIT_CODES[caught.value.kind]) == ("not_found", 2)
    (tmp_path / "bad.json").write_text(json.dumps({"nodes": 7}))
    with pytest.raises(PflowError) as caught:
        resumed(path.stem, "--workflow", str(tmp_path / "bad.json"))
    assert caught.value.kind == "validation"
    assert [it["run"] for it in resumed("--list").data] == [path.stem]
